"""References to the columns of a join's stream, held against those after Spark's own join.

For classic sessions and Spark Connect: nothing in here asks for the one or the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import values_of

import bsjoin
from bsjoin import AsOf, BatchTable, Full, Incremental

Uses = Mapping[str, Callable[[DataFrame], DataFrame]]


@dataclass(frozen=True)
class Sides:
    """A stream, what it is made of, and the tables of one or two joins."""

    raw: DataFrame
    more: DataFrame
    streams: Mapping[str, DataFrame]
    names: DataFrame
    prices: DataFrame
    tables: Mapping[str, BatchTable]

    @classmethod
    def of(cls, spark: SparkSession) -> Sides:
        raw = spark.sql(
            "SELECT * FROM VALUES (1L, 10L, 2.0D), (2L, 20L, 3.0D), (9L, 90L, 1.0D) "
            "AS t(k, amount, x)"
        )
        more = spark.sql("SELECT * FROM VALUES (1L, 'q'), (2L, 'w') AS t(k2, zz)")
        named = raw.where("amount > 0").alias("o")
        names = spark.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS t(k, name)")
        prices = spark.sql("SELECT * FROM VALUES ('a', 5L), ('b', 6L) AS t(name, price)")
        times = names.selectExpr("k", "0D AS at", "name")
        return cls(
            raw=raw,
            more=more,
            streams={
                "an alias": named,
                "none": raw.where(raw["amount"] > 5),
                "one computed": raw.select("k", (raw.amount + 1).alias("amount"), "x").alias("o"),
                "one replaced": raw.alias("o").withColumn("amount", F.col("amount") * 2),
                "joined": named.join(more, F.col("o.k") == more["k2"], "left"),
            },
            names=names,
            prices=prices,
            tables={
                "names": BatchTable.build(names, on="k"),
                "prices": BatchTable.build(prices, on="name"),
                "times": BatchTable.build(times, on="k", when=AsOf("x", "at")),
            },
        )

    def own(self, stream: DataFrame, two: bool) -> tuple[DataFrame, DataFrame]:
        """What Spark's own joins return: the first, and the last."""
        first = stream.join(self.names.withColumnRenamed("k", "key"), stream["k"] == F.col("key"))
        first = first.drop("key")
        if not two:
            return first, first
        prices = self.prices.withColumnRenamed("name", "key")
        return first, first.join(prices, F.col("name") == F.col("key")).drop("key")

    def ours(self, stream: DataFrame, two: bool, **how: Any) -> tuple[DataFrame, DataFrame]:
        """The same of bsjoin."""
        first = bsjoin.join(stream, how.pop("names", self.tables["names"]), "k", **how)
        return first, self.tables["prices"].join(first) if two else first


def uses(sides: Sides, stream: DataFrame, first: DataFrame) -> Uses:
    """All that one does with a reference to a column of a join's stream."""
    raw = sides.raw
    return {
        "select": lambda df: df.select(stream["amount"], stream.x + 1),
        "of what it is made of": lambda df: df.select(raw["k"], raw["x"]),
        "computed there": lambda df: df.select(raw["amount"]),
        "by alias": lambda df: df.select("o.k", df["o.x"]),
        "all of an alias": lambda df: df.select("o.*"),
        "of the other side": lambda df: df.drop(sides.more["zz"]),
        "filter": lambda df: df.where(stream["amount"] > 10),
        "withColumn": lambda df: df.withColumn("z", stream.amount * 2),
        "groupBy": lambda df: df.groupBy(stream["x"]).agg(F.sum(stream["k"])),
        "sort": lambda df: df.sort(stream["k"].desc()),
        "drop": lambda df: df.drop(stream["amount"]),
        "drop of what it is made of": lambda df: df.drop(raw["x"]),
        "of the first join": lambda df: df.select(first["name"], first["k"]),
        "drop of the first join": lambda df: df.drop(first["name"]),
        "with itself": lambda df: df.join(df.where("k > 1"), "k"),
        "with the stream": lambda df: df.join(stream, df["k"] == stream["k"]),
        "union": lambda df: df.union(df).select(df["k"]),
    }


