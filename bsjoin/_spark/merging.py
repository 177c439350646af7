"""Merging: the runs that the tasks of a build have written become few segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from bsjoin.store import HashRange, Merge, RunInfo, SegmentInfo, hash_ranges

__all__ = ["INFO", "RUN_BYTES", "collected", "info_row", "merged"]

RUN_BYTES = 64 << 20
"""How large a run grows, and what the driver merges itself."""

INFO = "info string"
"""The metadata of a run or a segment as a row of Spark."""


def info_row(info: RunInfo | SegmentInfo) -> pa.RecordBatch:
    """The metadata as :data:`INFO`."""
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(info.to_json())])], ["info"])


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    """What :func:`info_row` has written, as JSON objects."""
    return [json.loads(text) for text in rows.toArrow().column(0).to_pylist()]


def merged(
    spark: SparkSession, merge: Merge, runs: Sequence[RunInfo], segment_bytes: int
) -> tuple[SegmentInfo, ...]:
    """Merge runs into segments, and remove the runs.

    Args:
        spark: the session; its tasks write the segments that are larger than a run.
        merge: how.
        runs: in the order in which equal rows are to be.
        segment_bytes: how large a segment may grow.
    """
    if not runs:
        return ()
    ranges = hash_ranges(runs, segment_bytes)
    if sum(sum(run.block_bytes) for run in runs) <= RUN_BYTES:
        found = [merge.segment(f"{n:04d}", runs, range_) for n, range_ in enumerate(ranges)]
        segments = [info for info in found if info is not None]
    else:
        numbers = spark.range(0, len(ranges), 1, len(ranges))
        work = numbers.mapInArrow(_merger(merge, runs, ranges), INFO)
        segments = [*map(SegmentInfo.from_json, collected(work))]
    merge.clean()
    return tuple(sorted(segments, key=lambda info: info.first_hash))


def _merger(
    merge: Merge, runs: Sequence[RunInfo], ranges: Sequence[HashRange]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a merge task runs over the numbers of its ranges."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            # A task that is run again must not write to the files of the first try.
            context = TaskContext.get()
            name = f"{number:04d}-{context.taskAttemptId() if context else 0}"
            info = merge.segment(name, runs, ranges[number])
            if info is not None:
                yield info_row(info)

    return work
