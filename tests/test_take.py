"""One of several intervals: the row that a window function of Spark takes, whatever the door."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import write_parquet
from test_asof_ties import CACHED, chosen, in_any_order

import bsjoin
from bsjoin import AsOf, BatchTable, Full, Within
from bsjoin.errors import ColumnError, KeyTypeError, TableMismatchError


def cases() -> list[tuple[Within, list[Column]]]:
    """Every way to take one, with an order for Spark."""
    within = partial(Within, "p", "q", "y")
    return [
        (within("left", "latest_start", ["a desc", "t"]), [F.desc("a"), F.asc("t")]),
        (within("both", "earliest_end"), []),
        (within("right", "shortest", "t NULLS LAST"), [F.asc_nulls_last("t")]),
        (within("neither", "first", "A DESC NULLS FIRST"), [F.desc_nulls_first("a")]),
    ]


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
    return spark.sql(
        "SELECT id AS s, 1 + id % 3 AS k, IF(id = 40, NULL, id DIV 3 - 1) AS p FROM range(100)"
    )


def by_spark(
    stream: DataFrame, table: DataFrame, when: Within, order_by: list[Column]
) -> DataFrame:
    """The row that Spark's window function takes of those that contain the point."""
    p, q, y = F.col("p"), F.col("q"), F.col("y")
    starts = q <= p if when.closed in ("both", "left") else q < p
    ends = p <= y if when.closed in ("both", "right") else p < y
    not_empty = q <= y if when.closed == "both" else q < y
    holds = starts & (y.isNull() | (ends & not_empty))
    pairs = stream.join(table.withColumnRenamed("k", "l"), (F.col("k") == F.col("l")) & holds)
    length = y.cast("decimal(38,0)") - q.cast("decimal(38,0)")
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


@pytest.mark.in_turns("runtime")
def test_the_row_is_that_of_a_window_function(
    spark: SparkSession, runtime: str, tmp_path: Path
) -> None:
    stream, rows = points(spark), table_rows(1)
    table, ours, own = spark.createDataFrame(rows), {}, {}
    for number, (when, order_by) in enumerate(cases()):
        right = by_spark(stream, table, when, order_by).localCheckpoint()
        own[str(number)] = right
        join = partial(bsjoin.join, stream, on="k", when=when)
        path, other = tmp_path / f"b{number}", spark.createDataFrame(rows[::-1])
        model = Model(tmp_path / str(number), in_any_order(rows, number))
        found = {
            "one column": join(table.repartition(5, "n"), select=["n"]),
            "incremental": join(model, select=["n"], cache=CACHED),
        }
        if number % 2:
            BatchTable.build(other, on="k", when=when, path=path)
            found["opened"] = BatchTable.open(path).join(stream, when=when, select=["a", "n"])
        else:
            found["stored"] = join(table, cache=Full(store=tmp_path / f"s{number}"))
        ours.update({f"{number} {name}": joined for name, joined in found.items()})
        how = ("left", "semi", "anti", "left")[number]
        batch, cache = (table, Full()) if number % 2 else (model, CACHED)
        joined = join(batch, how=how, cache=cache)
        rest = joined.where("n IS NULL") if how == "left" else joined
        kind = "left_semi" if how == "semi" else "left_anti"
        own[f"{number}{how}"] = stream.join(right.select("s"), "s", kind).selectExpr("s", "-1 n")
        ours[f"{number}{how}"] = rest.selectExpr("s", "-1 AS n")
    expected = chosen(own)
    assert len({str(expected[str(number)]) for number in range(4)}) == 4
    for name, got in chosen(ours).items():
        assert got == expected[name.split(" ")[0]], name
        assert got


@pytest.mark.in_turns("runtime")
def test_a_stream_takes_the_same_rows(spark: SparkSession, runtime: str, tmp_path: Path) -> None:
    rows, (when, order_by) = table_rows(2), cases()[2]
    table, model = spark.createDataFrame(rows), Model(tmp_path / "model", rows)
    arriving, kept = tmp_path / "in", []
    arriving.mkdir()
    stream = spark.readStream.schema("s long, k long, p long")
    stream = stream.option("maxFilesPerTrigger", 1).parquet(str(arriving))
    given = points(spark).toArrow()
    for begin in (0, 50):
        part = given.slice(begin, 50)
        write_parquet(arriving / f"{begin}.parquet", **dict(zip("skp", part.columns, strict=True)))
    full = bsjoin.join(stream, table, "k", when=when, select=["n"]).withColumn("z", F.lit("full"))
    cached = bsjoin.join(stream, model, "k", when=when, select=["n"], cache=CACHED)
    both = full.unionByName(cached.withColumn("z", F.lit("cached")))
    query = both.writeStream.foreachBatch(lambda batch, _: kept.extend(batch.collect())).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    ((_, wanted),) = chosen({"": by_spark(points(spark), table, when, order_by)}).items()
    for cache in ("full", "cached"):
        assert sorted((row.s, row.n) for row in kept if row.z == cache) == wanted


def test_a_table_answers_what_it_was_built_for(spark: SparkSession, tmp_path: Path) -> None:
    stream, table = points(spark), spark.createDataFrame(table_rows(3))
    within = partial(Within, "p", "q", "y")
    build = partial(BatchTable.build, table, on="k")
    plain = build(when=within(), path=tmp_path / "plain")
    placed = build(when=within(take="first", order_by="n desc"), path=tmp_path / "placed")
    assert BatchTable.open(placed.path).join(stream).count() < plain.join(stream).count()
    by: list[Any] = [F.desc("n")]
    for take in ("latest_start", "earliest_end", "shortest", "first"):
        when = within(take=take, order_by="N desc")
        ours = placed.join(stream, when=when, select=["n"])
        assert chosen({"": ours}) == chosen({"": by_spark(stream, table, when, by)})
        with pytest.raises(TableMismatchError, match="order_by"):
            placed.join(stream, when=within(take="earliest_end"))
        if take not in ("latest_start", "first"):
            with pytest.raises(TableMismatchError, match="with the place of each row"):
                plain.join(stream, when=within(take=take))
    latest = within(take="latest_start")
    assert chosen({"": plain.join(stream, when=latest)}) == chosen(
        {"": by_spark(stream, table, latest, [])}
    )
    assert placed.join(stream, when=within()).count() == plain.join(stream).count()
    assert placed.refresh(table.where("n < 500")) == 2
    assert placed.join(stream).count() > 0
    with pytest.raises(TableMismatchError):
        build(when=within(), path=tmp_path / "placed")


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
