"""Rows that match nothing, stored outside of the index.

A row whose key is null, or in a table for range joins whose point or start is null, is found by no
look-up. It belongs to the table as Spark sees it nevertheless: ``count(*)`` and ``NOT IN`` need it.
Such rows are in segments of their own, which have no index:

``<name>.<i>.arrow``
    An Arrow IPC file with one column in one batch, for each column that can be selected.

A look-up opens none of them. The rows of a segment are in the order of a hash of their content, so
that the same rows make the same files, whatever order the source gives them in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index.encoding import GREATEST
from bsjoin.store.location import StorageLocation
from bsjoin.store.mapped import map_column
from bsjoin.store.segment import column_file
from bsjoin.store.segment_writer import Rows, taken, write_batch

__all__ = ["UnindexedInfo", "unindexed_column", "write_unindexed"]

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class UnindexedInfo:
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

    def to_json(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> UnindexedInfo:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: a value is out of its range.
            TypeError: a field is missing or unknown.
        """
        info = cls(**{**data, "sizes": tuple(data["sizes"]), "checksums": tuple(data["checksums"])})
        counts = (info.rows, *info.sizes)
        if not all(type(count) is int and 0 < count <= GREATEST for count in counts):
            raise ValueError(f"rows and sizes are above 0: {counts}")
        if len(info.sizes) != len(info.checksums):
            raise ValueError(f"{len(info.sizes)} sizes and {len(info.checksums)} checksums")
        return info


def write_unindexed(
    location: StorageLocation, name: str, hashes: Int64s, rows: Rows
) -> UnindexedInfo:
    """Write a segment without an index.

    Args:
        location: the table's location.
        name: the segment's name, relative to the location.
        hashes: int64[n], by which the rows are sorted; at least one.
        rows: the n rows in the same order, which may be any: the columns that can be selected.

    Returns:
        The metadata of the segment for the manifest.

    Raises:
        OverflowError: a column has more than 2 GiB of text.

    Complexity: O(n log n) time, the memory of a column twice.
    """
    order = np.argsort(hashes, kind="stable")
    files = []
    for number in range(rows.num_columns):
        batch = pa.RecordBatch.from_arrays([taken(rows, number, order)], ["column"])
        files.append(write_batch(location, column_file(name, number), batch))
    return UnindexedInfo(
        name=name,
        rows=len(order),
        sizes=tuple(size for size, _ in files),
        checksums=tuple(checksum for _, checksum in files),
    )


def unindexed_column(
    location: StorageLocation, info: UnindexedInfo, number: int, field: pa.Field
) -> pa.Array:
    """A memory-mapped column of a segment without an index, validated.

    Args:
        location: the table's location.
        info: the segment.
        number: of the column, among those that can be selected.
        field: its type and nullability.

    Raises:
        DamagedTableError: the file is missing or invalid.
        StoreAccessError: the file cannot be read.
    """
    return map_column(
        location, info.files[number], info.sizes[number], info.checksums[number], info.rows, field
    )
