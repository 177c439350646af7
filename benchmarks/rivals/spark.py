"""A job on Spark: with bsjoin, and with Spark's own joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.rivals.job import Job

__all__ = ["cached", "full", "indexed", "native", "read"]

_CONNECTIONS = 2  # of a host for a join: as many as it has cores here

Way = Callable[[DataFrame], DataFrame]
Partition = bsjoin.Hash | bsjoin.HotSpot | None


def read(spark: SparkSession, job: Job, folder: Path) -> dict[str, DataFrame]:
    """The tables of a job."""
    return {step.table: spark.read.parquet(str(folder / step.table)) for step in job.steps}


def indexed(
    job: Job, tables: Mapping[str, DataFrame], kept: Path | None = None
) -> dict[str, bsjoin.BatchTable]:
    """The tables of a job as bsjoin keeps them: built once.

    Args:
        job: the job.
        tables: as files.
        kept: a folder; what was built there from the same files is not built again.
    """
    return {
        step.table: bsjoin.BatchTable.build(
            tables[step.table].select(*step.columns),
            on=list(step.on),
            unique=step.unique,
            path=None if kept is None else kept / step.table,
        )
        for step in job.steps
    }


def full(
    job: Job,
    tables: Mapping[str, bsjoin.BatchTable],
    partition: Callable[[], Partition] | None = None,
) -> Way:
    """The job with a full cache; ``partition`` makes what the first join is partitioned by."""

    def way(stream: DataFrame) -> DataFrame:
        for number, step in enumerate(job.steps):
            by = partition() if partition and not number else None
            stream = tables[step.table].join(stream, list(step.on), partition=by)
        return stream.select(*job.columns)

    return way


def cached(
    job: Job, url: str, max_rows: int, partition: Callable[[], Partition] | None = None
) -> Way:
    """The job with an incremental cache over a database; every call begins with empty caches.

    Args:
        job: the job.
        url: of the database.
        max_rows: that each of the caches may hold.
        partition: makes what the first join is partitioned by.
    """

    def way(stream: DataFrame) -> DataFrame:
        for number, step in enumerate(job.steps):
            by = partition() if partition and not number else None
            source = bsjoin.sources.sql(url, table=step.table)
            # Each join has connections of its own, and the database has fifty for all.
            cache = bsjoin.Incremental(max_rows=max_rows, max_connections=_CONNECTIONS)
            stream = bsjoin.join(stream, source, list(step.on), cache=cache, partition=by)
        return stream.select(*job.columns)

    return way


def native(job: Job, tables: Mapping[str, DataFrame], hint: str | None = None) -> Way:
    """The job with Spark's own joins.

    Args:
        job: the job.
        tables: DataFrames; persist them where that belongs to the way.
        hint: None: Spark chooses; "broadcast" or "merge": what it is told.
    """

    def way(stream: DataFrame) -> DataFrame:
        for step in job.steps:
            table = tables[step.table].select(*step.columns)
            if hint == "broadcast":
                table = F.broadcast(table)
            elif hint:
                table = table.hint(hint)
            stream = stream.join(table, list(step.on))
        return stream.select(*job.columns)

    return way
