"""Range joins in Spark: a prepared table beside Spark's own joins, and beside DuckDB and Polars.

Both engines use as many threads as there are cores; sums of all pairs are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.ranges import HOUR_S, SECOND_US, Case, cases, rows_of
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import PYTHON, Join, in_memory, in_runtimes
from benchmarks.harness.timing import (
    Times,
    compare,
    compare_joins,
    outcome,
    ratio,
    seconds_of,
    timed,
)
from benchmarks.ranges import spark_joins

OURS, BUILD = "bsjoin", "bsjoin, build"
_SLOW_S = 2.0  # what takes longer needs no warm-up after its answer has been checked
_WARM_UP = 5  # until the JVM has compiled what a case runs often
FIRST_WARM_UP = 30  # until it has compiled Spark's planner, which all cases run
_BOUNDS = {"wide band": 1.2}


def range_joins(context: Context) -> Outcome:
    """All cases, alternately; quick: three cases of a tenth of the rows instead of fifteen."""
    figures = []
    measured: dict[str, Times] = {}
    for number, case in enumerate(cases(context.quick, context.seed)):
        label = f"{case.name}, {case.size}"
        with (
            prepared(context, case, *rows_of(case)) as (ours, table, stream, build_s),
            spark_joins.alternatives(context.spark, case, table) as theirs,
        ):
            seconds = measured[label] = compare_joins(
                context, label, ours | theirs, stream, case.columns, context.pick(3, 9),
                warm_ups=warm_ups(context, number), slow_s=_SLOW_S,
            )[1]  # fmt: skip
        if case.name == "key, band":
            name = f"{label}: {spark_joins.WRITTEN} / bsjoin"
            figures.append(ratio(name, seconds[spark_joins.WRITTEN], seconds[OURS], 100.0))
        seconds[BUILD] = [build_s]
        best = min((seconds[way] for way in theirs), key=statistics.median)
        name, bound = f"{label}: Spark at its best / bsjoin", _BOUNDS.get(case.name, 1.0)
        figures.append(ratio(name, best, seconds[OURS], bound))
    note = "Rows in memory for all ways; bsjoin's table is prepared."
    return outcome("Range joins in Spark", measured, figures, note)


def warm_ups(context: Context, case: int) -> int:
    """How often each way runs before a case, by its number, is measured."""
    return context.pick(0, _WARM_UP if case else FIRST_WARM_UP)


@contextmanager
def prepared(
    context: Context, case: Case, rows: pa.Table, probes: pa.Table
) -> Iterator[tuple[dict[str, Join], DataFrame, DataFrame, float]]:
    """The joins of bsjoin, table and stream in Spark's memory, and the seconds of the build."""
    read, stream = (context.spark.createDataFrame(one) for one in (rows, probes))
    with in_memory(read.repartition(4), stream.repartition(2)) as (table, stream):
        build_s, built = timed(partial(bsjoin.BatchTable.build, table, on=case.on, when=case.when))
        joins = in_runtimes(partial(built.join, on=case.on, when=case.when), OURS)
        yield joins, table, stream, build_s


Engine = Callable[[], tuple[int, ...]]
"""Answers the number of pairs, and the sums of their columns ``id`` and ``v``."""

_OVER_ENGINES = {
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
    for name, rows in (("t", table), ("s", stream)):
        database.from_arrow(rows).create(name)  # with statistics, which rows of Arrow lack
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


def _engine_cases(quick: bool, seed: int) -> list[Case]:
    """A band with a key, one without, which has 93 pairs a row (not quick), and a long as-of."""
    less = 10 if quick else 1
    rows = 2_000_000 // less
    band: dict[str, Any] = {"kind": "band", "rows": rows, "probes": 100_000 // less, "seed": seed}
    return [
        Case(name="key, band", keys=1_500, width_s=HOUR_S, **band),
        *([] if quick else [Case(name="band", width_s=60, **band)]),
        Case(name="as-of", kind="asof", rows=rows, probes=5_000_000 // less, seed=seed),
    ]


def range_engines(context: Context) -> Outcome:
    """Measure; quick: a tenth of the rows, two cases."""
    figures = []
    measured: dict[str, Times] = {}
    for number, case in enumerate(_engine_cases(context.quick, context.seed)):
        label, rows = f"{case.name}, {case.size}", rows_of(case)
        with prepared(context, case, *rows) as (ours, table, stream, build_s):
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
            seconds[BUILD] = [build_s]
        bounds = {
            way: bound
            for (name, way), bound in _OVER_ENGINES.items()
            if name == case.name and way in seconds
        }
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
