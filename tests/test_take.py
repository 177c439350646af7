"""One of several intervals: the row that a window function of Spark takes.

Every source, cache and order is drawn by the fuzz.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import HOWS, counted, of_join_type, one_part, right_rows, rows_of_all
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from sessions import CODE, configured
from test_asof_ties import CACHED, chosen

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Within
from bsjoin.errors import ColumnError, KeyTypeError, TableMismatchError


def table_rows(seed: int) -> pa.Table:
    """Intervals that are nested, equal, empty or without an end, with hostile neighbours."""
    draw = random.Random(seed)
    starts = [draw.choice([None, 5, 5, 5, -(2**63), *range(30)]) for _ in range(900)]
    lengths = [draw.choice([None, -3, 0, 1, 7, 7, 20]) for _ in starts]
    return pa.table(
        {
            "k": pa.array([draw.choice([1, 2]) for _ in starts], pa.int64()),
            "t": pa.array([draw.choice([None, "", "b", "B", "ü"]) for _ in starts]),
            "q": pa.array(starts, pa.int64()),
            "y": pa.array(
                [
                    None if n is None else (s or 0) + n + 3
                    for s, n in zip(starts, lengths, strict=True)
                ],
                pa.int64(),
            ),
            "a": pa.array([draw.choice([None, 1, 2]) for _ in starts], pa.int64()),
            "n": pa.array(range(len(starts)), pa.int64()),
        }
    )


def points(spark: SparkSession) -> DataFrame:
    """Points inside and beside the intervals; at 100 are only those without an end."""
    return spark.sql(
        "SELECT id AS s, 1 + id % 3 AS k, CASE id WHEN 40 THEN NULL WHEN 41 THEN 100 "
        "ELSE id DIV 3 - 1 END AS p FROM range(100)"
    )


def by_spark(
    stream: DataFrame,
    table: DataFrame,
    when: Within,
    order_by: list[Column],
    passes: str = "true",
) -> DataFrame:
    """The row that Spark's window function takes of those that contain the point, and pass."""
    p, q, y = F.col("p"), F.col("q"), F.col("y")
    holds = (q <= p) & (y.isNull() | (p < y))
    pairs = stream.join(table.withColumnRenamed("k", "l"), (F.col("k") == F.col("l")) & holds)
    pairs = pairs.where(passes)
    number = "double" if table.schema["q"].dataType == T.DoubleType() else "decimal(38,0)"
    length = y.cast(number) - q.cast(number)
    first: dict[str, list[Column]] = {
        "latest_start": [q.desc()],
        "earliest_end": [y.asc_nulls_last()],
        "shortest": [length.asc_nulls_last()],
        "first": [],
    }
    whole = [F.asc("l" if name == "k" else name) for name in table.columns]
    order = [*first[when.take], *order_by, *whole]
    place = F.row_number().over(Window.partitionBy("s").orderBy(*order))
    return pairs.withColumn("place", place).where("place = 1").select("s", "n")


@pytest.mark.usefixtures("without_code")
@pytest.mark.long
def test_a_table_answers_what_it_was_built_for(spark: SparkSession, tmp_path: Path) -> None:
    stream, table = points(spark), spark.createDataFrame(table_rows(3))
    within = partial(Within, "p", "q", "y")
    build = partial(BatchTable.build, table, on="k")
    plain = build(when=within(), path=tmp_path / "plain")
    placed = build(when=within(take="first", order_by="n desc"), path=tmp_path / "placed")
    assert BatchTable.open(placed.path).join(stream).count() < plain.join(stream).count()
    ours, own = {}, {}
    for take in ("latest_start", "earliest_end", "shortest", "first"):
        when = within(take=take, order_by="N desc")
        ours[take] = placed.join(stream, when=when, select=["n"])
        own[take] = by_spark(stream, table, when, [F.desc("n")])
        if take not in ("latest_start", "first"):
            with pytest.raises(TableMismatchError, match="with the place of each row"):
                plain.join(stream, when=within(take=take))
    latest = within(take="latest_start")
    ours["plain"] = plain.join(stream, when=latest)
    own["plain"] = by_spark(stream, table, latest, [])
    found = chosen(ours)
    assert found == chosen(own)
    assert len(set(map(str, found.values()))) == len(found)
    with pytest.raises(TableMismatchError, match="order_by"):
        placed.join(stream, when=within(take="earliest_end"))
    assert placed.join(stream, when=within()).count() == plain.join(stream).count()
    assert placed.refresh(table.where("n < 500")) == 2
    assert placed.join(stream).count() > 0
    with pytest.raises(TableMismatchError):
        build(when=within(), path=tmp_path / "placed")


