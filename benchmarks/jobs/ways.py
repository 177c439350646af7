"""The alternatives to run a job on Spark, as data, and how a stream runs through one."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.spark import (
    AQE,
    Join,
    add_batch_ms,
    cache_totals,
    consume,
    fingerprint,
    persisted,
    run_stream,
)
from benchmarks.harness.timing import check_equal, seconds_of
from benchmarks.jobs.database import per_batch, per_record
from benchmarks.jobs.job import FILES, Batches, Job, Step, arrow_schema

FULL, FULL_HOT = "bsjoin, full", "bsjoin, full, HotSpot"
INCREMENTAL, INCREMENTAL_HOT = "bsjoin, incremental", "bsjoin, incremental, HotSpot"
AQE_ON, AQE_OFF = "Spark, AQE on", "Spark, AQE off"
BROADCAST, MERGE = "Spark, persisted broadcast", "Spark, sort-merge"
RECORD, BATCH = "one query per record", "one query per micro-batch"
OURS = (FULL, FULL_HOT, INCREMENTAL, INCREMENTAL_HOT)
VARIANTS = (AQE_OFF, MERGE, BROADCAST, FULL_HOT, INCREMENTAL_HOT)
"""Ways that are another way with a setting changed; quick sizes skip them."""

RECORD_ROUNDS = 3
"""How often one query per record is timed."""

_CONNECTIONS = 2  # of each join, as many as cores here; the database has fifty for all


@dataclass(frozen=True)
class Tables:
    """The tables of a job in every form that a way needs.

    Args:
        job: the job.
        frames: Spark's DataFrames of the files.
        indexed: bsjoin's tables.
        url: of a database that has them.
        max_rows: room in an incremental cache.
    """

    job: Job
    frames: Mapping[str, DataFrame]
    indexed: Mapping[str, bsjoin.BatchTable]
    url: str = ""
    max_rows: int = 0


def read_tables(spark: SparkSession, job: Job, folder: Path) -> dict[str, DataFrame]:
    """The tables of a job."""
    return {step.table: spark.read.parquet(str(folder / step.table)) for step in job.steps}


def build_tables(
    job: Job, frames: Mapping[str, DataFrame], kept: Path | None = None
) -> dict[str, bsjoin.BatchTable]:
    """The tables of a job as bsjoin stores them."""
    return {
        step.table: bsjoin.BatchTable.build(
            frames[step.table].select(*step.columns),
            on=step.keys,
            unique=step.unique,
            path=None if kept is None else kept / step.table,
        )
        for step in job.steps
    }


def _in_sequence(tables: Tables, hot: bool, join: Callable[..., DataFrame]) -> Join:
    """All joins of a job; ``hot``: the first one is partitioned by a HotSpot."""

    def way(stream: DataFrame) -> DataFrame:
        for number, step in enumerate(tables.job.steps):
            cores = stream.sparkSession.sparkContext.defaultParallelism
            by = bsjoin.HotSpot(partitions=cores) if hot and not number else None
            stream = join(tables, stream, step, by)
        return stream.select(*tables.job.columns)

    return way


def _full(tables: Tables, stream: DataFrame, step: Step, by: Any) -> DataFrame:
    return tables.indexed[step.table].join(stream, step.keys, partition=by)


def _incremental(tables: Tables, stream: DataFrame, step: Step, by: Any) -> DataFrame:
    # A source of its own, so that each call begins with an empty cache.
    source = bsjoin.sources.sql(tables.url, table=step.table)
    cache = bsjoin.Incremental(max_rows=tables.max_rows, max_connections=_CONNECTIONS)
    return bsjoin.join(stream, source, step.keys, cache=cache, partition=by)


def _spark(hint: str, tables: Tables, stream: DataFrame, step: Step, by: Any) -> DataFrame:
    table = tables.frames[step.table].select(*step.columns)
    if hint == "broadcast":
        table = F.broadcast(table)
    return stream.join(table.hint(hint) if hint == "merge" else table, step.keys)


WAYS: dict[str, Callable[[Tables], Join]] = {
    FULL: lambda tables: _in_sequence(tables, False, _full),
    FULL_HOT: lambda tables: _in_sequence(tables, True, _full),
    INCREMENTAL: lambda tables: _in_sequence(tables, False, _incremental),
    INCREMENTAL_HOT: lambda tables: _in_sequence(tables, True, _incremental),
    AQE_ON: lambda tables: _in_sequence(tables, False, partial(_spark, "")),
    AQE_OFF: lambda tables: _in_sequence(tables, False, partial(_spark, "")),
    MERGE: lambda tables: _in_sequence(tables, False, partial(_spark, "merge")),
    BATCH: lambda tables: per_batch(tables.job, tables.url),
    RECORD: lambda tables: per_record(tables.job, tables.url),
    BROADCAST: lambda tables: _in_sequence(tables, False, partial(_spark, "broadcast")),
}
"""Every alternative on Spark: from the tables to a function of the stream."""


def run_way(
    tables: Tables,
    name: str,
    spark: SparkSession,
    files: Path,
    batches: Batches,
    record_rows: int = 0,
) -> dict[str, Any]:
    """Let a stream run through one way; one query per record takes a few rows without a stream.

    Returns:
        ``ms`` (Spark's ``addBatch`` of the small micro-batches), ``rate`` (stream rows a second
        of the large ones, if any) with ``rates`` of each, and of an incremental cache
        ``hit_rate``, ``asked`` and ``lookups``; see also :func:`_run_records`.
    """
    way = WAYS[name](tables)
    if name == RECORD:
        return _run_records(tables.job, way, spark, files, record_rows)
    if name == BROADCAST:  # in memory for this run only: every other way would find them there
        for df in tables.frames.values():
            persisted(df)
    spark.conf.set(AQE, name != AQE_OFF)
    try:
        query = run_stream(way(_stream(spark, tables.job, files)))
    finally:
        spark.conf.set(AQE, True)
        if name == BROADCAST:
            for df in tables.frames.values():
                df.unpersist(blocking=True)
    ms = add_batch_ms(query)
    if len(ms) != len(batches.sizes):
        raise AssertionError(f"{len(ms)} micro-batches are reported, not {len(batches.sizes)}")
    first_large = batches.warm + batches.smalls
    found = {"ms": ms[batches.warm : first_large], "all_ms": ms, **cache_totals(query)}
    if batches.larges:
        counted = ms[first_large + 1 :]
        found["rate"] = batches.large * len(counted) / sum(counted) * 1e3
        found["rates"] = [batches.large / one * 1e3 for one in counted]
    return found


def _run_records(
    job: Job, way: Join, spark: SparkSession, files: Path, rows: int
) -> dict[str, Any]:
    """``rate`` in records a second, the median of ``rates``; ``record_ms`` of a record and core."""
    cores = spark.sparkContext.defaultParallelism
    part = spark.read.schema(job.stream).parquet(str(files / "0000-0.parquet"))
    kept = persisted(part.limit(rows).repartition(cores))
    consume(way(kept.limit(1)))  # connects
    spent = [seconds_of(lambda: consume(way(kept))) for _ in range(RECORD_ROUNDS)]
    kept.unpersist()
    seconds = statistics.median(spent)
    return {
        "rate": rows / seconds,
        "rates": [rows / one for one in spent],
        "record_ms": seconds / rows * cores * 1e3,
    }


def _stream(spark: SparkSession, job: Job, files: Path) -> DataFrame:
    reader = spark.readStream.schema(job.stream).option("maxFilesPerTrigger", FILES)
    return reader.parquet(str(files))


def answer_of_stream(way: Join, spark: SparkSession, job: Job, files: Path) -> DataFrame:
    """All result rows of a stream, micro-batch by micro-batch; kept by the driver."""
    name = f"answer_{uuid.uuid4().hex}"
    writer = way(_stream(spark, job, files)).writeStream.format("memory").queryName(name)
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.table(name)


def as_frame(spark: SparkSession, job: Job, answer: pa.Table) -> DataFrame:
    """The answer of another engine as a DataFrame."""
    return spark.createDataFrame(
        answer.select(job.columns).cast(arrow_schema(job.types)), job.schema
    )


def check_answers(answers: Mapping[str, Callable[[], DataFrame]], columns: list[str]) -> int:
    """The number of rows of the answers, which must be equal.

    Raises:
        AssertionError: one differs from the first, or all are empty.
    """
    right = check_equal({name: fingerprint(answer(), columns) for name, answer in answers.items()})
    if not right[0]:
        raise AssertionError(f"{', '.join(answers)} find nothing: the check would be empty")
    return int(right[0])


def say_run(say: Callable[[str], None], head: str, name: str, one: Mapping[str, Any]) -> None:
    """Print the latency, rate and hit rate of one run."""
    latency = f"{statistics.median(one['ms']):8.0f} ms" if "ms" in one else 11 * " "
    more = f"   hit rate {one['hit_rate']:.1%}" if "hit_rate" in one else ""
    say(f"  {head:<9} {name:<30} {latency} {one.get('rate', 0):>12,.0f} rows/s{more}")


Runs = list[dict[str, Any]]


def latency_ms(runs: Runs) -> float:
    """The median of a way's small micro-batches, of all rounds; or of a record."""
    if "ms" in runs[0]:
        return float(statistics.median(ms for one in runs for ms in one["ms"]))
    return float(statistics.median(one["record_ms"] for one in runs))


def rate(runs: Runs) -> float:
    """The median over rounds of a way's rows of the stream a second."""
    return float(statistics.median(one["rate"] for one in runs))
