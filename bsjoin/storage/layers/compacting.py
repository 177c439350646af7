"""Compaction: a base with the rows of the layers in it.

Each segment of the base takes the rows that layers have in its range of hashes; one without any
stays as it is, its files shared. Changes may be applied meanwhile: a later layer has all rows of
its keys, so it stays right above the new base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from bsjoin.index.arrays import Int64s
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.storage.box_file import BoxSide
from bsjoin.storage.builds import Build
from bsjoin.storage.layers.entries import MOST_LAYERS
from bsjoin.storage.layers.keys import row_hashes
from bsjoin.storage.layers.writing import write_rows
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.open_table import OpenTable
from bsjoin.storage.segment import Segment
from bsjoin.storage.segment_entries import MOST_ROWS, SegmentInfo
from bsjoin.values.retype import LARGEST

_DUE = 0.05  # of the rows of the base
_FEWEST = 1 << 14  # rows in layers; fewer are no matter, however small the base


def is_due(manifest: Manifest) -> bool:
    """Whether look-ups and changes would gain by a compaction."""
    layered = sum(layer.size for layer in manifest.layers)
    rows = sum(segment.rows for segment in manifest.segments)
    return layered > max(_FEWEST, _DUE * rows) or len(manifest.layers) > MOST_LAYERS


def compacted(
    build: Build, table: OpenTable, segment_bytes: int, boxes: Sequence[BoxSide] = ()
) -> tuple[SegmentInfo, ...]:
    """Write the segments, of about ``segment_bytes``, of a base that has all rows of a version.

    If this fails the caller abandons the build.

    Complexity: O(rows of the segments that layers have changed) time, and to see which those are
        O(keys); memory: of one segment at a time its compared keys, a column twice, and some
        numbers a row; of all layers 16 bytes a row.
    """
    manifest = table.manifest
    bases = len(manifest.segments)
    layered = []
    for number in range(bases, len(table.segments)):
        shown = np.flatnonzero(table.visible(number))
        hashes = row_hashes(table.segments[number]).take(shown)
        layered.append(_Part(table.segments[number], shown, hashes))
    firsts = [segment.first_hash for segment in manifest.segments] or [LEAST]
    firsts[0] = LEAST
    found: list[SegmentInfo] = []
    for number, first in enumerate(firsts):
        last = firsts[number + 1] - 1 if number + 1 < len(firsts) else GREATEST
        parts = [part.between(first, last) for part in layered]
        if bases:
            segment = table.segments[number]
            visible = table.visible(number)
            if visible.all() and not any(len(part.rows) for part in parts):
                found.append(segment.info)
                continue
            shown = np.flatnonzero(visible)
            parts.insert(0, _Part(segment, shown, row_hashes(segment).take(shown)))
        found += _written(build, f"{number:04d}", manifest, parts, segment_bytes, boxes)
    return tuple(found)


def rebased(
    now: Manifest, before: Manifest, base: tuple[SegmentInfo, ...], name: str
) -> Manifest | None:
    """The newest version above a base that a version before it was compacted into.

    None if the table was built again meanwhile, or, where an earlier version of bsjoin has made a
    base without rows, may have been. ``name`` is that of the build of the base.
    """
    had = before.layers
    is_same = bool(before.segments) or (
        now.base == before.base and (before.base is not None or now.layers[: len(had)] == had)
    )
    if now.segments != before.segments or not is_same:
        return None
    # A layer that has absorbed others of these has all rows of their keys.
    layers = tuple(layer for layer in now.layers if layer not in before.layers)
    live = now.live if layers else None
    return replace(now, segments=base, layers=layers, live=live, base=name)


@dataclass(frozen=True)
class _Part:
    """Some rows of a segment, ascending, with the hashes of their keys."""

    segment: Segment
    rows: Int64s
    hashes: Int64s

    def between(self, first: int, last: int) -> _Part:
        """Those with a hash from one to another."""
        chosen = np.flatnonzero((self.hashes >= first) & (self.hashes <= last))
        return _Part(self.segment, self.rows.take(chosen), self.hashes.take(chosen))


def _written(
    build: Build,
    name: str,
    manifest: Manifest,
    parts: list[_Part],
    segment_bytes: int,
    boxes: Sequence[BoxSide],
) -> list[SegmentInfo]:
    """Write rows as one segment, or as several of about the same size."""
    if not any(len(part.rows) for part in parts):
        return []
    hashes = np.concatenate([part.hashes for part in parts])
    size = sum(part.segment.info.bytes * len(part.rows) / part.segment.info.rows for part in parts)
    # A column of texts may be most of it; parts of equal numbers of rows differ.
    least = max(math.ceil(size / (LARGEST // 32 * 31)), -(-len(hashes) // MOST_ROWS))
    count = max(least, round(size / segment_bytes))
    cuts = np.quantile(hashes, np.arange(1, count) / count, method="lower") if count > 1 else []
    bounds = [LEAST, *sorted({int(cut) for cut in cuts} - {LEAST}), GREATEST + 1]
    found = []
    for number in range(len(bounds) - 1):
        some = [part.between(bounds[number], bounds[number + 1] - 1) for part in parts]
        if any(len(part.rows) for part in some):
            info = write_rows(
                build,
                f"{name}-{number}",
                manifest,
                np.concatenate([part.hashes for part in some]),
                partial(_column, manifest, some),
                boxes,
            )
            found.append(info)
    return found


def _column(manifest: Manifest, parts: list[_Part], number: int) -> pa.ChunkedArray:
    columns = [part.segment.column(number).take(pa.array(part.rows)) for part in parts]
    return pa.chunked_array(columns, manifest.schema.types[number])
