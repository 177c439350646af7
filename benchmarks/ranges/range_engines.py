"""Range joins in Spark against DuckDB and Polars: large sides in memory, sums of all pairs.

Both engines use as many threads as there are cores.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.ranges import HOUR_S, SECOND_US, Case, rows_of
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import PYTHON, Join
from benchmarks.harness.timing import alternate, check_equal, ratio, seconds_of
from benchmarks.ranges import spark_joins
from benchmarks.ranges.range_joins import OURS, Found, compared, prepared, warm_ups

Engine = Callable[[], tuple[int, ...]]
"""Answers the number of pairs, and the sums of their columns ``id`` and ``v``."""

_BOUNDS = {
    ("key, band", "DuckDB"): 5.0,
    ("band", "DuckDB"): 2.0,
    ("band", "Polars"): 1.0,
    ("band", spark_joins.JOIN): 1_000.0,
    ("as-of", "DuckDB"): 3.0,
}
_SAMPLE = 1_000  # rows of the stream of Spark's own join without a key, which tries all pairs
_CHUNK = 25_000  # Polars holds all pairs with equal keys at once: 1,300 for each row of a chunk


def in_duckdb(case: Case, table: pa.Table, stream: pa.Table) -> Engine:
    """A case as one query of DuckDB over Arrow tables."""
    database = duckdb.connect()
    database.register("t", table)
    database.register("s", stream)
    columns = ", ".join(["*", *(f"{end} AS {name}" for name, end in case.ends.items())])
    join = "ASOF JOIN" if case.kind == "asof" else "JOIN"
    on = " AND ".join([*(f"t.{key} = s.{key}" for key in case.on), *case.matches])
    query = (
        f"SELECT count(*), sum(s.id), sum(t.v) FROM (SELECT {columns} FROM s) s {join} t ON {on}"
    )
    return lambda: tuple(map(int, database.sql(query).fetchall()[0]))


def in_polars(case: Case, table: pa.Table, stream: pa.Table) -> Engine:
    """A case in Polars, over data frames in memory."""
    sums = (pl.len().alias("n"), pl.col("id").sum(), pl.col("v").sum())
    rows, probes = pl.DataFrame(pl.from_arrow(table)), pl.DataFrame(pl.from_arrow(stream))
    if case.kind == "asof":
        # It needs sorted sides. The table is sorted in advance, as ours is; the stream is not.
        rows = rows.sort("a")

        def as_of() -> tuple[int, ...]:
            found = probes.sort("p").join_asof(rows, left_on="p", right_on="a")
            return found.select("id", "v").drop_nulls().select(*sums).row(0)

        return as_of
    width = pl.duration(microseconds=case.width_s * SECOND_US)
    probes = probes.with_columns(lo=pl.col("p") - width, hi=pl.col("p") + width)
    conditions = pl.sql_expr([*(f"{key} = {key}_right" for key in case.on), *case.matches])

    def in_chunks() -> tuple[int, ...]:
        found = [
            probes.slice(begin, _CHUNK)
            .lazy()
            .join_where(rows.lazy(), *conditions)
            .select(*sums)
            .collect(engine="streaming")
            for begin in range(0, len(probes), _CHUNK)
        ]
        return pl.concat(found).sum().row(0)

    return in_chunks


ENGINES = {"DuckDB": in_duckdb, "Polars": in_polars}


def cases(quick: bool, seed: int) -> list[Case]:
    """A band with a key, one without, which has 93 pairs a row (not quick), and a long as-of."""
    less = 10 if quick else 1
    rows = 2_000_000 // less
    band: dict[str, Any] = {"kind": "band", "rows": rows, "probes": 100_000 // less, "seed": seed}
    return [
        Case(name="key, band", keys=1_500, width_s=HOUR_S, **band),
        *([] if quick else [Case(name="band", width_s=60, **band)]),
        Case(name="as-of", kind="asof", rows=rows, probes=5_000_000 // less, seed=seed),
    ]


def run(context: Context) -> Outcome:
    """Measure; quick: a tenth of the rows, two cases."""
    listed = cases(context.quick, context.seed)
    found: Found = {case.name: _measure(context, at, case) for at, case in enumerate(listed)}
    return compared(
        found, _figures(found),
        "bsjoin in Spark, DuckDB and Polars on the same rows, ms",
        "Range joins in Spark, DuckDB and Polars: median ms by way",
        "Sums over all pairs, all cores each. Spark's own join without a key is extrapolated from "
        f"{_SAMPLE:,} rows of the stream.",
    )  # fmt: skip


def _measure(context: Context, number: int, case: Case) -> dict[str, Any]:
    """Seconds of every way, alternately; all must find the same number of pairs and sums."""
    with prepared(context, case) as (build_s, ours, table, stream):
        ways: dict[str, Callable[[], tuple[int, ...]]] = {
            **{name: partial(_sums, join, stream) for name, join in ours.items()},
            **{name: make(case, *rows_of(case)) for name, make in ENGINES.items()},
        }
        pairs = check_equal({name: way() for name, way in ways.items()})[0]
        for _ in range(warm_ups(context, number)):
            ways[OURS]()
        say = lambda line: context.say(f"  {case.name}, {case.size}  {line}")  # noqa: E731
        runs = {name: partial(seconds_of, way) for name, way in ways.items()}
        seconds = alternate(runs, context.pick(3, 5), warm=ways, slow_s=3.0, say=say)
        if case.kind == "band" and not case.keys:
            few, theirs = stream.limit(_SAMPLE), partial(spark_joins.spark_join, case, table)
            seconds[spark_joins.JOIN] = [seconds_of(_sums, theirs, few) * case.probes / _SAMPLE]
    return {"size": case.size, "pairs": pairs, "build_s": build_s, "seconds": seconds}


def _sums(join: Join, stream: DataFrame) -> tuple[int, ...]:
    row = join(stream).agg(F.count(F.lit(1)), F.sum("id"), F.sum("v")).first()
    assert row is not None
    return tuple(int(value) for value in row)


def _figures(found: Found) -> list[Figure]:
    """Engines with a bound, and the better one for as-of."""
    figures = []
    for name, one in found.items():
        seconds, label = one["seconds"], f"{name}, {one['size']}"
        bounds: dict[str, float | None] = {
            way: _BOUNDS[name, way] for way in seconds if (name, way) in _BOUNDS
        }
        if name == "as-of":
            best = min(ENGINES, key=lambda engine: statistics.median(seconds[engine]))
            bounds.setdefault(best, 1.0)
        figures += [
            ratio(f"{label}: {way} / bsjoin", seconds[way], seconds[OURS], bound)
            for way, bound in (bounds | {PYTHON: None}).items()
        ]
    return figures
