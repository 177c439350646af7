"""Every way to carry out a job, on the same stream and in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import bsjoin
from benchmarks.harness.outcome import Context
from benchmarks.rivals import spark as ways_of
from benchmarks.rivals.database import loaded, per_batch, per_record
from benchmarks.rivals.engines import Engine, engines
from benchmarks.rivals.job import Job, stream_files
from benchmarks.rivals.runs import Batches, as_frame, check, records, run, streamed

__all__ = [
    "AQE_OFF",
    "AQE_ON",
    "BATCH",
    "BROADCAST",
    "FULL",
    "FULL_HOT",
    "INCREMENTAL",
    "INCREMENTAL_HOT",
    "MERGE",
    "OURS",
    "RECORD",
    "VARIANTS",
    "Plan",
    "compare",
]

FULL, FULL_HOT = "bsjoin, full", "bsjoin, full, HotSpot"
INCREMENTAL, INCREMENTAL_HOT = "bsjoin, incremental", "bsjoin, incremental, HotSpot"
AQE_ON, AQE_OFF = "Spark, AQE on", "Spark, AQE off"
BROADCAST, MERGE = "Spark, persisted broadcast", "Spark, sort-merge"
RECORD, BATCH = "one query per record", "one query per micro-batch"
OURS = (FULL, FULL_HOT, INCREMENTAL, INCREMENTAL_HOT)
VARIANTS = (AQE_OFF, MERGE, BROADCAST, FULL_HOT, INCREMENTAL_HOT)
"""Ways that are another way with a setting changed; quick sizes do without."""

_MOST_BROADCAST = 2_000_000  # rows; a larger table is made anew in every micro-batch for minutes

Way = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Plan:
    """How much of a job is run.

    Args:
        size: of the tables.
        batches: of the streams.
        kinds: of streams; every way meets the first, bsjoin and Spark's best the others.
        rounds: how often each way has its turn on the first stream.
        sample: rows on which all answers are held against each other.
        records: rows on which one query per record is timed.
        skipped: ways that are left out.
    """

    size: float
    batches: Batches
    kinds: tuple[str, ...]
    rounds: int
    sample: int
    records: int
    skipped: tuple[str, ...] = ()


def compare(context: Context, job: Job, plan: Plan) -> dict[str, Any]:
    """Check all ways, then time them in turns.

    Args:
        context: of the benchmark.
        job: what is to be done.
        plan: how much of it.

    Returns:
        ``ways`` (stream, way, list of runs), ``engines`` (way, seconds by micro-batch size),
        ``fan_out`` (results for each row of the stream), ``build_s`` and ``left_out``.
    """
    spark = context.spark
    folder = job.tables(context.data, plan.size)
    files = {
        kind: stream_files(job, context.data, plan.size, kind, plan.batches.sizes, context.seed)
        for kind in plan.kinds
    }
    rows = {s.table: _rows(folder / s.table) for s in job.steps}
    context.say(f"  tables: {', '.join(f'{name} {n:,}' for name, n in rows.items())}")
    tables = ways_of.read(spark, job, folder)
    started = time.perf_counter()
    indexed = ways_of.indexed(job, tables)
    found: dict[str, Any] = {
        "size": plan.size,
        "rows": rows,
        "batches": [plan.batches.small, plan.batches.large],
        "build_s": time.perf_counter() - started,
        "left_out": {},
    }
    context.say(f"  bsjoin builds its tables in {found['build_s']:.1f} s")
    with _prepared(context, job, plan, tables, indexed, rows, found) as ways:
        _check(context, job, plan, ways, folder, found)
        few = plan.batches.few
        short = stream_files(job, context.data, plan.size, plan.kinds[0], few.sizes, context.seed)
        for name in (FULL, AQE_ON):  # Spark compiles; not counted
            run(spark, job, short, ways[name], few)
        found["ways"] = {kind: {} for kind in plan.kinds}
        for kind in plan.kinds:
            some = dict(ways)
            if kind != plan.kinds[0]:
                some = {name: way for name, way in ways.items() if name in (*OURS, AQE_ON)}
            times = plan.rounds if kind == plan.kinds[0] else 1
            for _ in range(times):
                for name, way in some.items():
                    one = _once(context, job, plan, tables, files[kind], name, way)
                    found["ways"][kind].setdefault(name, []).append(one)
                    _say(context, kind, name, one)
        found["engines"] = _engines(context, job, plan, folder)
    return found


@contextmanager
def _prepared(
    context: Context,
    job: Job,
    plan: Plan,
    tables: Mapping[str, DataFrame],
    indexed: Mapping[str, bsjoin.BatchTable],
    rows: Mapping[str, int],
    found: dict[str, Any],
) -> Iterator[dict[str, Way]]:
    """The ways on Spark, each a function of the stream."""
    cores = context.spark.sparkContext.defaultParallelism

    def hot() -> bsjoin.HotSpot:
        return bsjoin.HotSpot(partitions=cores)

    with loaded(job, job.tables(context.data, plan.size)) as url:
        most = max(rows.values())
        ways: dict[str, Way] = {
            FULL: ways_of.full(job, indexed),
            FULL_HOT: ways_of.full(job, indexed, hot),
            INCREMENTAL: ways_of.cached(job, url, 2 * most),
            INCREMENTAL_HOT: ways_of.cached(job, url, 2 * most, hot),
            AQE_ON: ways_of.native(job, tables),
            AQE_OFF: ways_of.native(job, tables),
            MERGE: ways_of.native(job, tables, "merge"),
            BATCH: per_batch(job, url),
            RECORD: per_record(job, url),
        }
        if most <= _MOST_BROADCAST:
            ways[BROADCAST] = ways_of.native(job, tables, "broadcast")
        else:
            found["left_out"][BROADCAST] = f"a table of {most:,} rows, made anew every micro-batch"
        for name in plan.skipped:
            if ways.pop(name, None) is not None:
                found["left_out"][name] = "full sizes have it"
        yield ways


@contextmanager
def _persisted(tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Tables in Spark's memory, for one turn: every way that reads them would find them there."""
    for df in tables.values():
        df.persist().count()
    try:
        yield
    finally:
        for df in tables.values():
            df.unpersist(blocking=True)


