"""Opens the segments of a version and checks them against the manifest."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from bsjoin.errors import DamagedTableError
from bsjoin.index.checks import chunks
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import Manifest, RangeColumns
from bsjoin.storage.mapped import sound
from bsjoin.storage.range_index import RangeIndex
from bsjoin.storage.segment import Segment
from bsjoin.storage.spark_schema import LONG_DIGITS
from bsjoin.storage.unindexed import unindexed_column

__all__ = ["open_segments", "validate"]

_WIDE = 16  # bytes of a decimal of more than 18 digits


def open_segments(location: StorageLocation, manifest: Manifest) -> list[Segment]:
    """Open a version: indexes and compared keys immediately, columns when they are first used.

    Raises:
        DamagedTableError: a file is missing or invalid, or is inconsistent with the manifest or the
            other segments.

    Complexity: O(rows): the indexes are checked (docs/decisions/0012-validation.md).
    """
    segments = []
    for info in manifest.segments:
        segment = Segment(location, info, manifest.compared, manifest.schema)
        with sound(location, info.files[0]):
            _check_ranges(segment.ranges, manifest.ranged)
        segments.append(segment)
    for before, behind in pairwise(segments):
        if before.last_hash >= behind.info.first_hash:
            raise DamagedTableError(
                f"the manifest of version {manifest.version} of the table in {str(location)!r} "
                f"lists {behind.info.name!r} out of order; build the table again"
            )
    return segments


def validate(location: StorageLocation, manifest: Manifest) -> None:
    """Validate all files of a version.

    Raises:
        DamagedTableError: as :func:`open_segments`; also for columns.
    """
    for segment in open_segments(location, manifest):
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
