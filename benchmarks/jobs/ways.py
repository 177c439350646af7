"""The alternatives to run a job on Spark, as data, and how a stream runs through one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.harness import spark as harness
from benchmarks.harness.outcome import Context
from benchmarks.harness.spark import Join, in_runtime
from benchmarks.harness.timing import seconds_of
from benchmarks.jobs.database import loaded, per_record
from benchmarks.jobs.job import FILES, Batches, Job, Step

FULL, FULL_PYTHON = "bsjoin, full, JVM", "bsjoin, full, Python"
INCREMENTAL, SPARK, RECORD = "bsjoin, incremental", "Spark, AQE on", "one query per record"

RECORD_ROUNDS = 3
"""How often one query per record is timed."""

_CONNECTIONS = 2  # of each join, as many as cores here; the database has fifty for all

Run = dict[str, Any]
"""What :meth:`Ready.run` returns."""


@dataclass(frozen=True)
class Ready:
    """A job whose tables are in every form that a way needs.

    ``url`` is of a database that has them, ``max_rows`` the room in an incremental cache.
    """

    context: Context
    job: Job
    size: float
    frames: Mapping[str, DataFrame]
    indexed: Mapping[str, bsjoin.BatchTable]
    build_s: float = 0.0
    url: str = ""
    max_rows: int = 0

    def files(self, sizes: list[int]) -> Path:
        """The files of a stream with micro-batches of these sizes."""
        context = self.context
        return self.job.stream_files(context.data, self.size, sizes, context.seed)

    def way(self, name: str) -> Join:
        """One of :data:`WAYS`: a function of the stream."""
        return WAYS[name](self)

    def run(
        self, name: str, files: Path, batches: Batches, records: int = 0, label: str = ""
    ) -> Run:
        """Let a stream run through one way; one query per record takes few rows, no stream.

        Returns:
            ``ms`` (Spark's ``addBatch`` of the small micro-batches), ``rate`` (stream rows a second
            of the large ones, if any) with ``rates`` of each, ``runtimes`` of bsjoin's joins, and
            of an incremental cache ``hit_rate``, ``asked`` and ``lookups``; of one query per record
            ``rate``, the median of ``rates``.
        """
        if name == RECORD:
            found = self._records(files, records)
        else:
            found = self._stream(name, files, batches)
        if label:
            latency = f"{statistics.median(found['ms']):8.0f} ms" if "ms" in found else 11 * " "
            hits = f"   hit rate {found['hit_rate']:.1%}" if "hit_rate" in found else ""
            shown = f"  {label:<9} {name:<30} {latency} {found.get('rate', 0):>12,.0f} rows/s"
            self.context.say(shown + hits)
        return found

    def _stream(self, name: str, files: Path, batches: Batches) -> Run:
        stream = harness.file_stream(self.context.spark, self.job.stream, files, FILES)
        query = harness.run_stream(self.way(name)(stream))
        ms = harness.add_batch_ms(query)
        if len(ms) != len(batches.sizes):
            raise AssertionError(f"{len(ms)} micro-batches are reported, not {len(batches.sizes)}")
        first_large = batches.warm + batches.smalls
        found = {"ms": ms[batches.warm : first_large], "all_ms": ms, **harness.cache_totals(query)}
        found["runtimes"] = sorted({cycle.runtime for cycle in bsjoin.progress(query)})
        if counted := ms[first_large + 1 :]:
            found["rate"] = batches.large * len(counted) / sum(counted) * 1e3
            found["rates"] = [batches.large / one * 1e3 for one in counted]
        return found

    def _records(self, files: Path, rows: int) -> Run:
        spark, way = self.context.spark, self.way(RECORD)
        cores = spark.sparkContext.defaultParallelism
        part = spark.read.schema(self.job.stream).parquet(str(files / "0000-0.parquet"))
        with harness.in_memory(part.limit(rows).repartition(cores)) as (kept,):
            harness.consume(way(kept.limit(1)))  # connects
            spent = [seconds_of(lambda: harness.consume(way(kept))) for _ in range(RECORD_ROUNDS)]
        return {"rate": rows / statistics.median(spent), "rates": [rows / one for one in spent]}


@contextmanager
def prepared(
    context: Context, job: Job, size: float, *, max_rows: int = 0, url: str | None = None
) -> Iterator[Ready]:
    """The tables of a job of a size, read, built, and loaded into a database.

    ``url``: of a database that has them, or "" if none is needed; None: one is started.
    """
    folder, indexed = job.tables(context.data, size), {}  # type: Path, dict[str, Any]
    frames = {
        step.table: context.spark.read.parquet(str(folder / step.table)).select(*step.columns)
        for step in job.steps
    }

    def build() -> None:
        for step in job.steps:
            df = frames[step.table]
            indexed[step.table] = bsjoin.BatchTable.build(df, on=step.keys, unique=step.unique)

    build_s = seconds_of(build)
    with loaded(job, folder) if url is None else nullcontext(url) as place:
        yield Ready(context, job, size, frames, indexed, build_s, place, max_rows)


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
    # A source of its own, so that each call begins with an empty cache.
    source = bsjoin.sources.sql(ready.url, table=step.table)
    cache = bsjoin.Incremental(max_rows=ready.max_rows, max_connections=_CONNECTIONS)
    return bsjoin.join(stream, source, step.keys, cache=cache)


def _spark(ready: Ready, stream: DataFrame, step: Step) -> DataFrame:
    return stream.join(ready.frames[step.table], step.keys)


WAYS: dict[str, Callable[[Ready], Join]] = {
    FULL: lambda ready: in_runtime("jvm", _in_sequence(_full, ready)),
    FULL_PYTHON: lambda ready: in_runtime("python", _in_sequence(_full, ready)),
    INCREMENTAL: partial(_in_sequence, _incremental),
    SPARK: partial(_in_sequence, _spark),
    RECORD: lambda ready: per_record(ready.job, ready.url),
}
"""Every alternative on Spark: from the tables to a function of the stream."""
