"""The file of a segment's index: one row, whose columns are the index's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import HashIndex
from bsjoin.storage.mapped import shown
from bsjoin.storage.range_index import RANGE_CELLS, RANGE_LAYOUTS, RangeIndex

_HASH_COLUMNS = {
    "hashes": pa.large_list(pa.int64()),
    "directory": pa.large_list(pa.int32()),
    "runs": pa.large_list(pa.int32()),
    "base": pa.uint64(),
    "shift": pa.int32(),
}


def _schema(ranged: tuple[str, ...] | None) -> pa.Schema:
    """The columns of the file, including the given arrays of a range index; None for no index."""
    if ranged is None:
        return pa.schema(_HASH_COLUMNS)
    lists = {name: pa.large_list(RANGE_CELLS[name]) for name in ranged}
    return pa.schema(_HASH_COLUMNS | lists | {"closed": pa.string()})


_SCHEMAS = [_schema(ranged) for ranged in (None, *RANGE_LAYOUTS)]


def check_index_schema(schema: pa.Schema) -> None:
    """Refuse columns that are not those of an index.

    Raises:
        ValueError: names the columns.
    """
    if not any(schema.equals(known) for known in _SCHEMAS):
        raise ValueError(f"it contains {shown(schema)}, which is not an index")


def index_batch(index: HashIndex, ranges: RangeIndex | None) -> pa.RecordBatch:
    """An index as a record batch of one row, to be written."""
    ranged = None if ranges is None else ranges.cells()
    values: dict[str, Any] = {
        "hashes": index.hashes,
        "directory": index.directory,
        "runs": () if index.runs is None else index.runs,
        "base": [index.base],
        "shift": [index.shift],
        **(ranged or {}),
        "closed": [None if ranges is None else ranges.closed],
    }

    def column(field: pa.Field) -> pa.Array:
        if not pa.types.is_large_list(field.type):
            return pa.array(values[field.name], field.type)
        cell = pa.array(values[field.name], field.type.value_type)
        return pa.LargeListArray.from_arrays(pa.array([0, len(cell)], pa.int64()), cell)

    schema = _schema(None if ranged is None else tuple(ranged))
    return pa.record_batch([column(field) for field in schema], schema=schema)


def index_of(batch: pa.RecordBatch, *, dense: bool = False) -> tuple[HashIndex, RangeIndex | None]:
    """The inverse of :func:`index_batch`, of a batch whose schema has passed its check.

    The invariants are not checked here. ``dense`` makes it an index of dense integers.

    Raises:
        ValueError: a number or an array is null.
    """
    if batch.num_rows != 1:
        raise ValueError(f"an index has one row, not {batch.num_rows}")

    def cell(name: str) -> NDArray[Any]:
        column = batch.column(name)
        if column.null_count or column.values.null_count:
            raise ValueError(f"there are nulls in {name!r}")
        return np.asarray(column[0].values.to_numpy())

    def single(name: str) -> Any:
        return batch.column(name)[0].as_py()

    base, shift, runs = single("base"), single("shift"), cell("runs")
    if base is None or shift is None:
        raise ValueError("the base or the shift is null")
    index = HashIndex(
        cell("hashes"), cell("directory"), runs if len(runs) else None, base, shift, dense
    )
    if "closed" not in batch.schema.names:
        return index, None
    names = [name for name in RANGE_CELLS if name in batch.schema.names]
    return index, RangeIndex.of_cells({name: cell(name) for name in names}, single("closed"))
