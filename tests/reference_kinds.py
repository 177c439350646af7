"""References to the columns of a join's stream, held against those after Spark's own join.

For classic sessions and Spark Connect: nothing in here asks for the one or the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import AsOf, BatchTable, Incremental

__all__ = ["Sides", "asof", "differences", "incremental"]

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

    Args:
        sides: what is joined.
        kinds: make the results of a stream: of its first join, and its last.
    """
    found = []
    for name, stream in sides.streams.items():
        for kind, made in kinds.items():
            first, last = made(stream)
            own_first, own_last = sides.own(stream, two=first is not last)
            own = uses(sides, stream, own_first)
            for use, ours in uses(sides, stream, first).items():
                wanted, got = _columns(own[use], own_last), _columns(ours, last)
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
