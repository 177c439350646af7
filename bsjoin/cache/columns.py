"""Arrow columns that grow in shared memory: rows are appended and never change.

Each column is a few :class:`GrowingArray` buffers in Arrow's layout, with three differences:
validity and booleans take one byte per row, and text has 64-bit offsets. Rows are gathered by
their numbers into arrays of exactly the column's type. Nested columns consist of columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.cache.memory import Arena, Bools, Int64s


class Columns:
    """Columns of the same length."""

    def __init__(self, arena: Arena, prefix: str, types: Sequence[pa.DataType]):
        self._stores = [
            _store(arena, f"{prefix}{number}", dtype) for number, dtype in enumerate(types)
        ]

    def append(self, at: int, arrays: Sequence[pa.Array]) -> None:
        """Write rows from a row number on; existing rows are overwritten."""
        for store, array in zip(self._stores, arrays, strict=True):
            store.append(at, array)

    def gather(self, rows: Int64s, numbers: Sequence[int] | None = None) -> list[pa.Array]:
        """The values of all columns (or of those in ``numbers``) at some rows.

        Complexity: O(requested rows).
        """
        wanted = range(len(self._stores)) if numbers is None else numbers
        return [self._stores[number].gather(rows) for number in wanted]

    def codes(self, number: int, count: int) -> Int64s:
        """The first ``count`` values of a column of int64, without a copy."""
        store = self._stores[number]
        assert isinstance(store, _Fixed)
        return store.view(count).view(np.int64)


def row_bytes(arrays: Sequence[pa.Array], count: int) -> Int64s:
    """The size of each row in bytes, as stored by :class:`Columns`."""
    total = np.zeros(count, np.int64)
    for array in arrays:
        total += _sizes(array)
    return total


def _sizes(array: pa.Array) -> Int64s:
    dtype = array.type
    sizes = np.ones(len(array), np.int64)
    if pa.types.is_struct(dtype):
        for i in range(dtype.num_fields):
            sizes += _sizes(array.field(i))
    elif pa.types.is_map(dtype) or pa.types.is_list(dtype):
        offsets = _offsets(array)
        inside = np.zeros(offsets[-1] - offsets[0] + 1, np.int64)
        for child in _children(array):
            inside[1:] += _sizes(child.slice(offsets[0], offsets[-1] - offsets[0]))
        ends = np.cumsum(inside).take(offsets - offsets[0])
        sizes += 8 + np.diff(ends)
    elif _is_text(dtype):
        sizes += 8 + np.diff(_text_offsets(array))
    elif not pa.types.is_null(dtype):
        sizes += _width(dtype)
    return sizes


class _Store(ABC):
    """One column. Validity is stored only from the first null on."""

    def __init__(self, arena: Arena, name: str, dtype: pa.DataType):
        self.dtype = dtype
        self._valid = arena.array(f"{name}.valid", np.uint8)
        # One number: whether there was a null, so that the validity is stored.
        self._state = arena.array(f"{name}.state", np.int64)

    def _has_nulls(self) -> bool:
        return bool(self._state.view(1)[0])

    def append(self, at: int, array: pa.Array) -> None:
        self._state.reserve(1)
        if array.null_count or self._has_nulls():
            if not self._has_nulls():
                self._valid.write(0, np.ones(at, np.uint8))
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            self._valid.write(at, valid.astype(np.uint8))
            self._state.view(1)[0] = 1
        self._append(at, array)

    def gather(self, rows: Int64s) -> pa.Array:
        if not len(rows):
            return pa.array([], self.dtype)
        missing = None
        count = int(rows.max()) + 1
        # Validity that is not mapped was stored after these rows, so none of them is null; it may
        # have gone with its generation.
        if self._has_nulls() and count <= len(self._valid):
            missing = self._valid.view(count).take(rows) == 0
            missing = missing if missing.any() else None
        return self._gather(rows, missing)

    @abstractmethod
    def _append(self, at: int, array: pa.Array) -> None: ...

    @abstractmethod
    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array: ...


class _Fixed(_Store):
    """Types of a fixed width: numbers, dates, decimals; booleans take one byte."""

    def __init__(self, arena: Arena, name: str, dtype: pa.DataType):
        super().__init__(arena, name, dtype)
        self._bool = pa.types.is_boolean(dtype)
        width = _width(dtype)
        # numpy takes elements of 1 to 16 bytes in one move each.
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
        self._element = np.dtype(kind.get(width, f"V{width}"))
        self._values = arena.array(f"{name}.values", self._element)

    def view(self, count: int) -> NDArray[Any]:
        """The first ``count`` elements, without a copy."""
        return self._values.view(count)

    def _append(self, at: int, array: pa.Array) -> None:
        if self._bool:
            plain = array.fill_null(False).to_numpy(zero_copy_only=False)
            self._values.write(at, plain.astype(np.uint8))
            return
        data = array.buffers()[1]
        if data is None:  # only nulls
            self._values.write(at, np.zeros(len(array), self._element))
            return
        size = self._element.itemsize
        raw = np.frombuffer(data, np.uint8)[array.offset * size :][: len(array) * size]
        self._values.write(at, raw.view(self._element))

    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array:
        values = self.view(int(rows.max()) + 1).take(rows)
        if self._bool:
            return pa.array(values.view(np.bool_), mask=missing)
        bitmap = None if missing is None else _bitmap(~missing)
        return pa.Array.from_buffers(self.dtype, len(rows), [bitmap, pa.py_buffer(values)])


class _Text(_Store):
    """Strings and binary: the end of each row's bytes, and the bytes."""

    def __init__(self, arena: Arena, name: str, dtype: pa.DataType):
        super().__init__(arena, name, dtype)
        self._ends = arena.array(f"{name}.ends", np.int64)
        self._bytes = arena.array(f"{name}.bytes", np.uint8)
        self._large = pa.large_string() if pa.types.is_string(dtype) else pa.large_binary()

    def _append(self, at: int, array: pa.Array) -> None:
        offsets = _text_offsets(array)
        data = array.buffers()[2]
        if not at:
            self._ends.write(0, np.zeros(1, np.int64))
        begin = int(self._ends.view(at + 1)[at])
        if data is not None:
            self._bytes.write(begin, np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]])
        self._ends.write(at + 1, offsets[1:] - offsets[0] + begin)

    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array:
        count = int(rows.max()) + 1
        ends = self._ends.view(count + 1)
        data = self._bytes.view(int(ends[count]))
        # A read of each text's first byte prefetches it (docs/decisions/0003-index.md).
        if len(data):
            data.take(ends.take(rows), mode="clip")
        stored = pa.Array.from_buffers(
            self._large, count, [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        return stored.take(pa.array(rows, mask=missing)).cast(self.dtype)


class _Struct(_Store):
    def __init__(self, arena: Arena, name: str, dtype: pa.StructType):
        super().__init__(arena, name, dtype)
        self._fields = [
            _store(arena, f"{name}.{i}", dtype.field(i).type) for i in range(dtype.num_fields)
        ]

    def _append(self, at: int, array: pa.Array) -> None:
        for i, store in enumerate(self._fields):
            store.append(at, array.field(i))

    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array:
        if not self._fields:
            mask = np.zeros(len(rows), np.bool_) if missing is None else missing
            return pa.array([None if gone else {} for gone in mask], self.dtype)
        return pa.StructArray.from_arrays(
            [store.gather(rows) for store in self._fields],
            fields=list(self.dtype),
            mask=None if missing is None else pa.array(missing),
        )


class _List(_Store):
    """Lists and maps: the end of each row's elements, and columns of elements."""

    def __init__(self, arena: Arena, name: str, dtype: pa.DataType):
        super().__init__(arena, name, dtype)
        self._ends = arena.array(f"{name}.ends", np.int64)
        kinds = [dtype.key_type, dtype.item_type] if pa.types.is_map(dtype) else [dtype.value_type]
        self._inside = [_store(arena, f"{name}.{i}", kind) for i, kind in enumerate(kinds)]

    def _append(self, at: int, array: pa.Array) -> None:
        offsets = _offsets(array)
        if not at:
            self._ends.write(0, np.zeros(1, np.int64))
        begin = int(self._ends.view(at + 1)[at])
        for store, child in zip(self._inside, _children(array), strict=True):
            store.append(begin, child.slice(offsets[0], offsets[-1] - offsets[0]))
        self._ends.write(at + 1, offsets[1:] - offsets[0] + begin)

    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array:
        ends = self._ends.view(int(rows.max()) + 2)
        starts = ends.take(rows)
        counts = ends.take(rows + 1) - starts
        if missing is not None:
            counts[missing] = 0
        after = np.cumsum(counts)
        total = int(after[-1])
        inside = np.repeat(starts - (after - counts), counts) + np.arange(total)
        children = [store.gather(inside) for store in self._inside]
        offsets = pa.array(np.concatenate(([0], after)), pa.int32())
        mask = None if missing is None else pa.array(missing)
        if pa.types.is_map(self.dtype):
            return pa.MapArray.from_arrays(offsets, *children, self.dtype, mask=mask)
        return pa.ListArray.from_arrays(offsets, children[0], self.dtype, mask=mask)


class _Void(_Store):
    """The type whose only value is null."""

    def _append(self, at: int, array: pa.Array) -> None:
        pass

    def _gather(self, rows: Int64s, missing: Bools | None) -> pa.Array:
        return pa.nulls(len(rows))


def _store(arena: Arena, name: str, dtype: pa.DataType) -> _Store:
    if pa.types.is_null(dtype):
        return _Void(arena, name, dtype)
    if pa.types.is_struct(dtype):
        return _Struct(arena, name, dtype)
    if pa.types.is_map(dtype) or pa.types.is_list(dtype):
        return _List(arena, name, dtype)
    return _Text(arena, name, dtype) if _is_text(dtype) else _Fixed(arena, name, dtype)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_binary(dtype))


def _width(dtype: pa.DataType) -> int:
    """Bytes a row."""
    return 1 if pa.types.is_boolean(dtype) else dtype.bit_width // 8


def _text_offsets(array: pa.Array) -> NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(buffer, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)


def _offsets(array: pa.Array) -> Int64s:
    """The start of each list among the children, and the end of the last one."""
    if not len(array):
        return np.zeros(1, np.int64)
    return np.asarray(array.offsets.to_numpy(), np.int64)


def _children(array: pa.Array) -> list[pa.Array]:
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def _bitmap(valid: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
