"""Conditions beside what one does without them in Spark: aggregates, boxes, networks.

Aggregates of a band beside making its rows, 1,000 matches a row; points in boxes beside a join on
the cells of a grid, and DuckDB; addresses in networks beside a join on prefixes of every length.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import PYTHON, Join, consume, in_memory, in_runtime, in_runtimes
from benchmarks.harness.timing import (
    Times,
    check_joins,
    compare,
    compare_joins,
    outcome,
    ratio,
    timed,
)
from benchmarks.ranges.range_joins import BUILD, FIRST_WARM_UP, OURS, in_duckdb, sums
from bsjoin import Band
from bsjoin.functions import network_end, network_start

_ROWS, _MATCHES = 2_000, 1_000
_AGG = {"n": "count(*)", "total": "sum(v)", "least": "min(v)", "most": "max(v)"}
_COLUMNS = ["id", "k", "p", *_AGG]
_OVER_ROWS, _SLOW_S = 50.0, 3.0
_LABEL = "1,000 matches a row"


def aggregates(context: Context) -> Outcome:
    """Each key has 2,000 rows, and each row of the stream matches half of those of its key."""
    keys, spark = context.pick(200, 2_000), context.spark
    table = spark.range(keys * _ROWS, numPartitions=2).selectExpr(
        f"id DIV {_ROWS} AS k", f"id % {_ROWS} AS q",
        f"int(pmod(xxhash64(id, {context.seed}), 100000)) AS v",
    )  # fmt: skip
    points = f"{_MATCHES} + pmod(xxhash64(id, {context.seed}), {_ROWS - _MATCHES})"
    ids = spark.range(context.pick(100_000, 500_000), numPartitions=2)
    stream = ids.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", f"{points} AS p")
    with in_memory(table, stream):
        built = bsjoin.BatchTable.build(table, on="k", when=_band({}))
        theirs = {"Spark's join": _by_join, "Spark's window": _by_window}
        ways: dict[str, Join] = {name: partial(way, table) for name, way in theirs.items()}
        for runtime in ("jvm", "python"):
            ways[runtime] = in_runtime(runtime, partial(built.join, when=_band(_AGG)))
            ways[f"making the rows, {runtime}"] = in_runtime(runtime, partial(_rows, built))
        rounds, warm = context.pick((3, 1), (7, FIRST_WARM_UP))
        _, seconds = compare_joins(
            context, _LABEL, ways, stream, _COLUMNS, rounds, warm_ups=warm, slow_s=_SLOW_S
        )
    figures = [
        ratio(f"{_LABEL}, {runtime}: {name} / aggregates", seconds[way], seconds[runtime], bound)
        for runtime in ("jvm", "python")
        for name, way, bound in (
            ("making the rows", f"making the rows, {runtime}", _OVER_ROWS),
            ("Spark's join", "Spark's join", None),
            ("Spark's window", "Spark's window", None),
        )
    ]
    return outcome("Aggregates of a band", {_LABEL: seconds}, figures)


def _band(agg: dict[str, str]) -> Band:
    return Band("p", "q", before=_MATCHES - 1, after=0, agg=agg)


def _aggregated(rows: DataFrame) -> DataFrame:
    calls = (F.expr(text).alias(name) for name, text in _AGG.items())
    return rows.groupBy("id", "k", "p").agg(*calls)


def _rows(built: bsjoin.BatchTable, stream: DataFrame) -> DataFrame:
    return _aggregated(built.join(stream, when=_band({}), select=["v"]))


def _by_join(table: DataFrame, stream: DataFrame) -> DataFrame:
    other = table.withColumnRenamed("k", "other")
    near = F.expr(f"k = other AND q BETWEEN p - {_MATCHES - 1} AND p")
    return _aggregated(stream.join(F.broadcast(other), near))


def _by_window(table: DataFrame, stream: DataFrame) -> DataFrame:
    """Both sides together, sorted by key and point: the table's rows in the frame of each row."""
    both = stream.selectExpr("id", "k", "p", "CAST(NULL AS int) AS v").unionByName(
        table.selectExpr("CAST(NULL AS bigint) AS id", "k", "q AS p", "v")
    )
    frame = Window.partitionBy("k").orderBy("p").rangeBetween(1 - _MATCHES, 0)
    calls = (F.expr(text.replace("*", "v")).over(frame).alias(name) for name, text in _AGG.items())
    return both.select("id", "k", "p", *calls).where("id IS NOT NULL")


