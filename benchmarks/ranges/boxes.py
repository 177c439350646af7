"""Points in boxes: bsjoin in both runtimes, a join on cells of a grid in Spark, and DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.spark import in_memory, in_runtimes
from benchmarks.harness.timing import Times, check_equal, compare_joins, ratio, seconds_of, timed
from benchmarks.ranges.range_joins import OURS

_GRID, _DUCKDB = "Spark, grid", "DuckDB"
_WHEN = [bsjoin.Within("lon", "west", "east"), bsjoin.Within("lat", "south", "north")]
_SAMPLE = 10_000  # rows of the stream for DuckDB, whose plan compares each with thousands
_TOWNS, _CELL = 2_000, 0.002
_BOUND = 5.0
_MATCHES = "west <= lon AND lon < east AND south <= lat AND lat < north"
_NOTE = (
    f"Rows in memory for all ways. DuckDB answers {_SAMPLE:,} rows of the stream, and its time is "
    "extrapolated."
)


def run(context: Context) -> Outcome:
    """Full: 10,000,000 boxes and 1,000,000 points, evenly and in towns; quick: a twentieth."""
    less = context.pick(20, 1)
    figures, rows, measured = [], [], {}
    for kind in ("even", "towns"):
        random = np.random.default_rng(context.seed)
        boxes, points = _drawn(random, kind, 10_000_000 // less, 1_000_000 // less)
        size = f"{kind}, {len(boxes):,} x {len(points):,}"
        pairs, build_s, seconds = _measure(context, size, boxes, points)
        figures += [
            ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], _BOUND)
            for way in (_GRID, _DUCKDB)
        ]
        ms = {f"{way}, ms": float(np.median(one)) * 1e3 for way, one in seconds.items()}
        rows.append({"case": size, "matches": pairs, "build, s": build_s} | ms)
        measured[kind] = seconds
    return Outcome(figures, [Table.of("Points in boxes", rows, _NOTE)], measured=measured)


def _measure(
    context: Context, size: str, boxes: pa.Table, points: pa.Table
) -> tuple[int, float, Times]:
    """The number of pairs, the seconds of the build, and those of each way by round."""
    spark, some, rounds = context.spark, points.slice(0, _SAMPLE), context.pick(3, 5)
    rows, probes = (spark.createDataFrame(one) for one in (boxes, points))
    with in_memory(rows.repartition(4), probes.repartition(2)) as (table, stream):
        build_s, built = timed(partial(bsjoin.BatchTable.build, table, on=[], when=_WHEN))

        def ours(some: DataFrame) -> DataFrame:
            return built.join(some, select=["v"]).select("id", "v")

        joins = in_runtimes(ours, OURS) | {_GRID: partial(_by_cells, table)}
        found = ours(spark.createDataFrame(some)).agg(F.count("v"), F.sum("id"), F.sum("v")).first()
        in_duckdb = _in_duckdb(boxes, some)
        check_equal({OURS: tuple(found or ()), _DUCKDB: in_duckdb()})
        pairs, seconds = compare_joins(context, size, joins, stream, ["id", "v"], rounds, 1)
    once = [seconds_of(in_duckdb) for _ in range(rounds)]
    return pairs, build_s, seconds | {_DUCKDB: [one * len(points) / len(some) for one in once]}


def _in_duckdb(boxes: pa.Table, points: pa.Table) -> Callable[[], tuple[int, ...]]:
    database = duckdb.connect()
    database.execute("CREATE TABLE t AS SELECT * FROM boxes")
    database.execute("CREATE TABLE s AS SELECT * FROM points")
    query = f"SELECT count(*), sum(id), sum(v) FROM s JOIN t ON {_MATCHES}"
    return lambda: tuple(map(int, database.sql(query).fetchall()[0]))


def _by_cells(table: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: boxes in each cell that they touch, joined by equality of cells."""

    def cell(end: str) -> str:
        return f"CAST(floor({end} / {_CELL}D) AS int)"

    def cells(low: str, high: str) -> str:
        return f"explode(sequence({cell(low)}, {cell(high)}))"

    there = table.selectExpr("*", f"{cells('west', 'east')} AS x")
    there = there.selectExpr("*", f"{cells('south', 'north')} AS y")
    here = stream.selectExpr("*", f"{cell('lon')} AS x", f"{cell('lat')} AS y")
    return here.join(there, ["x", "y"]).where(_MATCHES).select("id", "v")


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