def _check(
    context: Context,
    job: Job,
    plan: Plan,
    ways: Mapping[str, Way],
    folder: Any,
    found: dict[str, Any],
) -> None:
    """All ways answer the same to the same rows, before any is timed."""
    spark, half = context.spark, plan.sample // 2
    files = stream_files(job, context.data, plan.size, plan.kinds[0], [half, half], context.seed)
    events = pq.read_table(files).cast(job.arrow)
    stream = spark.createDataFrame(events).localCheckpoint()
    answers: dict[str, Callable[[], DataFrame]] = {
        # The rule of a HotSpot comes from the micro-batches before: it is asked in a stream.
        name: partial(streamed, spark, job, files, way)
        if name in (FULL_HOT, INCREMENTAL_HOT)
        else partial(way, stream)
        for name, way in ways.items()
    }
    with engines(job, folder) as others:
        for name, engine in others.items():
            answers[name] = partial(_answer_of, context, job, engine, events)
        results = check(answers, job.columns)
    found["fan_out"] = results / events.num_rows
    context.say(f"  {len(answers)} ways answer the same: {results:,} rows to {events.num_rows:,}")


def _answer_of(context: Context, job: Job, engine: Engine, events: pa.Table) -> DataFrame:
    return as_frame(context.spark, job, engine(events))


def _once(
    context: Context,
    job: Job,
    plan: Plan,
    tables: Mapping[str, DataFrame],
    files: Any,
    name: str,
    way: Way,
) -> dict[str, Any]:
    if name == BROADCAST:
        with _persisted(tables):
            return run(context.spark, job, files, way, plan.batches)
    if name == RECORD:
        return records(context.spark, job, files, way, plan.records)
    return run(context.spark, job, files, way, plan.batches, adaptive=name != AQE_OFF)


def _engines(context: Context, job: Job, plan: Plan, folder: Any) -> dict[str, Any]:
    """Seconds of DuckDB and Polars for a small and for a large micro-batch."""
    found: dict[str, Any] = {}
    with engines(job, folder) as others:
        for rows in (plan.batches.small, plan.batches.large):
            events = job.events(plan.size, rows, 1, plan.kinds[0], context.seed)
            for engine in others.values():
                engine(events)
            for _ in range(3):
                for name, engine in others.items():
                    started = time.perf_counter()
                    engine(events)
                    seconds = time.perf_counter() - started
                    found.setdefault(name, {}).setdefault(rows, []).append(seconds)
    for name, by_rows in found.items():
        shown = [f"{n:,} rows {statistics.median(s) * 1e3:,.0f} ms" for n, s in by_rows.items()]
        context.say(f"  {name:<30} {', '.join(shown)}")
    return found


def _say(context: Context, kind: str, name: str, one: Mapping[str, Any]) -> None:
    latency = f"{statistics.median(one['ms']):8.0f} ms" if "ms" in one else 11 * " "
    more = f"   hit rate {one['hit_rate']:.1%}" if "hit_rate" in one else ""
    context.say(f"  {kind:<9} {name:<30} {latency} {one.get('rate', 0):>12,.0f} rows/s{more}")


def _rows(folder: Any) -> int:
    return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.glob("*.parquet"))
