"""Columns in shared memory give back what was appended, whatever the type."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from nested_values import NESTED

from bsjoin.cache.columns import Columns, row_bytes
from bsjoin.cache.memory import Arena

UTC = datetime.UTC
DAY = datetime.datetime(2026, 11, 21, 1, 2, 3, 4)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, True],
    pa.int8(): [-128, 0, 127],
    pa.int16(): [-32768, 0, 32767],
    pa.int32(): [-(2**31), 0, 2**31 - 1],
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.float32(): [0.5, float("inf"), -0.25],
    pa.float64(): [0.1, float("-inf"), 1e300],
    pa.decimal128(38, 10): [Decimal("1.5"), Decimal("-9999999999999999999999999999.5"), 0],
    pa.date32(): [DAY.date(), datetime.date.min, datetime.date.max],
    pa.timestamp("us", "UTC"): [DAY.replace(tzinfo=UTC)] * 3,
    pa.timestamp("us"): [DAY, datetime.datetime.min, datetime.datetime.max],
    pa.time64("us"): [DAY.time(), datetime.time(), datetime.time.max],
    pa.duration("us"): [datetime.timedelta(days=-1), datetime.timedelta(), DAY - DAY],
    pa.string(): ["", "é" * 50, "x\0y"],
    pa.binary(): [b"", b"\0\xff" * 70, b"x"],
    pa.null(): [None, None, None],
    **NESTED,
    pa.struct([]): [{}, {}, {}],
}


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_of_every_type_come_back_in_any_order_and_number(tmp_path: Path, nulls: bool) -> None:
    """Written in slices of other arrays, too."""
    columns = Columns(Arena(tmp_path), "c", list(VALUES))
    arrays = [pa.array(v + [None] * nulls + v[::-1], dtype) for dtype, v in VALUES.items()]
    size, written, pieces = len(arrays[0]), 0, []
    for first, count in [(0, size), (2, 3), (1, 2), (0, 0), (size - 1, 1)] * 20:
        pieces.append([array.slice(first, count) for array in arrays])
        columns.append(written, pieces[-1])
        written += count
    rng = np.random.default_rng(1)
    for rows in (
        np.arange(written),
        rng.integers(0, written, 500),
        np.array([written - 1]),
        np.array([], np.int64),
    ):
        gathered = zip(VALUES, columns.gather(rows), zip(*pieces, strict=True), strict=True)
        for dtype, found, written_pieces in gathered:
            assert found.type == dtype
            found.validate(full=True)
            whole = pa.concat_arrays(written_pieces)
            assert found.equals(whole.take(pa.array(rows, pa.int64()))), dtype


def test_the_size_of_a_row_does_not_depend_on_its_neighbours() -> None:
    for dtype, values in VALUES.items():
        array = pa.array([*values, None, *values], dtype)
        together = row_bytes([array, array], len(array))
        alone = [row_bytes([array.slice(i, 1)] * 2, 1)[0] for i in range(len(array))]
        assert together.tolist() == alone, dtype
        assert row_bytes([array.slice(2, 4)], 4).tolist() == (together[2:6] // 2).tolist()


@pytest.mark.parametrize("dtype", [pa.int64(), pa.list_(pa.int64())], ids=str)
def test_a_first_null_that_comes_later_is_nothing_to_older_rows(
    tmp_path: Path, dtype: pa.DataType
) -> None:
    """The second process has not mapped where nulls are stored, and cannot when it has gone."""
    writer, reader = Arena(tmp_path), Arena(tmp_path)
    written, read = Columns(writer, "c", [dtype]), Columns(reader, "c", [dtype])
    rows = [1, 2] if dtype == pa.int64() else [[1], [2, 3]]
    written.append(0, [pa.array(rows, dtype)])
    reader.refresh()
    written.append(2, [pa.array([None, rows[0]] if dtype == pa.int64() else [None, [None]], dtype)])
    for file in tmp_path.iterdir():
        file.unlink()
    assert read.gather(np.array([1, 0]))[0].to_pylist() == rows[::-1]