def binary_intervals(sizes: list[int]) -> tuple[list[Any], list[bytes]]:
    """Intervals and points of bytes: of different sizes, beside each other, without an end."""
    draw = random.Random(7)
    ends = [b"", b"\0", b"\0\0", b"\x7f", b"\x7f" + b"\xff" * 15, b"\x80", b"\x80" + b"\0" * 15]
    ends += [b"\x80" + b"\0" * 14 + b"\1", b"\xff" * 16, b"\xff" * 8, b"\xff" * 15 + b"\xfe"]
    drawn = [draw.randbytes(draw.choice(sizes)) for _ in range(20)]
    ends += [*drawn, *(one[:-1] + b"\0" for one in drawn if len(one) > 16)]
    rows: list[Any] = [(b"", b"\xff" * 16), (b"", None)]
    rows += [(draw.choice(ends), draw.choice([None, *ends])) for _ in range(150)]
    rows += [(None, b"\xff"), (b"\x7f", b"\x7f"), (b"\x80", b"\x80" + b"\0" * 15)]
    return rows, [*ends, *(end + b"\0" for end in ends)]


@pytest.mark.usefixtures("without_code")
def test_binary_ends_are_subtracted_as_numbers(spark: SparkSession, tmp_path: Path) -> None:
    ours, wanted = {}, {}
    for closed, inside, sizes in (
        ("left", operator.lt, [1, 8, 15, 16]),
        ("both", operator.le, [1, 16, 17, 24, 200, 5_000]),
    ):
        rows, points = binary_intervals(sizes)
        table = pa.table(
            {
                "k": pa.array([1] * len(rows)),
                "q": pa.array([start for start, _ in rows], pa.binary()),
                "y": pa.array([end for _, end in rows], pa.binary()),
                "n": pa.array(range(len(rows))),
            }
        )
        stream = spark.createDataFrame(
            pa.table({"s": range(len(points)), "k": [1] * len(points), "p": points})
        ).coalesce(1)
        there, model = one_part(spark, table), Model(tmp_path / closed, table)
        when = Within("p", "q", "y", closed, "shortest", "n desc")  # type: ignore[arg-type]
        join = partial(bsjoin.join, stream, on="k", when=when, select=["n"])
        ours[closed, "cached"] = join(model, cache=CACHED)
        for runtime in ("jvm", "python"):
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                ours[closed, runtime] = join(there)
        found = {}
        for s, point in enumerate(points):
            lengths = [
                (y is None, 0 if y is None else _number(y) - _number(q or b""), -n)
                for n, (q, y) in enumerate(rows)
                if q is not None and q <= point and (y is None or inside(point, y))
            ]
            if lengths:
                found[s] = -min(lengths)[2]
        wanted[closed] = sorted(found.items())
    for name, result in chosen(ours).items():
        assert result == wanted[name[0]], name


def _number(value: bytes) -> int:
    return int.from_bytes(value.ljust(5_000, b"\0"), "big")


def as_doubles(rows: DataFrame, names: list[str]) -> DataFrame:
    """Its points and ends as doubles, with NaN, infinities and -0.0 among them."""
    hostile = "array(double('NaN'), double('inf'), -double('inf'), -0.0D)"
    found = {}
    for place, name in enumerate(names):
        number = f"int(({rows.columns[0 if name == 'p' else -1]} + {10 * place}) % 20)"
        value = f"CASE WHEN {number} > 3 THEN {name} / 2D ELSE {hostile}[{number}] END"
        found[name] = F.expr(f"CASE WHEN {name} IS NOT NULL THEN {value} END")
    return rows.withColumns(found)