_GRID, _DUCKDB = "Spark, grid", "DuckDB"
_IN_BOX = [bsjoin.Within("lon", "west", "east"), bsjoin.Within("lat", "south", "north")]
_TOWNS, _CELL = 2_000, 0.002
_OVER_GRID = 5.0
_LONG_S = 30.0  # what takes longer is timed twice
_INSIDE = "west <= lon AND lon < east AND south <= lat AND lat < north"
_IN_MEMORY = (
    "Rows in memory for all ways: for Spark's grid boxes by cell, for DuckDB tables of its own. It "
    "answers with sums alone, the others with all pairs."
)


def boxes(context: Context) -> Outcome:
    """Full: 10,000,000 boxes and 1,000,000 points, evenly and in towns; quick: a twentieth."""
    less, rounds, spark = *context.pick((20, 3), (1, 5)), context.spark
    figures = []
    measured: dict[str, Times] = {}
    for kind in ("even", "towns"):
        random = np.random.default_rng(context.seed)
        made, points = _drawn(random, kind, 10_000_000 // less, 1_000_000 // less)
        size = f"{kind}, {len(made):,} x {len(points):,}"
        engine = in_duckdb(made, points, _INSIDE)
        rows, probes = (spark.createDataFrame(one) for one in (made, points))
        rows, probes = rows.repartition(4), probes.repartition(2)
        with in_memory(rows, probes, _with_cells(rows)) as (table, stream, cells):
            build_s, built = timed(partial(bsjoin.BatchTable.build, table, on=[], when=_IN_BOX))

            def ours(some: DataFrame, built: bsjoin.BatchTable = built) -> DataFrame:
                return built.join(some, select=["v"]).select("id", "v")

            joins = in_runtimes(ours, OURS) | {_GRID: partial(_by_cells, cells)}
            answers = {name: partial(join, stream) for name, join in joins.items()}
            check_joins(answers, ["id", "v"])
            runs = {name: partial(_made, answer) for name, answer in answers.items()}
            told = {OURS: partial(sums, ours, stream), _DUCKDB: engine}
            _, seconds = compare(
                context, size, told, runs | {_DUCKDB: engine}, rounds, warm_ups=1, slow_s=_LONG_S
            )
        seconds[BUILD] = [build_s]
        figures += [
            ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], _OVER_GRID)
            for way in (_GRID, _DUCKDB)
        ]
        measured[size] = seconds
    return outcome("Points in boxes", measured, figures, _IN_MEMORY)


def _made(answer: Callable[[], DataFrame]) -> None:
    consume(answer())


def _cell(end: str) -> str:
    return f"CAST(floor({end} / {_CELL}D) AS int)"


def _with_cells(table: DataFrame) -> DataFrame:
    """A row for each cell of a grid that a box touches."""

    def cells(low: str, high: str) -> str:
        return f"explode(sequence({_cell(low)}, {_cell(high)}))"

    there = table.selectExpr("*", f"{cells('west', 'east')} AS x")
    return there.selectExpr("*", f"{cells('south', 'north')} AS y")