def differences(
    sides: Sides, kinds: Mapping[str, Callable[[DataFrame], tuple[DataFrame, DataFrame]]]
) -> list[str]:
    """Where the columns of a use, or that it is an error, are not those of Spark's own join.

    Each stream has all uses, which take the kinds in turns.

    Args:
        sides: what is joined.
        kinds: make the results of a stream: of its first join, and its last.
    """
    found = []
    for place, (name, stream) in enumerate(sides.streams.items()):
        made = []
        for kind, make in kinds.items():
            first, last = make(stream)
            own, own_last = sides.own(stream, first is not last)
            both = uses(sides, stream, first), uses(sides, stream, own)
            made.append((kind, last, own_last, *both))
        for number, use in enumerate(made[0][3]):
            kind, last, own_last, of_ours, of_own = made[(place + number) % len(made)]
            wanted, got = _columns(of_own[use], own_last), _columns(of_ours[use], last)
            if wanted != got:
                found.append(f"{kind}, {name}, {use}: {got}, Spark {wanted}")
    return found


def _columns(use: Callable[[DataFrame], DataFrame], df: DataFrame) -> list[str] | str:
    try:
        return use(df).columns
    except Exception as error:
        return type(error).__name__


def asof(sides: Sides) -> Callable[[DataFrame], tuple[DataFrame, DataFrame]]:
    """A range join, which brings the table's point besides."""

    def made(stream: DataFrame) -> tuple[DataFrame, DataFrame]:
        result = sides.tables["times"].join(stream, select=["name"])
        return result, result

    return made


def incremental(sides: Sides, source: Any) -> Callable[[DataFrame], tuple[DataFrame, DataFrame]]:
    """A join with a source."""
    return lambda stream: sides.ours(
        stream, False, names=source, cache=Incremental(max_rows=100), select=["name"]
    )


@dataclass(frozen=True)
class TableKind:
    """A join, and the DataFrames to whose columns one refers after it.

    Args:
        ours: the result of bsjoin.
        own: that of Spark's own join, with the same columns in the same order.
        of: the DataFrame whose columns are referred to.
        alias: its name, if it has one.
        names: columns to refer to.
        renamed: those of them that have another name in the result of bsjoin.
    """

    ours: DataFrame
    own: DataFrame
    of: DataFrame
    names: tuple[str, ...]
    alias: str = ""
    renamed: tuple[str, ...] = ()


def table_kinds(spark: SparkSession, folder: Path, *names: str) -> dict[str, TableKind]:
    """Joins with tables that are given as DataFrames, all or some; built in a folder, once."""
    raw = spark.sql("SELECT * FROM VALUES (1L, 10, 'p'), (2L, 20, 'q'), (9L, 90, 'r') t(k, n, s)")
    more = spark.sql("SELECT * FROM VALUES (1L, 'm'), (2L, 'o') AS t(k2, zz)")
    base = spark.sql(
        "SELECT * FROM VALUES (1L, 'a', 100, 0), (2L, 'b', 200, 1), (3L, 'c', 300, 2) "
        "AS t(k, city, n, at)"
    )
    orders = raw.alias("o")
    places = base.where("k > 0").drop("n", "at")
    named = places.withColumn("code", F.col("city")).alias("c")
    prices = spark.sql("SELECT * FROM VALUES ('a', 5L), ('b', 6L) AS t(name, price)").alias("p")

    def own(stream: DataFrame, table: DataFrame, how: str = "inner") -> DataFrame:
        return stream.join(table, stream["k"] == table["k"], how).drop(table["k"])

    def ours(stream: DataFrame, table: DataFrame, on: Any, how: str = "inner", **more: Any) -> Any:
        # One folder for each table and condition.
        name = f"{'-'.join(table.columns)}{'when' in more}"
        full = Full(store=folder / name)
        return bsjoin.join(stream, table, on, how, cache=full, **more)  # type: ignore[arg-type]

    @functools.cache
    def chain() -> tuple[DataFrame, DataFrame]:
        last = own(orders, named).join(prices, F.col("city") == prices["name"])
        return ours(ours(orders, named, "k"), prices, {"city": "name"}), last.drop(prices["name"])

    def selected() -> TableKind:
        other = spark.sql("SELECT * FROM VALUES (1L, 100), (2L, 200) AS t(k, m)")
        columns = "k", places["city"], "n"
        return TableKind(
            ours(ours(orders, places, "k").select(*columns), other, "k"),
            own(own(orders, places).select(*columns), other),
            places,
            ("city",),
        )

    joined = orders.join(more, F.col("o.k") == more["k2"], "left")
    timed = AsOf("n", "at")
    kinds: dict[str, Callable[[], TableKind]] = {
        "an alias, and other names": lambda: TableKind(
            ours(orders, base.alias("c"), "k"), own(orders, base.alias("c")), base,
            ("city", "at", "n"), "c", ("n",),
        ),
        "a stream that is a join": lambda: TableKind(
            ours(joined, named, "k"), own(joined, named), named, ("city", "code"), "c"
        ),
        "the first of a chain": lambda: TableKind(*chain(), named, ("city", "code"), "c"),
        "a selection between": selected,
        "the last of a chain": lambda: TableKind(*chain(), prices, ("price",), "p"),
        "a range join": lambda: TableKind(
            ours(orders, base, "k", when=timed, select=["city", "at"]),
            own(orders, base.select("k", "city", "at")), base, ("city", "at"),
        ),
        "a stored table": lambda: TableKind(
            BatchTable.build(named, on="k").join(orders), own(orders, named), named,
            ("city", "code"), "c",
        ),
    }  # fmt: skip
    return {name: kinds[name]() for name in names or kinds}


