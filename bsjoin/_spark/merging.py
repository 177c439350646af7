"""Merging: the pieces that the tasks of a build have written become few segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from bsjoin.store import SegmentInfo, StorageLocation, merge_segments

__all__ = ["PIECE_BYTES", "SUMMARY", "SUMMARY_ARROW", "merged", "segments_of"]

PIECE_BYTES = 64 << 20
"""How large a piece grows, and what the driver merges itself."""

SUMMARY = (
    "name string, rows long, keys long, longest_run long, first_hash long, "
    "sizes array<long>, checksums array<string>, first_key long"
)
"""The metadata of a segment as a row of Spark."""

SUMMARY_ARROW = pa.schema(
    [
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("keys", pa.int64()),
        ("longest_run", pa.int64()),
        ("first_hash", pa.int64()),
        ("sizes", pa.list_(pa.int64())),
        ("checksums", pa.list_(pa.string())),
        ("first_key", pa.int64()),
    ]
)
"""The same in Arrow."""


def segments_of(summaries: list[dict[str, object]]) -> tuple[SegmentInfo, ...]:
    """The segments that rows of :data:`SUMMARY` describe, in the order of their hashes."""
    infos = [SegmentInfo.from_json(summary) for summary in summaries]
    return tuple(sorted(infos, key=lambda info: info.first_hash))


def merged(
    spark: SparkSession,
    location: StorageLocation,
    pieces: Sequence[SegmentInfo],
    folder: str,
    segment_bytes: int,
    integers: bool,
) -> tuple[SegmentInfo, ...]:
    """Merge neighbouring pieces into segments; pieces that become part of one are removed.

    Args:
        spark: the session; its tasks merge what is larger than a piece.
        location: the table's location.
        pieces: in the order of their hashes.
        folder: where the segments are to be, relative to the location.
        segment_bytes: how large a segment may grow.
        integers: whether the key is one integer and there are no range columns; see
            :func:`bsjoin.store.merge_segments`.
    """
    groups: list[list[SegmentInfo]] = []
    for piece in pieces:
        if not groups or sum(p.bytes for p in groups[-1]) + piece.bytes > segment_bytes:
            groups.append([])
        groups[-1].append(piece)
    names = [f"{folder}/{number:04d}" for number in range(len(groups))]
    large: list[tuple[str, str]] = []
    segments: list[SegmentInfo] = []
    for name, group in zip(names, groups, strict=True):
        if len(group) == 1 and not integers:
            segments += group
        elif sum(piece.bytes for piece in group) <= PIECE_BYTES:
            segments.append(merge_segments(location, name, group, integers=integers))
        else:
            large.append((name, json.dumps([piece.to_json() for piece in group])))
    if large:
        todo = spark.createDataFrame(large, "name string, pieces string")
        merge = _merger(location, integers)
        done = todo.repartition(len(large)).mapInArrow(merge, SUMMARY).toArrow()
        segments += segments_of(done.to_pylist())
    kept = {segment.name for segment in segments}
    for piece in pieces:
        if piece.name not in kept:
            piece.remove(location)
    return tuple(sorted(segments, key=lambda info: info.first_hash))


def _merger(
    location: StorageLocation, integers: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a merge task runs over the groups of pieces it is given."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                pieces = [SegmentInfo.from_json(piece) for piece in json.loads(row["pieces"])]
                # A task that is run again must not write to the files of the first try.
                context = TaskContext.get()
                name = f"{row['name']}-{context.taskAttemptId() if context else 0}"
                merged = merge_segments(location, name, pieces, integers=integers)
                yield pa.RecordBatch.from_pylist([merged.to_json()], SUMMARY_ARROW)

    return merge
