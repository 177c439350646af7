"""What a manifest says of segments, validated: names, sizes, checksums and counts."""

from __future__ import annotations

import re
from typing import Any

from bsjoin.index import GREATEST, LEAST
from bsjoin.store import fields
from bsjoin.store.names import is_plain
from bsjoin.store.segment import SegmentInfo
from bsjoin.store.unindexed import UnindexedInfo

__all__ = ["segment_entry", "unindexed_entry"]

_MOST_ROWS = (1 << 31) - 1
_CHECKSUM = re.compile(r"[0-9a-f]{32}")


def segment_entry(item: Any, columns: int, integers: bool) -> SegmentInfo:
    """A segment with an index.

    Args:
        item: the JSON.
        columns: how many columns are stored, compared keys included.
        integers: whether its key is one integer.

    Raises:
        ValueError: names the invalid field.
    """
    name, sizes, checksums = _files(item, 1 + columns, f"index and {columns} columns")
    rows = fields.whole(item, "rows", 1, _MOST_ROWS)
    keys = fields.whole(item, "keys", 1, rows)
    first_key = None
    if item.get("first_key") is not None:
        if not integers:
            raise ValueError(f"the segment {name!r} has a first_key, and its key is no integer")
        first_key = fields.whole(item, "first_key", LEAST)
    return SegmentInfo(
        name=name,
        rows=rows,
        keys=keys,
        longest_run=fields.whole(item, "longest_run", 1, rows - keys + 1),
        first_hash=fields.whole(item, "first_hash", LEAST),
        sizes=sizes,
        checksums=checksums,
        first_key=first_key,
    )


def unindexed_entry(item: Any, columns: int) -> UnindexedInfo:
    """A segment without an index.

    Args:
        item: the JSON.
        columns: how many columns can be selected.

    Raises:
        ValueError: names the invalid field.
    """
    name, sizes, checksums = _files(item, columns, f"{columns} columns")
    return UnindexedInfo(name, fields.whole(item, "rows", 1, _MOST_ROWS), sizes, checksums)


def _files(item: Any, files: int, what: str) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """The name of a segment, and the sizes and checksums of its files."""
    name = fields.text(item, "name")
    if not (is_plain(name) and name.count("/") == 2 and name.startswith("data/")):
        raise ValueError(f"the segment name {fields.shown(name)} is not in a folder below 'data/'")
    sizes = fields.items(item, "sizes")
    checksums = fields.texts(item, "checksums")
    if not len(sizes) == len(checksums) == files:
        raise ValueError(
            f"the segment {name!r} has {len(sizes)} sizes and {len(checksums)} checksums for its "
            f"{what}"
        )
    if not all(type(size) is int and 0 < size <= GREATEST for size in sizes):
        raise ValueError(f"the segment {name!r} has a size that is not a number of bytes")
    if not all(map(_CHECKSUM.fullmatch, checksums)):
        raise ValueError(f"the segment {name!r} has a checksum that is not one of xxh3-128")
    return name, tuple(sizes), checksums
