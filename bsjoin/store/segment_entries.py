"""What a manifest says of segments, validated: names, sizes, checksums and counts."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from bsjoin.index import GREATEST, LEAST
from bsjoin.store import fields
from bsjoin.store.names import is_plain

__all__ = [
    "SegmentInfo",
    "UnindexedInfo",
    "column_file",
    "index_file",
    "segment_entry",
    "unindexed_entry",
]

_MOST_ROWS = (1 << 31) - 1
_CHECKSUM = re.compile(r"[0-9a-f]{32}")


_Info = TypeVar("_Info", bound="_StoredRows")


class _StoredRows:
    """What the metadata of both kinds of segments have in common."""

    name: str
    rows: int
    sizes: tuple[int, ...]
    checksums: tuple[str, ...]
    _positive: ClassVar[tuple[str, ...]] = ("rows",)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_json(cls: type[_Info], data: dict[str, Any]) -> _Info:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: a value is out of its range.
            TypeError: a field is missing or unknown.
        """
        info = cls(**{**data, "sizes": tuple(data["sizes"]), "checksums": tuple(data["checksums"])})
        counts = (*(getattr(info, name) for name in info._positive), *info.sizes)
        if not all(type(count) is int and 0 < count <= GREATEST for count in counts):
            raise ValueError(f"{', '.join(info._positive)} and sizes are above 0: {counts}")
        if len(info.sizes) != len(info.checksums):
            raise ValueError(f"{len(info.sizes)} sizes and {len(info.checksums)} checksums")
        return info


@dataclass(frozen=True)
class SegmentInfo(_StoredRows):
    """The metadata of one segment in the manifest.

    Args:
        name: path of the files without their endings, relative to the table's location.
        rows: number of rows.
        keys: number of distinct keys.
        longest_run: the largest number of rows of one key.
        first_hash: the least hash of a row; no earlier segment contains it.
        sizes: bytes of the files: the index, then each column.
        checksums: XXH3-128 checksums of the files, in hexadecimal.
        first_key: the least key, if the rows are sorted by an integer key that is dense
            (:func:`bsjoin.index.are_dense`); None (default) if they are sorted by its hash.
    """

    name: str
    rows: int
    keys: int
    longest_run: int
    first_hash: int
    sizes: tuple[int, ...]
    checksums: tuple[str, ...]
    first_key: int | None = None
    _positive: ClassVar[tuple[str, ...]] = ("rows", "keys", "longest_run")

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, relative to the table's location."""
        columns = range(len(self.sizes) - 1)
        return (index_file(self.name), *(column_file(self.name, i) for i in columns))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SegmentInfo:
        """The inverse of :meth:`to_json`; with its errors."""
        info = super().from_json(data)
        for name, value in (("first_hash", info.first_hash), ("first_key", info.first_key or 0)):
            if not (type(value) is int and LEAST <= value <= GREATEST):
                raise ValueError(f"{name}={value!r} is not an int64")
        if not info.sizes:
            raise ValueError("a segment has a size for its index")
        return info


@dataclass(frozen=True)
class UnindexedInfo(_StoredRows):
    """The metadata of one segment without an index in the manifest.

    Args:
        name: path of the files without their endings, relative to the table's location.
        rows: number of rows.
        sizes: bytes of the files, one for each column that can be selected.
        checksums: XXH3-128 checksums of the files, in hexadecimal.
    """

    name: str
    rows: int
    sizes: tuple[int, ...]
    checksums: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, relative to the table's location."""
        return tuple(column_file(self.name, i) for i in range(len(self.sizes)))


def index_file(name: str) -> str:
    """The name of the index of the segment ``name``."""
    return f"{name}.index.arrow"


def column_file(name: str, number: int) -> str:
    """The name of a column of the segment ``name``."""
    return f"{name}.{number}.arrow"


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