def _by_cells(cells: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: boxes in each cell that they touch, joined by equality of cells."""
    here = stream.selectExpr("*", f"{_cell('lon')} AS x", f"{_cell('lat')} AS y")
    return here.join(cells, ["x", "y"]).where(_INSIDE).select("id", "v")


def _drawn(
    random: np.random.Generator, kind: str, boxes: int, points: int
) -> tuple[pa.Table, pa.Table]:
    """Boxes and points in a square with sides of 1.

    Of even ones each point is in about one box; in towns boxes have sizes of three magnitudes.
    """
    (west, south), (lon, lat) = (_places(random, kind, many) for many in (boxes, points))
    if kind == "even":
        width, height = (random.random(boxes) * 2 / np.sqrt(boxes) for _ in range(2))
    else:
        width = height = 1e-5 * np.exp(1.5 * random.standard_normal(boxes))
    table = {"v": np.arange(boxes), "west": west, "east": west + width}
    table |= {"south": south, "north": south + height}
    return pa.table(table), pa.table({"id": np.arange(points), "lon": lon, "lat": lat})


def _places(random: np.random.Generator, kind: str, many: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    if kind == "even":
        return random.random(many), random.random(many)
    centres = np.random.default_rng(1).random((2, _TOWNS))
    town = (_TOWNS * random.random(many) ** 3).astype(np.int64)
    x, y = (np.clip(one[town] + 0.01 * random.standard_normal(many), 0, 1) for one in centres)
    return x, y


_SPARK = "Spark, prefixes"
_LENGTHS = range(12, 33)
_IN_NETWORK = bsjoin.Within("ip", "first", "last", closed="both")
_SUM = " + ".join(
    f"CAST(split_part({{0}}, '.', {part}) AS bigint) * {256 ** (4 - part)}" for part in range(1, 5)
)
"""An IPv4 address as a number."""


def networks(context: Context) -> Outcome:
    """Full: 500,000 networks and 200,000 addresses; quick: a tenth of both."""
    many, addresses = context.pick((50_000, 20_000), (500_000, 200_000))
    random, spark = np.random.default_rng(context.seed), context.spark
    made = spark.createDataFrame(_networks(random, many)).repartition(4)
    stream = spark.createDataFrame(_addresses(random, addresses)).repartition(2)
    prefix = "split_part(network, '/', {})".format
    begin = f"{_SUM.format(prefix(1))} AS first"
    prefixes = made.selectExpr("v", f"CAST({prefix(2)} AS int) AS length", begin)
    size = f"{many:,} x {addresses:,}"
    with in_memory(made, stream, prefixes) as (table, _, prefixes):
        ends = {"first": network_start("network"), "last": network_end("network")}
        rows = table.withColumns(ends)
        build_s, built = timed(partial(bsjoin.BatchTable.build, rows, on=[], when=_IN_NETWORK))

        def ours(some: DataFrame) -> DataFrame:
            return built.join(some.withColumn("ip", network_start("address"))).select("id", "v")

        joins = in_runtimes(ours, OURS) | {_SPARK: partial(_by_prefixes, prefixes)}
        rounds, warm_ups = context.pick((3, 0), (9, 5))
        _, seconds = compare_joins(
            context, size, joins, stream, ["id", "v"], rounds, warm_ups=warm_ups
        )
        seconds[BUILD] = [build_s]
    figures = [
        ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], 1.0)
        for way in (_SPARK, PYTHON)
    ]
    return outcome("Addresses in networks", {size: seconds}, figures)


def _by_prefixes(prefixes: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: each address with its prefix of every length, joined by equality."""
    lengths = F.explode(F.array(*map(F.lit, _LENGTHS))).alias("length")
    found = stream.select("id", F.expr(_SUM.format("address")).alias("number"), lengths)
    found = found.withColumn("first", F.expr("number - number % shiftleft(1L, 32 - length)"))
    return found.join(prefixes, ["length", "first"]).select("id", "v")


def _networks(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Different networks, most of them of 256 addresses, and many inside of others."""
    lengths = random.choice(_LENGTHS, 2 * rows, p=[0.5 if n == 24 else 0.025 for n in _LENGTHS])
    numbers = random.integers(1 << 24, 224 << 24, 2 * rows) >> 32 - lengths << 32 - lengths
    texts = [f"{ipaddress.IPv4Address(int(n))}/{m}" for n, m in zip(numbers, lengths, strict=True)]
    distinct = pd.unique(pd.Series(texts))[:rows]
    return pd.DataFrame({"v": np.arange(len(distinct)), "network": distinct})


def _addresses(random: np.random.Generator, rows: int) -> pd.DataFrame:
    numbers = random.integers(1 << 24, 224 << 24, rows)
    texts = [str(ipaddress.IPv4Address(int(number))) for number in numbers]
    return pd.DataFrame({"id": np.arange(rows), "address": texts})
