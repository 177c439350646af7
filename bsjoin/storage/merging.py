"""Runs become segments.

A segment with an index is of a range of hashes. One of rows that match nothing is of neighbouring
runs: so its size is bounded, however many rows are equal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.storage.builds import Build
from bsjoin.storage.latest import Latest, PickedRows
from bsjoin.storage.runs import RunInfo, RunRows
from bsjoin.storage.segment_entries import SegmentInfo, UnindexedInfo
from bsjoin.storage.segment_writer import SegmentForm, write_segment
from bsjoin.storage.unindexed import write_unindexed

HashRange = tuple[int | None, int | None]
"""The least hash, and the one behind the greatest; None for no bound."""

_FULL = 15 / 16  # of a segment: where runs are cut is estimated
_PARTS = 64  # of a block, for that
_MOST_BYTES = 1 << 30  # of a segment without an index: an Arrow array has at most 2 GiB of text


@dataclass(frozen=True)
class Merge:
    """The order and the limits in which runs are merged.

    Args:
        build: where the segments are to be.
        schema: the columns of the runs, without the hashes.
        form: of the segments.
        latest: which rows of a key are written; None (default) for all.
    """

    build: Build
    schema: pa.Schema
    form: SegmentForm
    latest: Latest | None = None

    @property
    def stored(self) -> int:
        """How many columns a segment stores: those of the runs but the range columns and ties."""
        return len(self.schema) - self.form.sides - self.form.unstored

    def segment(self, name: str, runs: Sequence[RunInfo], hashes: HashRange) -> SegmentInfo | None:
        """Write the segment of a range of hashes, of all runs; None if there is no row."""
        location = self.build.location
        found = RunRows(location, runs, self.schema, *hashes)
        if not len(found.hashes):
            return None
        rows: RunRows | PickedRows = found
        if self.latest is not None:
            kept = self.latest.positions(found.hashes, found)
            if kept is not None:
                rows = PickedRows(found.given_hashes().take(kept), found, kept)
        with self.build.writing():
            return write_segment(
                location, f"{self.build.folder}/{name}", rows.given_hashes(), rows, self.form
            )

    def clean(self, kept: Collection[str]) -> None:
        """Remove all but some files: runs, and what tasks that failed have left."""
        location, folder = self.build.location, self.build.folder
        for name in location.names(folder):
            if f"{folder}/{name}" not in kept:
                location.remove(f"{folder}/{name}")


@dataclass(frozen=True)
class Gathering:
    """The merge of runs of rows that match nothing into segments without an index.

    Args:
        build: where the segments are to be.
        schema: the columns that can be selected, which are those of the runs after the hashes.
    """

    build: Build
    schema: pa.Schema

    def segment(self, name: str, runs: Sequence[RunInfo]) -> UnindexedInfo:
        """Write all rows of some runs, one or more, as one segment."""
        location = self.build.location
        rows = RunRows(location, runs, self.schema)
        with self.build.writing():
            return write_unindexed(
                location, f"{self.build.folder}/{name}", rows.given_hashes(), rows
            )


def run_groups(runs: Sequence[RunInfo], segment_bytes: int) -> list[list[RunInfo]]:
    """Neighbouring runs that together are not too many for a segment without an index.

    A segment has at most ``segment_bytes``, which is up to 1 GiB, unless one run is larger.
    """
    groups: list[list[RunInfo]] = []
    limit, size = min(segment_bytes, _MOST_BYTES), 0
    for run in runs:
        more = sum(run.block_bytes)
        if not groups or size + more > limit:
            groups.append([])
            size = 0
        groups[-1].append(run)
        size += more
    return groups


def hash_ranges(runs: Sequence[RunInfo], segment_bytes: int) -> list[HashRange]:
    """Ranges of hashes that have about equally many bytes, not too many for a segment.

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
    cuts = sorted({int(place) for place in found if LEAST < place < GREATEST})
    return [*zip([None, *cuts], [*cuts, None], strict=True)]
