"""Letting a stream run through a job, and holding answers against each other."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.frames import cache_totals, consume, fingerprint, run_out
from benchmarks.harness.session import timed_s
from benchmarks.rivals.job import Job, ddl

__all__ = ["Batches", "as_frame", "check", "records", "run", "streamed"]

AQE = "spark.sql.adaptive.enabled"
_FILES = 2
RECORD_TURNS = 3
"""How often one query per record is timed."""

Way = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Batches:
    """The micro-batches of a stream: small ones for the latency, then large ones for the rate.

    Args:
        small: rows of a small one; the paper counts its latency over 10,000.
        smalls: how many small ones are counted.
        large: rows of a large one, which stands for a stream that is consumed at full speed.
        larges: how many large ones are counted.
        warm: how many small ones come before, uncounted; of the large ones it is one.
    """

    small: int
    smalls: int
    large: int
    larges: int
    warm: int = 2

    @property
    def sizes(self) -> list[int]:
        """Rows of every micro-batch, in order."""
        some = [self.small] * (self.warm + self.smalls)
        return some + ([self.large] * (1 + self.larges) if self.larges else [])

    @property
    def few(self) -> Batches:
        """Two small ones, in which Spark compiles what a way needs."""
        return Batches(self.small, 1, self.large, 0, 1)


def run(
    spark: SparkSession,
    job: Job,
    files: Path,
    way: Way,
    batches: Batches,
    *,
    adaptive: bool = True,
) -> dict[str, Any]:
    """Let a stream run through all its files.

    Args:
        spark: the session.
        job: whose stream it is.
        files: of :func:`benchmarks.rivals.job.stream_files`.
        way: from the stream to the result.
        batches: what the files are.
        adaptive: whether Spark may change its plans as it goes.

    Returns:
        ``ms`` (Spark's ``addBatch`` of the small micro-batches), ``rate`` (stream rows a second of
        the large ones; none without) with ``rates`` of each, and of an incremental cache
        ``hit_rate``, ``asked`` and ``lookups``.
    """
    spark.conf.set(AQE, adaptive)
    stream = spark.readStream.schema(ddl(job.stream)).option("maxFilesPerTrigger", _FILES)
    try:
        query = run_out(way(stream.parquet(str(files))))
    finally:
        spark.conf.set(AQE, True)
    done = [p for p in query.recentProgress if p.numInputRows]
    sizes = batches.sizes
    if len(done) != len(sizes):
        raise AssertionError(f"{len(done)} micro-batches of {len(sizes)} were told of")
    ms = [float(p.durationMs["addBatch"]) for p in done]
    first_large = batches.warm + batches.smalls
    found = {"ms": ms[batches.warm : first_large], "all_ms": ms, **cache_totals(query)}
    if batches.larges:
        counted = ms[first_large + 1 :]
        found["rate"] = batches.large * len(counted) / sum(counted) * 1e3
        found["rates"] = [batches.large / one * 1e3 for one in counted]
    return found


def streamed(spark: SparkSession, job: Job, files: Path, way: Way) -> DataFrame:
    """All that a way makes of a stream, one micro-batch after the other; kept by the driver."""
    name = f"answer_{uuid.uuid4().hex}"
    stream = spark.readStream.schema(ddl(job.stream)).option("maxFilesPerTrigger", _FILES)
    query = (
        way(stream.parquet(str(files)))
        .writeStream.format("memory")
        .queryName(name)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table(name)


def records(spark: SparkSession, job: Job, files: Path, way: Way, rows: int) -> dict[str, Any]:
    """Carry out a way that takes record by record, on a few, without the costs of a stream.

    Returns:
        ``rate`` in records a second, the median of ``rates``, of three turns; and ``record_ms``:
        what one record takes where one core works.
    """
    cores = spark.sparkContext.defaultParallelism
    part = spark.read.schema(ddl(job.stream)).parquet(str(files / "0000-0.parquet"))
    kept = part.limit(rows).repartition(cores).persist()
    kept.count()
    consume(way(kept.limit(1)))  # it connects
    spent = [timed_s(lambda: consume(way(kept))) for _ in range(RECORD_TURNS)]
    kept.unpersist()
    seconds = statistics.median(spent)
    return {
        "rate": rows / seconds,
        "rates": [rows / one for one in spent],
        "record_ms": seconds / rows * cores * 1e3,
    }


def as_frame(spark: SparkSession, job: Job, answer: pa.Table) -> DataFrame:
    """What another engine answered, as Spark sees it."""
    types = {"long": pa.int64(), "string": pa.string()}
    schema = pa.schema([(name, types[type_]) for name, type_ in job.types.items()])
    return spark.createDataFrame(answer.select(job.columns).cast(schema), job.schema)


def check(answers: Mapping[str, Callable[[], DataFrame]], columns: list[str]) -> int:
    """Hold all answers to the same rows against each other.

    Returns:
        How many rows the answer has.

    Raises:
        AssertionError: one differs from the first, or there is none at all.
    """
    found = {name: fingerprint(answer(), columns) for name, answer in answers.items()}
    first, right = next(iter(found.items()))
    wrong = {name: one for name, one in found.items() if one != right}
    if wrong:
        raise AssertionError(f"{', '.join(wrong)} differ from {first}: {found}")
    if not right[0]:
        raise AssertionError(f"{first} and all others find nothing: the check would be empty")
    return right[0]
