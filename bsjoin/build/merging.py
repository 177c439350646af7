"""Merging: the runs that the tasks of a build have written become few segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from bsjoin.build.progress import Progress
from bsjoin.storage import (
    Gathering,
    Merge,
    RunInfo,
    SegmentInfo,
    UnindexedInfo,
    hash_ranges,
    run_groups,
)

RUN_BYTES = 64 << 20
"""The most bytes of a run, and of runs that the driver merges itself."""

INFO = "info string"
"""The metadata of a run or a segment as a row of Spark."""

_Info = RunInfo | SegmentInfo | UnindexedInfo


def info_row(info: _Info) -> pa.RecordBatch:
    """The metadata as :data:`INFO`."""
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(info.to_json())])], ["info"])


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """The rows that :func:`info_row` has written, as JSON objects."""
    return [json.loads(text) for text in rows.toArrow().column(0).to_pylist()]


def merged(
    spark: SparkSession,
    merge: Merge,
    runs: Sequence[RunInfo],
    segment_bytes: int,
    progress: Progress,
) -> tuple[SegmentInfo, ...]:
    """Merge runs, in the order in which equal rows are to be, into segments with an index.

    Tasks of the session write the segments that are larger than a run.
    """
    if not runs:
        return ()
    ranges = hash_ranges(runs, segment_bytes)
    rows, columns = sum(sum(run.rows) for run in runs), merge.stored
    progress.merging(rows, len(ranges), columns)

    def write(number: int, name: str) -> SegmentInfo | None:
        return merge.segment(name, runs, ranges[number])

    segments = map(SegmentInfo.from_json, _written(spark, write, len(ranges), runs))
    return tuple(sorted(segments, key=lambda info: info.first_hash))


def gathered(
    spark: SparkSession, gathering: Gathering, runs: Sequence[RunInfo], segment_bytes: int
) -> tuple[UnindexedInfo, ...]:
    """Put runs of rows that match nothing together, into segments without an index.

    Runs are in the order of the source; tasks are as for :func:`merged`.
    """
    if not runs:
        return ()
    groups = run_groups(runs, segment_bytes)

    def write(number: int, name: str) -> UnindexedInfo:
        return gathering.segment(f"u{name}", groups[number])

    segments = map(UnindexedInfo.from_json, _written(spark, write, len(groups), runs))
    return tuple(sorted(segments, key=lambda info: info.name))


def _written(
    spark: SparkSession,
    write: Callable[[int, str], _Info | None],
    count: int,
    runs: Sequence[RunInfo],
) -> list[dict[str, Any]]:
    """Return the metadata of the segments below ``count``, as JSON; tasks write large ones.

    ``write`` writes the segment of a number under a name; None if it has no rows.
    """
    if sum(sum(run.block_bytes) for run in runs) <= RUN_BYTES:
        found = [write(number, f"{number:04d}") for number in range(count)]
        return [info.to_json() for info in found if info is not None]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            # A task that is run again must not write to the files of the first try.
            context = TaskContext.get()
            info = write(number, f"{number:04d}-{context.taskAttemptId() if context else 0}")
            if info is not None:
                yield info_row(info)

    return collected(spark.range(0, count, 1, count).mapInArrow(work, INFO))
