"""``parquet``: every row that a scan returns is found by its own key, whoever wrote the files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_samples import imported_polars

from bsjoin.sources import parquet

DAYS = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-800_000, 3_000_000)
MICROS = st.integers(-(2**62), 2**62) | st.integers(-(10**16), 10**16)
# Arrow types as they may be written, with their values; numbers for dates and times.
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{
        str(dtype): (dtype, st.integers(low, high))
        for dtype, low, high in [
            (pa.int8(), -128, 127), (pa.int16(), -32768, 32767), (pa.uint8(), 0, 255),
            (pa.int32(), -(2**31), 2**31 - 1), (pa.uint32(), 0, 2**32 - 1),
            (pa.int64(), -(2**63), 2**63 - 1), (pa.uint64(), 0, 2**64 - 1),
        ]
    },
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    **{
        f"decimal({digits}, {scale})": (
            pa.decimal128(digits, scale),
            st.integers(-(10**digits) + 1, 10**digits - 1).map(
                lambda n, scale=scale: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))
            ),
        )
        for digits, scale in ((4, 2), (9, 9), (18, 3), (38, 10))
    },
    "string": (pa.string(), st.text(max_size=5).map(str.encode)),
    "any text": (pa.string(), st.binary(max_size=80)),
    "text view": (pa.string_view(), st.binary(max_size=20)),
    "large text": (pa.large_string(), st.binary(max_size=5)),
    "binary": (pa.binary(), st.binary(max_size=80)),
    "binary view": (pa.binary_view(), st.binary(max_size=20)),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us"), MICROS),
    "timestamp ms": (pa.timestamp("ms"), st.integers(-(10**15), 10**15)),
    "timestamp UTC": (pa.timestamp("us", "Europe/Madrid"), MICROS),
    "timestamp ns": (pa.timestamp("ns", "UTC"), st.integers(-(2**63) + 1, 2**63 - 1)),
}  # fmt: skip


def made(values: list[Any], dtype: pa.DataType) -> pa.Array:
    """An array, also of values that Python's types do not have."""
    if pa.types.is_date(dtype):
        return pa.array(values, pa.int32()).cast(dtype)
    if pa.types.is_timestamp(dtype):
        return pa.array(values, pa.int64()).cast(dtype)
    if dtype == pa.string_view():
        return pa.array(values, pa.binary_view()).view(dtype)
    if pa.types.is_large_string(dtype):
        return pa.array(values, pa.large_binary()).view(dtype)
    return (
        pa.array(values, pa.binary()).view(dtype)
        if pa.types.is_string(dtype)
        else pa.array(values, dtype)
    )


def shown(table: pa.Table) -> list[str]:
    columns = []
    for column in table.columns:
        array = column.combine_chunks()
        if pa.types.is_timestamp(array.type):
            array = array.view(pa.int64())
        elif pa.types.is_date(array.type):
            array = array.view(pa.int32())
        elif pa.types.is_string(array.type):
            array = array.view(pa.binary())
        columns.append(array.to_pylist())
    return sorted(map(repr, zip(*columns, strict=True)))


def check_own_keys(folder: Path, names: list[str]) -> None:
    source = parquet(folder)
    whole = pa.Table.from_batches(source.scan(), source.schema)
    for name in names:
        whole = whole.filter(whole.column(name).is_valid())
    keys = whole.select(names).group_by(names).aggregate([])
    if len(keys):
        assert shown(source.lookup(keys).select(whole.column_names)) == shown(whole)
    for row in range(min(3, len(keys))):
        one = source.lookup(keys.slice(row, 1))
        assert len(one) >= 1
    source.close()


