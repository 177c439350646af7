"""Merging: the runs that the tasks of a build have written become few segments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.index.sorted_rows import Closed
from bsjoin.store import RunInfo, RunRows, SegmentInfo, StorageLocation, write_segment

__all__ = ["INFO", "INFO_ARROW", "RUN_BYTES", "Merge", "merged"]

RUN_BYTES = 64 << 20
"""How large a run grows, and what the driver merges itself."""

INFO = "info string"
"""The metadata of a run or a segment as a row of Spark."""

INFO_ARROW = pa.schema([("info", pa.string())])
"""The same in Arrow."""

HashRange = tuple[int | None, int | None]
"""The least hash, and the one behind the greatest; None for no bound."""

_FULL = 15 / 16  # of a segment: where runs are cut is estimated
_PARTS = 64  # of a block, for that


@dataclass(frozen=True)
class Merge:
    """How runs are merged.

    Args:
        location: the table's location.
        folder: where the segments are to be, relative to the location.
        schema: the columns of the runs, without the hashes.
        keys: as for :func:`bsjoin.store.write_segment`.
        ranged: as for :func:`bsjoin.store.write_segment`.
        closed: as for :func:`bsjoin.store.write_segment`.
        integers: as for :func:`bsjoin.store.write_segment`.
        ties: whether the last column orders rows with the same key and point.
    """

    location: StorageLocation
    folder: str
    schema: pa.Schema
    keys: int
    ranged: int
    closed: Closed | None
    integers: bool
    ties: bool

    def segment(self, name: str, runs: Sequence[RunInfo], hashes: HashRange) -> SegmentInfo | None:
        """Write the segment of a range of hashes; None if there is no row.

        Args:
            name: the segment's, in the folder.
            runs: all runs.
            hashes: the range.
        """
        rows = RunRows(self.location, runs, self.schema, *hashes)
        if not len(rows.hashes):
            return None
        ties = None
        if self.ties:
            ties = rows.column(rows.num_columns - 1).to_numpy()
            rows = rows.without_last()
        path = f"{self.folder}/{name}"
        columns = self.keys, self.ranged, self.closed
        return write_segment(
            self.location, path, rows.hashes, rows, *columns, ties, integers=self.integers
        )


def merged(
    spark: SparkSession, merge: Merge, runs: Sequence[RunInfo], segment_bytes: int
) -> tuple[SegmentInfo, ...]:
    """Merge runs into segments, and remove them.

    Args:
        spark: the session; its tasks write the segments that are larger than a run.
        merge: how.
        runs: in the order in which equal rows are to be.
        segment_bytes: how large a segment may grow.
    """
    if not runs:
        return ()
    cuts = _cuts(runs, segment_bytes)
    ranges: list[HashRange] = [*zip([None, *cuts], [*cuts, None], strict=True)]
    if sum(sum(run.block_bytes) for run in runs) <= RUN_BYTES:
        found = [merge.segment(f"{n:04d}", runs, range_) for n, range_ in enumerate(ranges)]
        segments = [info for info in found if info is not None]
    else:
        numbers = spark.range(0, len(ranges), 1, len(ranges))
        work = numbers.mapInArrow(_merger(merge, runs, ranges), INFO)
        texts = work.toArrow().column(0).to_pylist()
        segments = [SegmentInfo.from_json(json.loads(text)) for text in texts]
    for run in runs:
        merge.location.remove(run.name)
    return tuple(sorted(segments, key=lambda info: info.first_hash))


def _cuts(runs: Sequence[RunInfo], segment_bytes: int) -> list[int]:
    """The hashes between which there are about equally many bytes, not too many for a segment.

    The bytes of a block are taken as spread evenly between its hashes.
    """
    firsts = np.array([first for run in runs for first in run.first_hashes], np.float64)
    lasts = np.array([last for run in runs for last in (*run.first_hashes[1:], run.last_hash)])
    sizes = np.array([size for run in runs for size in run.block_bytes], np.float64)
    segments = math.ceil(sizes.sum() / (_FULL * segment_bytes))
    shares = (np.arange(_PARTS) + 0.5) / _PARTS
    places = (firsts[:, None] + (lasts - firsts)[:, None] * shares).ravel()
    order = np.argsort(places)
    reached = np.repeat(sizes / _PARTS, _PARTS).take(order).cumsum()
    wanted = reached[-1] * np.arange(1, segments) / segments
    found = places.take(order).take(np.searchsorted(reached, wanted))
    return sorted({int(place) for place in found if LEAST < place < GREATEST})


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
                text = json.dumps(info.to_json())
                yield pa.RecordBatch.from_pylist([{"info": text}], INFO_ARROW)

    return work
