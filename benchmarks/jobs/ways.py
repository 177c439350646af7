"""The alternatives to run a job on Spark, as data, and how a stream runs through one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import bsjoin
from benchmarks.data.tables import postgresql
from benchmarks.harness import spark as harness
from benchmarks.harness.outcome import Context
from benchmarks.harness.spark import Join, in_runtime
from benchmarks.harness.timing import seconds_of, timed
from benchmarks.jobs.jobs import FILES, Job, Step, arrow_schema, types_of

FULL, INCREMENTAL = "bsjoin, full, JVM", "bsjoin, incremental"
PYTHON = "bsjoin, full, Python"
SPARK, RECORD = "Spark, AQE on", "one query per record"

RECORD_ROUNDS = 3
"""How often one query per record is timed."""

_CONNECTIONS = 2  # of each join, as many as cores here; the database has fifty for all


@contextmanager
def loaded(job: Job, folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL on this machine with the tables of a job."""
    with postgresql() as url:
        load(url, job, folder)
        yield url


def load(url: str, job: Job, folder: Path) -> None:
    """Copy the tables of a job into a database; a unique key becomes the primary key."""
    import adbc_driver_postgresql.dbapi
    import psycopg

    with adbc_driver_postgresql.dbapi.connect(url) as session:
        for step in job.steps:
            table = pq.read_table(folder / step.table).select(step.columns)
            with session.cursor() as cursor:
                cursor.adbc_ingest(step.table, table, mode="create")
        session.commit()
    with psycopg.connect(url, autocommit=True) as session:
        for step in job.steps:
            key = f"ALTER TABLE {step.table} ADD PRIMARY KEY ({step.on})"
            session.execute(key if step.unique else f"CREATE INDEX ON {step.table} ({step.on})")
            session.execute(f"VACUUM ANALYZE {step.table}")


@cache
def connection(driver: str, url: str) -> Any:
    """A connection of a module, which this process keeps."""
    return import_module(driver).connect(url, autocommit=True)


def per_record(job: Job, url: str) -> Join:
    """The usual code: for every record and table a query over a connection that is kept."""
    steps = [(_query_of_one_key(one), one.keys, list(types_of(one.brings))) for one in job.steps]
    columns, schema = job.columns, arrow_schema(job.schema)

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = connection("psycopg", url)
        for batch in batches:
            rows = batch.to_pylist()
            for query, key, brings in steps:
                rows = [
                    row | dict(zip(brings, found, strict=True))
                    for row in rows
                    for found in session.execute(query, [row[name] for name in key])
                ]
            if rows:
                ordered = [{name: row[name] for name in columns} for row in rows]
                yield pa.RecordBatch.from_pylist(ordered, schema)

    return lambda stream: stream.mapInArrow(answer, job.schema)


def _query_of_one_key(step: Step) -> str:
    where = " AND ".join(f"{name} = %s" for name in step.keys)
    return f"SELECT {', '.join(types_of(step.brings))} FROM {step.table} WHERE {where}"


@dataclass(frozen=True)
class Ready:
    """A job whose tables are in every form that a way needs.

    ``url``: of a database with them; ``build_s``: seconds that their builds took.
    """

    context: Context
    job: Job
    size: float
    frames: Mapping[str, DataFrame]
    indexed: Mapping[str, bsjoin.BatchTable]
    url: str
    build_s: float

    def files(self, sizes: list[int]) -> Path:
        """The files of a stream with micro-batches of these sizes."""
        context = self.context
        return self.job.stream_files(context.data, self.size, sizes, context.seed)

    def way(self, name: str) -> Join:
        """One of :data:`WAYS`: a function of the stream."""
        return WAYS[name](self)

    def run(self, name: str, files: Path) -> list[float]:
        """Let a stream run through one way: Spark's ``addBatch`` of each micro-batch, in ms."""
        stream = harness.file_stream(self.context.spark, self.job.stream, files, FILES)
        every = harness.add_batch_ms(harness.run_stream(self.way(name)(stream)))
        sent = len(list(files.glob("*.parquet"))) // FILES
        if len(every) != sent:
            raise AssertionError(f"{name}: {sent} micro-batches were sent, {len(every)} reported")
        return every

    def records(self, files: Path, rows: int) -> list[float]:
        """Rows a second of one query per record, by round."""
        spark, way = self.context.spark, self.way(RECORD)
        cores = spark.sparkContext.defaultParallelism
        part = spark.read.schema(self.job.stream).parquet(str(files / "0000-0.parquet"))
        with harness.in_memory(part.limit(rows).repartition(cores)) as (kept,):
            harness.consume(way(kept.limit(1)))  # connects
            read = kept.count()  # fewer, if the file has fewer
            spent = [seconds_of(lambda: harness.consume(way(kept))) for _ in range(RECORD_ROUNDS)]
        return [read / one for one in spent]


@contextmanager
def prepared(context: Context, job: Job, size: float, *, url: str | None = None) -> Iterator[Ready]:
    """The tables of a job of a size, read, built, and loaded into a database.

    ``url``: of a database that has them, or "" if none is needed; None: one is started.
    """
    folder = job.tables(context.data, size)
    frames = {
        step.table: context.spark.read.parquet(str(folder / step.table)).select(*step.columns)
        for step in job.steps
    }
    build_s, indexed = timed(
        lambda: {
            step.table: bsjoin.BatchTable.build(
                frames[step.table], on=step.keys, unique=step.unique
            )
            for step in job.steps
        }
    )
    with loaded(job, folder) if url is None else nullcontext(url) as place:
        yield Ready(context, job, size, frames, indexed, place, build_s)


def _in_sequence(join: Callable[[Ready, DataFrame, Step], DataFrame], ready: Ready) -> Join:
    """All joins of a job."""

    def way(stream: DataFrame) -> DataFrame:
        for step in ready.job.steps:
            stream = join(ready, stream, step)
        return stream.select(*ready.job.columns)

    return way


def _full(ready: Ready, stream: DataFrame, step: Step) -> DataFrame:
    return ready.indexed[step.table].join(stream, step.keys)


def _incremental(ready: Ready, stream: DataFrame, step: Step) -> DataFrame:
    # A source of its own, so that each call begins with an empty cache, which has room for all.
    source = bsjoin.sources.sql(ready.url, table=step.table)
    rows = max(one.stats().rows for one in ready.indexed.values())
    cache = bsjoin.Incremental(max_rows=2 * rows, max_connections=_CONNECTIONS)
    return bsjoin.join(stream, source, step.keys, cache=cache)


def _spark(ready: Ready, stream: DataFrame, step: Step) -> DataFrame:
    return stream.join(ready.frames[step.table], step.keys)


WAYS: dict[str, Callable[[Ready], Join]] = {
    FULL: lambda ready: in_runtime("jvm", _in_sequence(_full, ready)),
    PYTHON: lambda ready: in_runtime("python", _in_sequence(_full, ready)),
    INCREMENTAL: partial(_in_sequence, _incremental),
    SPARK: partial(_in_sequence, _spark),
    RECORD: lambda ready: per_record(ready.job, ready.url),
}
"""Every alternative on Spark: from the tables to a function of the stream."""