@settings(max_examples=60)
@given(data=st.data())
def test_rows_are_found_by_their_own_keys(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("own")
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    for file in range(data.draw(st.integers(1, 2))):
        count = data.draw(st.integers(1, 12))
        columns = {}
        for number, kind in enumerate(kinds):
            dtype, values = KINDS[kind]
            drawn = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
            columns[f"k{number}"] = made(drawn, dtype)
        table = pa.table({**columns, "row": range(count)})
        pq.write_table(
            table,
            folder / f"{file}.parquet",
            row_group_size=data.draw(st.integers(1, 5)),
            write_statistics=data.draw(st.booleans()),
            use_dictionary=data.draw(st.booleans()),
            data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
            store_decimal_as_integer=data.draw(st.booleans()),
            store_schema=data.draw(st.booleans()),
            write_page_index=data.draw(st.booleans()),
        )
    check_own_keys(folder, [f"k{number}" for number in range(len(kinds))])


def _polars(folder: Path) -> None:
    pl = imported_polars()
    days = [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
    frame = pl.DataFrame(
        {
            "text": ["é" * 200, "é" * 199 + "f", None],
            "bytes": [b"\xff" * 100, b"\xff" * 101, None],
            "kind": pl.Series(["a", "b", None], dtype=pl.Categorical),
            "number": pl.Series([2**64 - 1, 0, None], dtype=pl.UInt64),
            "amount": [Decimal("1.5"), Decimal("-1.5"), None],
            "day": days,
            "at": pl.Series(days).cast(pl.Datetime("ms")),
            "float": [float("nan"), -0.0, None],
        }
    )
    frame.write_parquet(folder / "a.parquet", row_group_size=1, statistics="full")


def _duckdb(folder: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT repeat('é', 200) || i AS text, repeat('\\xFF', 100)::BLOB AS bytes,
            (CASE i WHEN 0 THEN 'a' ELSE 'b' END)::ENUM('a', 'b') AS kind, i::UBIGINT AS number,
            (i / 4)::DECIMAL(5, 2) AS amount, i::UTINYINT AS small, i::DOUBLE AS float,
            uuid() AS id, '{{"a": 1}}'::JSON AS json, DATE '0044-03-15 (BC)' + i::INTEGER AS day,
            (CASE i WHEN 0 THEN 'infinity' ELSE '-infinity' END)::TIMESTAMPTZ AS at,
            make_timestamp_ns(i * 1001 - 1) AS nanos
            FROM range(5) t(i)) TO '{folder / "a.parquet"}' (FORMAT parquet, ROW_GROUP_SIZE 2)"""
        )


def _pandas(folder: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "text": ["a", "b", None],
            "kind": pd.Categorical(["x", None, "y"]),
            "number": pd.array([1, None, 2], dtype="Int32"),
            "at": pd.to_datetime(["2024-01-01 00:00:00.000000001", None, "1900-01-01 00:00:00.0"]),
            "zoned": pd.to_datetime(["2024-01-01", None, "1900-01-01"]).tz_localize("Asia/Tokyo"),
            "float": [0.1, float("nan"), -0.0],
        },
        index=pd.Index([5, 6, 7], name="index"),
    )
    frame.to_parquet(folder / "a.parquet")


@pytest.mark.parametrize("write", [_polars, _duckdb, _pandas], ids=lambda f: f.__name__.strip("_"))
def test_rows_of_other_programs(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    names = parquet(tmp_path).schema.names
    for name in names:
        check_own_keys(tmp_path, [name])
    check_own_keys(tmp_path, names[:3])


def test_partition_columns_are_keys(tmp_path: Path) -> None:
    values = ["1", "2024-01-01", "a%2Fb", "é", "__HIVE_DEFAULT_PARTITION__", "0.5"]
    for chosen in ([0], [0, 4], [1, 4], [2, 3], [0, 5], [5], [0, 1, 2]):
        folder = tmp_path / "-".join(map(str, chosen))
        for number in chosen:
            (folder / f"p={values[number]}").mkdir(parents=True)
            pq.write_table(pa.table({"k": [1, 2]}), folder / f"p={values[number]}" / "a.parquet")
        check_own_keys(folder, ["p"])
        check_own_keys(folder, ["k", "p"])


@pytest.mark.parametrize("dtype", [pa.string(), pa.string_view(), pa.large_string()])
def test_a_key_that_is_not_utf_8_costs_no_other_key_its_rows(
    tmp_path: Path, dtype: pa.DataType
) -> None:
    texts = [f"{n:04}".encode() for n in range(1000)]
    pq.write_table(pa.table({"k": made(texts, dtype)}), tmp_path / "a.parquet", row_group_size=50)
    source = parquet(tmp_path)
    asked = made([*texts, b"\xff\xfe", b"0001\x80"], pa.string())
    assert source.lookup(pa.table({"k": asked})).num_rows == 1000
    assert source.lookup(pa.table({"k": asked[-2:]})).num_rows == 0
    assert source.takes_any_text
    source.close()


def test_a_key_that_a_file_cannot_hold_costs_no_other_key_its_rows(tmp_path: Path) -> None:
    """The first file's type is the wider one."""
    pq.write_table(pa.table({"k": pa.array([2**40], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": pa.array([7, -1], pa.int32())}), tmp_path / "b.parquet")
    source = parquet(tmp_path)
    asked = pa.table({"k": pa.array([2**62, 7, 2**40, -(2**63)], pa.int64())})
    assert sorted(source.lookup(asked).column("k").to_pylist()) == [7, 2**40]
    source.close()
