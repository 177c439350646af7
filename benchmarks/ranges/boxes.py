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
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import consume, in_runtime, persisted
from benchmarks.harness.timing import check_equal, check_joins, ratio, seconds_of, time_joins
from benchmarks.ranges.range_joins import OURS, PYTHON, timed

_GRID, _DUCKDB = "Spark, grid", "DuckDB"
_WHEN = [bsjoin.Within("lon", "west", "east"), bsjoin.Within("lat", "south", "north")]
_SAMPLE = 10_000  # rows of the stream for DuckDB, whose plan compares each with thousands
_TOWNS, _CELL = 2_000, 0.002
_BOUND = 5.0
_MATCHES = "west <= lon AND lon < east AND south <= lat AND lat < north"


def run(context: Context) -> Outcome:
    """Full: 10,000,000 boxes and 1,000,000 points, evenly and in towns; quick: a twentieth."""
    less = context.pick(20, 1)
    figures, rows, measured = list[Figure](), [], {}
    for kind in ("even", "towns"):
        random = np.random.default_rng(context.seed)
        boxes, points = _drawn(random, kind, 10_000_000 // less, 1_000_000 // less)
        size = f"{kind}, {len(boxes):,} x {len(points):,}"
        seconds, pairs, build_s = _measure(context, size, boxes, points)
        figures += [
            ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], _BOUND)
            for way in (_GRID, _DUCKDB)
        ]
        ms = {f"{way}, ms": float(np.median(one)) * 1e3 for way, one in seconds.items()}
        rows.append({"case": size, "matches": pairs, "build, s": build_s} | ms)
        measured[kind] = seconds
    note = (
        "Rows in memory for all ways. DuckDB answers "
        f"{_SAMPLE:,} rows of the stream, and its time is extrapolated."
    )
    return Outcome(figures, [Table.of("Points in boxes", rows, note)], measured=measured)


def _measure(
    context: Context, size: str, boxes: pa.Table, points: pa.Table
) -> tuple[dict[str, list[float]], int, float]:
    """The seconds of each way by round, the number of pairs, and the seconds of the build."""
    spark = context.spark
    table = persisted(spark.createDataFrame(boxes).repartition(4))
    stream = persisted(spark.createDataFrame(points).repartition(2))
    build_s, built = timed(lambda: bsjoin.BatchTable.build(table, on=[], when=_WHEN))

    def ours(some: DataFrame) -> DataFrame:
        return built.join(some, select=["v"]).select("id", "v")

    joins = {
        OURS: in_runtime("jvm", ours),
        PYTHON: in_runtime("python", ours),
        _GRID: partial(_by_cells, table),
    }
    pairs = check_joins({n: partial(join, stream) for n, join in joins.items()}, ["id", "v"])
    some = points.slice(0, _SAMPLE)
    found = ours(spark.createDataFrame(some)).agg(F.count("v"), F.sum("id"), F.sum("v")).first()
    duckdb_s = _in_duckdb(boxes, some)
    check_equal({OURS: tuple(found or ()), _DUCKDB: duckdb_s()})
    for join in joins.values():
        consume(join(stream))
    rounds = context.pick(3, 5)
    seconds = time_joins(context, size, joins, stream, rounds)
    once = [seconds_of(duckdb_s) for _ in range(rounds)]
    seconds[_DUCKDB] = [one * len(points) / len(some) for one in once]
    for df in (table, stream):
        df.unpersist(blocking=True)
    return seconds, pairs, build_s


def _in_duckdb(boxes: pa.Table, points: pa.Table) -> Callable[[], tuple[int, ...]]:
    database = duckdb.connect()
    database.execute("CREATE TABLE t AS SELECT * FROM boxes")
    database.execute("CREATE TABLE s AS SELECT * FROM points")
    query = f"SELECT count(*), sum(id), sum(v) FROM s JOIN t ON {_MATCHES}"
    return lambda: tuple(map(int, database.sql(query).fetchall()[0]))


def _by_cells(table: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: boxes in each cell that they touch, joined by equality of cells."""

    def cells(low: str, high: str) -> str:
        first, last = (f"CAST(floor({end} / {_CELL}D) AS int)" for end in (low, high))
        return f"explode(sequence({first}, {last}))"

    there = table.selectExpr("*", f"{cells('west', 'east')} AS x")
    there = there.selectExpr("*", f"{cells('south', 'north')} AS y")
    here = stream.selectExpr(
        "*",
        f"CAST(floor(lon / {_CELL}D) AS int) AS x",
        f"CAST(floor(lat / {_CELL}D) AS int) AS y",
    )
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
