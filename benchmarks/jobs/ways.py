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
from benchmarks.harness.spark import AQE, Join, in_runtime
from benchmarks.harness.timing import seconds_of
from benchmarks.jobs.database import loaded, per_batch, per_record
from benchmarks.jobs.job import FILES, Batches, Job, Step

FULL, FULL_PYTHON = "bsjoin, full, JVM", "bsjoin, full, Python"
INCREMENTAL = "bsjoin, incremental"
AQE_ON, AQE_OFF = "Spark, AQE on", "Spark, AQE off"
BROADCAST, MERGE = "Spark, persisted broadcast", "Spark, sort-merge"
RECORD, BATCH = "one query per record", "one query per micro-batch"
OURS = (FULL, FULL_PYTHON, INCREMENTAL)

RECORD_ROUNDS = 3
"""How often one query per record is timed."""

_CONNECTIONS = 2  # of each join, as many as cores here; the database has fifty for all

Run = dict[str, Any]
"""What :meth:`Ready.run` returns."""


StepJoin = Callable[["Ready", DataFrame, Step], DataFrame]
"""One join of a job: the stream with a table."""


@dataclass(frozen=True)
class Ready:
    """A job whose tables are in every form that a way needs.

    Args:
        context: of the benchmark.
        job: the job.
        size: of its tables.
        frames: Spark's DataFrames of the files.
        indexed: bsjoin's tables.
        build_s: how long these took to build.
        url: of a database that has them.
        max_rows: room in an incremental cache.
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
            ``rate``, the median of ``rates``, and ``record_ms`` of a record and core.
        """
        if name == RECORD:
            found = self._records(files, records)
        else:
            found = self._stream(name, files, batches)
        if label:
            latency = f"{latency_ms(found):8.0f} ms" if "ms" in found else 11 * " "
            hits = f"   hit rate {found['hit_rate']:.1%}" if "hit_rate" in found else ""
            shown = f"  {label:<9} {name:<30} {latency} {found.get('rate', 0):>12,.0f} rows/s"
            self.context.say(shown + hits)
        return found

    def _stream(self, name: str, files: Path, batches: Batches) -> Run:
        frames = self.frames.values() if name == BROADCAST else ()
        for df in frames:  # in memory for this run only: every other way would find them there
            harness.persisted(df)
        try:
            with harness.configured(self.context.spark, {AQE: name != AQE_OFF}):
                query = harness.run_stream(self.way(name)(self._reader(files)))
        finally:
            for df in frames:
                df.unpersist(blocking=True)
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
        kept = harness.persisted(part.limit(rows).repartition(cores))
        harness.consume(way(kept.limit(1)))  # connects
        spent = [seconds_of(lambda: harness.consume(way(kept))) for _ in range(RECORD_ROUNDS)]
        kept.unpersist()
        rate, rates = rows / statistics.median(spent), [rows / one for one in spent]
        return {"rate": rate, "rates": rates, "record_ms": cores * 1e3 / rate}

    def _reader(self, files: Path) -> DataFrame:
        return harness.file_stream(self.context.spark, self.job.stream, files, FILES)


@contextmanager
def prepared(
    context: Context, job: Job, size: float, *, max_rows: int = 0, url: str | None = None
) -> Iterator[Ready]:
    """The tables of a job of a size, read, built, and loaded into a database.

    Args:
        context: of the benchmark.
        job: the job.
        size: of its tables.
        max_rows: room in an incremental cache.
        url: of a database that has them, or "" if none is needed; None: one is started.
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


def _in_sequence(join: StepJoin, ready: Ready) -> Join:
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


def _spark(ready: Ready, stream: DataFrame, step: Step, hint: str = "") -> DataFrame:
    table = ready.frames[step.table]
    return stream.join(table.hint(hint) if hint else table, step.keys)


WAYS: dict[str, Callable[[Ready], Join]] = {
    FULL: lambda ready: in_runtime("jvm", _in_sequence(_full, ready)),
    FULL_PYTHON: lambda ready: in_runtime("python", _in_sequence(_full, ready)),
    INCREMENTAL: partial(_in_sequence, _incremental),
    AQE_ON: partial(_in_sequence, _spark),
    AQE_OFF: partial(_in_sequence, _spark),
    MERGE: partial(_in_sequence, partial(_spark, hint="merge")),
    BATCH: lambda ready: per_batch(ready.job, ready.url),
    RECORD: lambda ready: per_record(ready.job, ready.url),
    BROADCAST: partial(_in_sequence, partial(_spark, hint="broadcast")),
}
"""Every alternative on Spark: from the tables to a function of the stream."""


def latency_ms(run: Run) -> float:
    """The median of a way's small micro-batches; or of a record."""
    return float(statistics.median(run["ms"])) if "ms" in run else float(run["record_ms"])