def table_uses(name: str) -> dict[str, Callable[[TableKind, DataFrame], DataFrame]]:
    """All that one does with a reference to a column of a join's table."""
    return {
        "select": lambda kind, df: df.select("k", kind.of[name]),
        "filter": lambda kind, df: df.where(kind.of[name].isNotNull()),
        "withColumn": lambda kind, df: df.withColumn("z", F.concat(kind.of[name], F.lit("!"))),
        "groupBy": lambda kind, df: df.groupBy(kind.of[name]).count(),
        "sort": lambda kind, df: df.sort(kind.of[name].desc()),
        "drop": lambda kind, df: df.drop(kind.of[name]),
        "union": lambda kind, df: df.union(df).where(kind.of[name].isNotNull()),
        "another join": lambda kind, df: df.join(
            df.sparkSession.range(1, 2).toDF("one"), kind.of[name].isNotNull()
        ),
        "by name": lambda kind, df: df.select(f"{kind.alias}.{name}" if kind.alias else name),
        "all of the table": lambda kind, df: df.select(f"{kind.alias}.*" if kind.alias else "*"),
    }


def table_differences(
    kinds: Mapping[str, TableKind],
    known: dict[Any, Any],
    *,
    renamed_are_refused: bool,
    first: int = 0,
) -> list[str]:
    """Where a reference does not hold as after Spark's own join, with what it gives.

    Args:
        kinds: the joins; each has every other use, and these take its columns in turns.
        known: what Spark's own give, of the same kinds; filled here.
        renamed_are_refused: whether columns with another name cannot be referred to.
        first: with which use the first join begins; with 1 all have those that they have not
            with 0, the default.
    """
    found = []
    ours, own = dict[str, DataFrame](), dict[str, DataFrame]()
    for place, (name, kind) in enumerate(kinds.items(), first):
        same = [column for column in kind.names if column not in kind.renamed]
        for number, use in [*enumerate(table_uses(""))][place % 2 :: 2]:
            names = same if use == "by name" else kind.names
            column = names[number // 2 % len(names)]
            made = table_uses(column)[use]
            wanted, got = known.get((name, column, use)), _width(made, kind, kind.ours)
            if wanted is None:
                wanted = known[name, column, use] = _width(made, kind, kind.own)
            if column not in same and renamed_are_refused and use != "all of the table":
                wanted = "AnalysisException"
            if got != wanted:
                found.append(f"{name}, {use} of {column}: {got}, Spark {wanted}")
        held = [kind.of[column] for column in (same if renamed_are_refused else kind.names)]
        some = held[0].cast("string").isin("a", "c", "1")
        for df, frames in ((kind.ours, ours), (kind.own, own)):
            frames[name] = df.where(~some | held[0].isNull()).select("k", *held)
    if unknown := {name: df for name, df in own.items() if name not in known}:
        known.update(values_of(unknown))
    for name, values in values_of(ours).items():
        if values != known[name]:
            found.append(f"{name}, values: {values}, Spark {known[name]}")
    return found


def _width(
    made: Callable[[TableKind, DataFrame], DataFrame], kind: TableKind, df: DataFrame
) -> int | str:
    """How many columns a use has, whose names may differ; or its error."""
    try:
        return len(made(kind, df).columns)
    except Exception as error:
        return type(error).__name__
