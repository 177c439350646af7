"""The segments in a manifest, validated: names, sizes, checksums and counts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from bsjoin.index import GREATEST, LEAST
from bsjoin.index.checks import MAX_ROWS
from bsjoin.storage import fields
from bsjoin.storage.names import DATA

MOST_ROWS = MAX_ROWS - 1
"""The most rows of a segment."""

TOGETHER_BYTES = 1 << 30
"""So much of a column is joined of several segments: an array of texts has 2 GiB at the most."""

_SEGMENT = re.compile(rf"{DATA}/[A-Za-z0-9_-]{{1,80}}/[A-Za-z0-9_-]{{1,80}}")
_CHECKSUM = re.compile(r"[0-9a-f]{32}")


class StoredFile(NamedTuple):
    """A file of a table: its name in the location, its bytes, and its XXH3-128 checksum."""

    name: str
    size: int
    checksum: str


class _StoredRows(ABC):
    """The metadata that both kinds of segments have."""

    sizes: tuple[int, ...]
    checksums: tuple[str, ...]

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The names of the files, relative to the table's location."""

    def file(self, place: int) -> StoredFile:
        """One of the files by its place."""
        return StoredFile(self.files[place], self.sizes[place], self.checksums[place])

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        lists = {"sizes": list(self.sizes), "checksums": list(self.checksums)}
        return asdict(self) | lists  # type: ignore[call-overload,no-any-return]


def fit_together(segments: Iterable[_StoredRows]) -> bool:
    """Whether each column of some segments of the same columns may be joined in memory."""
    files = zip_longest(*(one.sizes for one in segments), fillvalue=0)
    return all(sum(sizes) <= TOGETHER_BYTES for sizes in files)


@dataclass(frozen=True)
class BoxFile:
    """The file of a segment's boxes in the manifest.

    Args:
        size: its bytes.
        checksum: its XXH3-128 checksum, in hexadecimal.
        shares: for each dimension, what part of a key's rows a row of the stream meets there, by a
            sample as it was built.
    """

    size: int
    checksum: str
    shares: tuple[float, ...]

    @classmethod
    def from_json(cls, item: Any, dimensions: int | None) -> BoxFile:
        """One of data that is not trusted, of so many dimensions; None for any number.

        Fields that are not known are passed over.

        Raises:
            ValueError: names the invalid field.
        """
        listed = fields.items(item, "shares")
        shares = tuple(fields.number({"shares": one}, "shares") for one in listed)
        if dimensions not in (None, len(shares)) or not shares or max(shares) > 1:
            raise ValueError(f"the boxes of a segment have the shares {fields.shown(str(shares))}")
        checksum = fields.text(item, "checksum")
        if not _CHECKSUM.fullmatch(checksum):
            raise ValueError(f"the checksum {fields.shown(checksum)} is none")
        return cls(fields.whole(item, "size", 1), checksum, shares)


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
        boxes: the file of its rows by several ranges at once; None (default) for none.
    """

    name: str
    rows: int
    keys: int
    longest_run: int
    first_hash: int
    sizes: tuple[int, ...]
    checksums: tuple[str, ...]
    first_key: int | None = None
    boxes: BoxFile | None = None

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.sizes) + (0 if self.boxes is None else self.boxes.size)

    def to_json(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        found = super().to_json()
        del found["boxes"]
        if self.boxes is not None:
            found["boxes"] = asdict(self.boxes) | {"shares": list(self.boxes.shares)}
        return found

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, relative to the table's location."""
        columns = range(len(self.sizes) - 1)
        return (index_file(self.name), *(column_file(self.name, i) for i in columns))

    @property
    def box_file(self) -> StoredFile | None:
        """The file of its boxes; None if it has none."""
        if self.boxes is None:
            return None
        return StoredFile(box_file(self.name), self.boxes.size, self.boxes.checksum)

    @classmethod
    def from_json(
        cls,
        item: Any,
        columns: int | None = None,
        *,
        integers: bool = True,
        dimensions: int | None = None,
    ) -> SegmentInfo:
        """The inverse of :meth:`to_json`, for data that is not trusted.

        Fields that are not known are passed over, and so is a file of boxes if ``dimensions`` is 0.
        ``columns`` are those that are stored, compared keys included; None: any number.

        Raises:
            ValueError: names the invalid field.
        """
        files = None if columns is None else 1 + columns
        name, sizes, checksums = _files(item, files, f"index and {columns} columns")
        if not sizes:
            raise ValueError(f"the segment {name!r} has no sizes, not even that of its index")
        rows = fields.whole(item, "rows", 1, MOST_ROWS)
        keys = fields.whole(item, "keys", 1, rows)
        first_key = None
        if item.get("first_key") is not None:
            if not integers:
                raise ValueError(f"the segment {name!r} has a first_key, and its key is no integer")
            first_key = fields.whole(item, "first_key", LEAST)
        boxes = None
        if item.get("boxes") is not None and dimensions != 0:
            boxes = BoxFile.from_json(item["boxes"], dimensions)
        return cls(
            name=name,
            rows=rows,
            keys=keys,
            longest_run=fields.whole(item, "longest_run", 1, rows - keys + 1),
            first_hash=fields.whole(item, "first_hash", LEAST),
            sizes=sizes,
            checksums=checksums,
            first_key=first_key,
            boxes=boxes,
        )


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

    @classmethod
    def from_json(cls, item: Any, columns: int | None = None) -> UnindexedInfo:
        """The inverse of :meth:`to_json`, as for :class:`SegmentInfo`."""
        name, sizes, checksums = _files(item, columns, f"{columns} columns")
        return cls(name, fields.whole(item, "rows", 1, MOST_ROWS), sizes, checksums)


def box_file(name: str) -> str:
    """The name of the boxes of the segment ``name``."""
    return f"{name}.boxes.arrow"


def index_file(name: str) -> str:
    """The name of the index of the segment ``name``."""
    return f"{name}.index.arrow"


def column_file(name: str, number: int) -> str:
    """The name of a column of the segment ``name``."""
    return f"{name}.{number}.arrow"


def _files(item: Any, files: int | None, what: str) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """The name of a segment, and the sizes and checksums of its ``files``; None: any number."""
    name = fields.text(item, "name")
    if not _SEGMENT.fullmatch(name):
        raise ValueError(
            f"the segment name {fields.shown(name)} is not in a folder below '{DATA}/'"
        )
    sizes = fields.items(item, "sizes")
    checksums = fields.texts(item, "checksums")
    if not len(sizes) == len(checksums) == (len(sizes) if files is None else files):
        raise ValueError(
            f"the segment {name!r} has {len(sizes)} sizes and {len(checksums)} checksums for its "
            f"{'files' if files is None else what}"
        )
    if not all(type(size) is int and 0 < size <= GREATEST for size in sizes):
        raise ValueError(f"the segment {name!r} has one of sizes that is not a number of bytes")
    if not all(map(_CHECKSUM.fullmatch, checksums)):
        raise ValueError(f"the segment {name!r} has a checksum that is not one of xxh3-128")
    return name, tuple(sizes), checksums
