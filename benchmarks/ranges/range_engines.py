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
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import PYTHON, Join
from benchmarks.harness.timing import Times, compare, outcome, ratio, seconds_of
from benchmarks.ranges import spark_joins
from benchmarks.ranges.range_joins import OURS, prepared, warm_ups

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


def in_duckdb(
    table: pa.Table, stream: pa.Table, on: str, columns: str = "*", join: str = "JOIN"
) -> Engine:
    """A join of a stream ``s``, whose ``columns`` are computed, with a table ``t``, in DuckDB."""
    database = duckdb.connect()
    database.register("t", table)
    database.register("s", stream)
    query = (
        f"SELECT count(*), sum(s.id), sum(t.v) FROM (SELECT {columns} FROM s) s {join} t ON {on}"
    )
    return lambda: tuple(map(int, database.sql(query).fetchall()[0]))


def _in_duckdb(case: Case, table: pa.Table, stream: pa.Table) -> Engine:
    """A case as one query of DuckDB over Arrow tables."""
    columns = ", ".join(["*", *(f"{end} AS {name}" for name, end in case.ends.items())])
    on = " AND ".join([*(f"t.{key} = s.{key}" for key in case.on), *case.matches])
    return in_duckdb(table, stream, on, columns, "ASOF JOIN" if case.kind == "asof" else "JOIN")


def _in_polars(case: Case, table: pa.Table, stream: pa.Table) -> Engine:
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


ENGINES = {"DuckDB": _in_duckdb, "Polars": _in_polars}


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
    figures = []
    measured: dict[str, Times] = {}
    for number, case in enumerate(cases(context.quick, context.seed)):
        label, rows = f"{case.name}, {case.size}", rows_of(case)
        with prepared(context, case, *rows) as (ours, table, stream):
            ways: dict[str, Engine] = {
                **{name: partial(sums, join, stream) for name, join in ours.items()},
                **{name: make(case, *rows) for name, make in ENGINES.items()},
            }
            warm = warm_ups(context, number)
            seconds = measured[label] = compare(
                context, label, ways, ways, context.pick(3, 5), warm, slow_s=3.0
            )[1]
            if case.name == "band":
                few, theirs = stream.limit(_SAMPLE), partial(spark_joins.spark_join, case, table)
                once = seconds_of(sums, theirs, few)
                seconds[spark_joins.JOIN] = [once * case.probes / _SAMPLE]
        bounds = {way: _BOUNDS[case.name, way] for way in seconds if (case.name, way) in _BOUNDS}
        if case.name == "as-of":
            best = min(ENGINES, key=lambda engine: statistics.median(seconds[engine]))
            bounds.setdefault(best, 1.0)
        figures += [
            ratio(f"{label}: {way} / bsjoin", seconds[way], seconds[OURS], bound)
            for way, bound in (bounds | {PYTHON: None}).items()
        ]
    note = (
        "Sums over all pairs, all cores each. Spark's own join without a key is extrapolated from "
        f"{_SAMPLE:,} rows of the stream."
    )
    return outcome("Range joins in Spark, DuckDB and Polars", measured, figures, note)


def sums(join: Join, stream: DataFrame) -> tuple[int, ...]:
    """What an :data:`Engine` answers, of a join in Spark."""
    row = join(stream).agg(F.count(F.lit(1)), F.sum("id"), F.sum("v")).first()
    assert row is not None
    return tuple(int(value) for value in row)
