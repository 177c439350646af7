"""Opens the segments of a version and checks them against the manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bsjoin.errors import DamagedTableError
from bsjoin.index.checks import chunks
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import Manifest, RangeColumns
from bsjoin.storage.mapped import sound
from bsjoin.storage.range_index import RangeIndex
from bsjoin.storage.segment import Segment
from bsjoin.storage.segment_entries import SegmentInfo
from bsjoin.storage.spark_schema import LONG_DIGITS
from bsjoin.storage.unindexed import unindexed_column

_WIDE = 16  # bytes of a decimal of more than 18 digits
_NONE: Mapping[SegmentInfo, Segment] = MappingProxyType({})


@dataclass(frozen=True)
class OpenLayer:
    """The open segments of a :class:`bsjoin.storage.layers.entries.Layer`."""

    rows: Segment | None
    gone: Segment | None


def open_segments(
    location: StorageLocation, manifest: Manifest, opened: Mapping[SegmentInfo, Segment] = _NONE
) -> list[Segment]:
    """Open a version: indexes and compared keys immediately, columns when they are first used.

    Segments that another version with the same columns has ``opened`` are shared: not mapped and
    not checked again.

    Raises:
        DamagedTableError: a file is missing or invalid, or is inconsistent with the manifest or the
            other segments.

    Complexity: O(rows) of segments that are not open: the indexes are checked
        (docs/decisions/0012-validation.md).
    """
    segments = [opened.get(info) or _opened(location, info, manifest) for info in manifest.segments]
    last_hashes = [segment.last_hash for segment in segments] if len(segments) > 1 else []
    for last_hash, behind in zip(last_hashes, segments[1:], strict=False):
        if last_hash >= behind.info.first_hash:
            raise DamagedTableError(
                f"the manifest of version {manifest.version} of the table in {str(location)!r} "
                f"lists {behind.info.name!r} out of order; build the table again"
            )
    return segments


def open_layers(
    location: StorageLocation, manifest: Manifest, opened: Mapping[SegmentInfo, Segment] = _NONE
) -> list[OpenLayer]:
    """Open the layers of a version, oldest first; see :func:`open_segments`."""
    layers = []
    for layer in manifest.layers:
        rows = gone = None
        if layer.rows is not None:
            rows = opened.get(layer.rows) or _opened(location, layer.rows, manifest)
        if layer.gone is not None:
            gone = opened.get(layer.gone)
            gone = gone or Segment(location, layer.gone, manifest.compared, manifest.schema)
            with sound(location, layer.gone.files[0]):
                _check_ranges(gone.ranges, None)
        layers.append(OpenLayer(rows, gone))
    return layers


def _opened(location: StorageLocation, info: SegmentInfo, manifest: Manifest) -> Segment:
    segment = Segment(location, info, manifest.compared, manifest.schema)
    with sound(location, info.files[0]):
        _check_ranges(segment.ranges, manifest.ranged)
    return segment


def validate(location: StorageLocation, manifest: Manifest) -> None:
    """Validate all files of a version.

    Raises:
        DamagedTableError: as :func:`open_segments`; also for columns.
    """
    layered = [layer.rows for layer in open_layers(location, manifest) if layer.rows is not None]
    for segment in (*open_segments(location, manifest), *layered):
        _ = segment.last_hash  # and the least one, which is compared with the manifest
        for number in range(len(manifest.schema)):
            segment.column(number)
    columns = list(manifest.schema)[manifest.compared :]
    for info in manifest.unindexed or ():
        for number, field in enumerate(columns):
            unindexed_column(location, info, number, field)


def _check_ranges(index: RangeIndex | None, columns: RangeColumns | None) -> None:
    """Check a range index against the range columns in the manifest."""
    if index is None or columns is None:
        if index is not None or columns is not None:
            raise ValueError("only one of the file and the manifest is of a table for range joins")
        return
    if index.closed != columns.closed:
        raise ValueError(f"closed is {index.closed!r} and in the manifest {columns.closed!r}")
    if (index.places is not None) != columns.ordered:
        raise ValueError(f"places of rows are not as in the manifest, ordered={columns.ordered}")
    decimal = re.fullmatch(r"decimal\((\d+),-?\d+\)", columns.types[0])
    wide = decimal is not None and int(decimal[1]) > LONG_DIGITS
    ranked = wide or columns.types[0].startswith(("string", "binary"))
    if ranked != (index.ranks is not None):
        raise ValueError(f"values of type {columns.types[0]} are {'' if ranked else 'not '}ranked")
    if wide and index.ranks is not None:
        offsets = index.ranks.texts.offsets
        for begin, end in chunks(len(offsets)):
            if (offsets[begin:end] != np.arange(begin, end) * _WIDE).any():
                raise ValueError(f"a value of type {columns.types[0]} does not have {_WIDE} bytes")