WHERE, BAND = "n % 7 = s % 7 AND a >= s % 3 AND s % 10 <> 3", Band("s", "n", 0, 30)
IN_BAND = "n BETWEEN s AND s + 30"
PASSING: dict[str, tuple[dict[str, Any], str]] = {
    "where": ({"where": WHERE}, WHERE),
    "list": ({"when": [BAND]}, IN_BAND),
    "both": ({"when": [BAND], "where": WHERE}, f"{WHERE} AND {IN_BAND}"),
}
TAKES: tuple[Any, ...] = ("latest_start", "earliest_end", "shortest", "first")


@pytest.mark.parametrize(
    "takes", [["shortest"], pytest.param(TAKES, marks=pytest.mark.long)], ids=["one", "all"]
)
def test_the_first_of_the_rows_that_pass(
    spark: SparkSession, tmp_path: Path, takes: tuple[Any, ...]
) -> None:
    """Of a join with more conditions; where none passes, there is no row.

    Each way to take meets each way to pass with both runtimes, and in turn types, caches and join
    types.
    """
    frames = {"bigint": (points(spark).coalesce(1), one_part(spark, table_rows(3)))}
    stream, table = frames["bigint"]
    frames["double"] = as_doubles(stream, ["p"]), as_doubles(table, ["q", "y"])
    within = partial(Within, "p", "q", "y", order_by="a DESC")
    stored, sources = {}, {}
    with configured(spark, CODE["python"]):
        for kind, (_, rows) in frames.items():
            stored[kind] = BatchTable.build(rows, on="k", when=within(take="first"))
            sources[kind] = Model(tmp_path / kind, rows.toArrow(), max_keys=2)
    pairs = {}
    joins: dict[str, dict[tuple[str, ...], DataFrame]] = {"jvm": {}, "python": {}}
    for (t, take), (p, (label, (given, passes))) in itertools.product(
        enumerate(takes), enumerate(PASSING.items())
    ):
        when, kind = within(take=take), ("bigint", "double")[(t + p) % 2]
        stream, table = frames[kind]
        pairs[take, label] = by_spark(stream, table, when, [F.desc("a")], passes)
        for turn, runtime in enumerate(joins):
            how = HOWS[(t + p + turn) % 4]
            options = {**given, "on": "k", "how": how, "when": [*given.get("when", ()), when]}
            columns = ["s", *["n"] * (how in ("inner", "left")), *["found"] * (how == "left")]
            if how == "left":
                options["indicator"] = "found"
            there: Any = stored[kind]
            if runtime == "python" and (t // 2 + p) % 2:
                there, options["cache"] = sources[kind], CACHED
            elif runtime == "jvm" and t == p:
                there = table
            with configured(spark, {"spark.bsjoin.runtime": runtime}):
                joined = bsjoin.join(stream, there, **options).select(*columns)
            joins[runtime][take, label, how] = joined
    inner = {name: counted(found) for name, found in right_rows(pairs).items()}
    for runtime, results in joins.items():
        with configured(spark, CODE[runtime]):
            answers = rows_of_all(results)
        for (take, label, how), found in answers.items():
            pair = inner[take, label]
            assert 10 < len(pair) < 62, "some points have an interval, but none that passes"
            wanted = of_join_type(how, pair, range(100))
            if how == "left":
                wanted = Counter({(*row, row[1] is not None): n for row, n in wanted.items()})
            got, told = counted(found), f"{runtime}, {take}, {label}, {how}"
            assert got == wanted, f"{told}: too many {got - wanted}, lacking {wanted - got}"


def test_what_cannot_be_taken_is_refused_at_the_call(spark: SparkSession) -> None:
    stream = points(spark).withColumn("p", F.col("p").cast("string"))
    table = spark.createDataFrame(table_rows(1)).selectExpr("k", "string(q) q", "string(y) y", "n")
    within = partial(Within, "p", "q", "y")
    with pytest.raises(
        KeyTypeError, match=r"no lengths.*order_by='y ASC NULLS LAST' takes the innermost"
    ):
        bsjoin.join(stream, table, "k", when=within(take="shortest"))
    with pytest.raises(ColumnError, match=r"order_by.*'m'"):
        bsjoin.join(stream, table, "k", when=within(take="first", order_by="m"))
    assert AsOf("p", "q") != within(take="latest_start") != within()
