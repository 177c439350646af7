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

import numpy as np
import pyarrow as pa

from bsjoin.index.arrays import Int64s
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.mapped import map_column
from bsjoin.storage.segment_entries import UnindexedInfo, column_file
from bsjoin.storage.segment_writer import Rows, taken, write_batch


def write_unindexed(
    location: StorageLocation, name: str, hashes: Int64s, rows: Rows
) -> UnindexedInfo:
    """Write rows, at least one and in any order, by their hashes as a segment without an index.

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

    Raises:
        DamagedTableError: the file is missing or invalid.
        StoreAccessError: the file cannot be read.
    """
    return map_column(location, info.file(number), info.rows, field)
