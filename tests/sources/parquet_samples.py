"""Parquet folders as other programs write them, and as Spark's rules for folders have them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

NULL = "__HIVE_DEFAULT_PARTITION__"
DAYS = [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]
TIMES = [-62_135_596_800_000_000, -1, 0, 1_700_000_000_123_456, 253_402_300_799_999_999, None]
TEXTS = ["", "a", "é☃", "a" * 100, None]
BYTES = [b"", b"\xff\x00", b"abc", None]


def _decimals(scale: int) -> list[Decimal | None]:
    return [Decimal(n).scaleb(-scale) for n in (-99999, -1, 0, 1, 99999)] + [None]


def _times(dtype: pa.DataType) -> pa.Array:
    unit = {"s": 1_000_000, "ms": 1000, "us": 1}[dtype.unit]
    values = [None if v is None else v // unit for v in TIMES]
    return pa.array(values, pa.int64()).cast(dtype)


ARROW: dict[str, Callable[[], pa.Array]] = {
    **{
        f"{sign}int{bits}": lambda sign=sign, bits=bits: pa.array(
            [0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)) if not sign else 2**bits - 1, None],
            getattr(pa, f"{sign}int{bits}")(),
        )
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "bool": lambda: pa.array([True, False, None]),
    "float": lambda: pa.array([0.1, -0.0, float("nan"), float("inf"), None], pa.float32()),
    "double": lambda: pa.array([0.1, -0.0, float("nan"), -float("inf"), None]),
    "string": lambda: pa.array(TEXTS),
    "large string": lambda: pa.array(TEXTS, pa.large_string()),
    "string view": lambda: pa.array(TEXTS, pa.string_view()),
    "not utf-8": lambda: pa.array([b"\xff", b"a\x80", b"ok"]).view(pa.string()),
    "binary": lambda: pa.array(BYTES),
    "large binary": lambda: pa.array(BYTES, pa.large_binary()),
    "binary view": lambda: pa.array(BYTES, pa.binary_view()),
    "fixed binary": lambda: pa.array([b"abc", b"\xff\x00z", None], pa.binary(3)),
    "dictionary": lambda: pa.array(["a", "b", "a", None]).dictionary_encode(),
    "dictionary of views": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None]), pa.array(["a", "b"])
    ),
    "dictionary of integers": lambda: pa.array([5, 6, None]).dictionary_encode(),
    "dictionary of decimals": lambda: pa.array([Decimal("1.5"), None]).dictionary_encode(),
    "date32": lambda: pa.array(DAYS),
    "date64": lambda: pa.array(DAYS, pa.date64()),
    **{
        f"timestamp {unit} {zone}": lambda unit=unit, zone=zone: _times(pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us")
        for zone in (None, "UTC", "America/New_York")
    },
    "duration": lambda: pa.array([1, -1, None], pa.duration("ms")),
    "null": lambda: pa.nulls(2),
    **{
        f"decimal({digits},{scale})": lambda digits=digits, scale=scale: pa.array(
            _decimals(scale), pa.decimal128(digits, scale)
        )
        for digits, scale in ((5, 2), (5, 5), (9, 0), (18, 4), (20, 0), (38, 10))
    },
    "decimal32": lambda: pa.array(_decimals(2), pa.decimal32(5, 2)),
    "decimal64": lambda: pa.array(_decimals(2), pa.decimal64(15, 2)),
    "decimal256": lambda: pa.array(_decimals(2), pa.decimal256(30, 2)),
    "json": lambda: pa.array(['{"a": 1}', None], pa.json_()),
    "bool8": lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
    "list": lambda: pa.array([[1, None], [], None]),
    "large list": lambda: pa.array([[1, None], [], None], pa.large_list(pa.int32())),
    "fixed list": lambda: pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "list view": lambda: pa.array([["a"], [], None], pa.list_view(pa.string_view())),
    "list of lists": lambda: pa.array([[[1], None, []], [], None]),
    "list of timestamps": lambda: pa.array([[0, -1], None], pa.list_(pa.timestamp("ms", "UTC"))),
    "map": lambda: pa.array(
        [[("a", 1), ("b", None)], [], None], pa.map_(pa.string_view(), pa.uint16())
    ),
    "struct": lambda: pa.array(
        [{"a": 1, "b": "x", "C": [dt.date(2020, 1, 1)]}, {"a": None, "b": None, "C": None}, None],
        pa.struct(
            [("a", pa.uint8()), ("b", pa.large_string()), ("C", pa.list_(pa.date64()))]
        ),
    ),
    # Spark's reader has an error for these, and bsjoin a type or an error.
    "time": lambda: pa.array([1, None], pa.time64("us")),
    "uuid": lambda: pa.array([uuid.UUID(int=7).bytes, None], pa.uuid()),
    "half": lambda: pa.array([1.5, None], pa.float16()),
    "nanoseconds": lambda: pa.array([1, None], pa.timestamp("ns")),
    "wide decimal": lambda: pa.array([Decimal(5), None], pa.decimal256(50, 2)),
}  # fmt: skip


def written(path: Path, **columns: Any) -> None:
    """A file of some columns; None: an empty file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def by_duckdb(folder: Path) -> None:
    """A file with the types of DuckDB."""
    import duckdb

    columns = """
        1::UTINYINT a, 18446744073709551615::UBIGINT b, 1.5::DECIMAL(4, 1) c,
        1.5::DECIMAL(15, 3) d, 1.5::DECIMAL(38, 2) e, 'x'::ENUM('x', 'y') f, '{}'::JSON g,
        5::HUGEINT h, TIMESTAMP_S '1900-01-01' i, TIMESTAMP_MS '2020-01-01' j,
        TIMESTAMP '0044-03-15 (BC)' k, TIMESTAMPTZ '9999-12-31 23:59:59Z' l, [1, NULL] m,
        MAP {'a': 1} n, {'x': 1, 'y': 'z'} o, '\\xFF'::BLOB p, 'infinity'::DATE q,
        'infinity'::TIMESTAMP r, '-infinity'::TIMESTAMPTZ s, '101'::BIT t, true u
    """
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT 0 id, {columns} UNION ALL SELECT 1, {', '.join(['NULL'] * 21)})"
            f" TO '{folder / 'a.parquet'}' (FORMAT parquet)"
        )


def imported_polars() -> Any:
    """The module, which sets a variable of the environment when it is imported."""
    with mock.patch.dict(os.environ):
        import polars

        return polars


def by_polars(folder: Path) -> None:
    """A file with the types of polars."""
    pl = imported_polars()
    day = dt.datetime(2020, 1, 1, 1, 2, 3, 456)
    pl.DataFrame(
        {
            "id": [0, 1],
            "a": ["é" * 100, None],
            "b": pl.Series(["x", None], dtype=pl.Categorical),
            "c": pl.Series(["x", None], dtype=pl.Enum(["x"])),
            "d": [b"\xff", None],
            "e": [Decimal("1.5"), None],
            "f": pl.Series([day, None], dtype=pl.Datetime("us")),
            "g": pl.Series([day, None], dtype=pl.Datetime("ms", "UTC")),
            "h": pl.Series([dt.timedelta(1), None]),
            "i": [[1, None], None],
            "j": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)),
            "k": [{"x": 1, "y": "z"}, None],
            "l": pl.Series([255, None], dtype=pl.UInt8),
            "m": pl.Series([None, None]),
        }
    ).write_parquet(folder / "a.parquet")


A, B = {"id": [1]}, {"id": [2]}
# The files of a folder, and what they hold; None: nothing.
FOLDERS: dict[str, dict[str, dict[str, Any] | bytes | None]] = {
    "nested folders": {"a.parquet": A, "sub/b.parquet": B},
    "only nested folders": {"sub/b.parquet": B},
    "files beside partitions": {"a.parquet": A, "p=1/b.parquet": B},
    "a folder above partitions": {"x/p=1/b.parquet": B},
    "two folders above partitions": {"x/p=1/b.parquet": B, "y/p=2/b.parquet": B},
    "a folder beside partitions": {"x/a.parquet": A, "p=2/b.parquet": B},
    "a folder below a partition": {"p=1/x/a.parquet": A, "p=1/b.parquet": B},
    "partitions of two depths": {"p=1/q=1/a.parquet": A, "p=1/b.parquet": B},
    "partitions of two names": {"p=1/a.parquet": A, "q=1/b.parquet": B},
    "partitions that differ in case": {"p=1/a.parquet": A, "P=2/b.parquet": B},
    "a partition column in the file": {
        "p=1/a.parquet": {"id": [1], "p": ["x"], "z": [3]},
        "p=2/a.parquet": {"id": [1], "p": ["x"], "z": [3]},
    },
    "the same in another case": {"P=1/a.parquet": {"id": [1], "p": ["x"], "z": [3]}},
    "a partition column twice": {"p=1/p=2/a.parquet": A},
    "a partition without a value": {"p=/a.parquet": A},
    "a partition without a name": {"=1/a.parquet": A},
    "a null partition": {f"p={NULL}/a.parquet": A, "p=7/a.parquet": B},
    "hidden files": {
        "a.parquet": A, "_b.parquet": B, ".c.parquet": B, "d._COPYING_": B, "_x/e.parquet": B,
        ".x/e.parquet": B, "_SUCCESS": None, "_temporary/0/f.parquet": B,
    },
    "partitions with an underscore": {"a.parquet": A, "_b=1/b.parquet": B},
    "hidden partitions": {"a.parquet": A, ".b=1/b.parquet": B},
    "other endings": {"a": A, "b.pq": B, "_c=1.parquet": B, "d.snappy": B},
    "empty files": {"a.parquet": None, "b.parquet": B, "c.parquet": None},
    "other files": {"a.parquet": A, "b.txt": b"hello"},
    "a summary": {"a.parquet": A, "_metadata": {"id": [1], "more": [1]}},
    "two summaries": {
        "a.parquet": A, "_metadata": A, "_common_metadata": {"id": [1], "more": ["x"]},
    },
    "names that differ in case": {
        "a.parquet": {"Id": [1], "V": [1]}, "b.parquet": {"id": [2], "v": [2]},
    },
    "names of one file that differ in case": {"a.parquet": {"a": [1], "A": [1]}},
    "names of a later file that differ in case": {
        "a.parquet": {"a": [1]}, "b.parquet": {"a": [1], "A": [2]},
    },
    "missing and further columns": {
        "a.parquet": {"a": [1], "b": [1]}, "b.parquet": {"a": [2], "c": [2]},
    },
    "columns in another order": {
        "a.parquet": {"a": [1], "b": ["x"]}, "b.parquet": {"b": ["y"], "a": [2]},
    },
    "names with dots": {"a.parquet": {"a.b": [1], "a": [2]}, "b.parquet": {"a.b": [3]}},
    "structs with other members": {
        "a.parquet": {"v": pa.array([{"x": 1, "y": "a"}, None])},
        "b.parquet": {"v": pa.array([{"Y": "b"}, None])},
        "c.parquet": {"v": pa.array([{"z": 1}, None])},
    },
    "lists of structs with other members": {
        "a.parquet": {"v": pa.array([[{"x": 1, "y": 2.5}]])},
        "b.parquet": {"v": pa.array([[{"y": 2.0}, None], None, []])},
    },
    "a struct against a number": {
        "a.parquet": {"v": pa.array([{"x": 1}])}, "b.parquet": {"v": [2]},
    },
    "a number against a struct": {
        "a.parquet": {"v": [2]}, "b.parquet": {"v": pa.array([{"x": 1}])},
    },
}  # fmt: skip

# What Spark fails to read when it runs, not when the folder is named.
NOT_READ = {
    "other files", "names of a later file that differ in case", "a struct against a number",
    "a number against a struct",
}  # fmt: skip

TYPES: dict[str, pa.DataType] = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(),
    "decimal(5,0)": pa.decimal128(5), "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(12,2)": pa.decimal128(12, 2), "decimal(14,4)": pa.decimal128(14, 4),
    "decimal(20,0)": pa.decimal128(20), "decimal(22,2)": pa.decimal128(22, 2),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "ntz": pa.timestamp("us"), "ntz ms": pa.timestamp("ms"), "utc": pa.timestamp("us", "UTC"),
}  # fmt: skip


def seven(dtype: pa.DataType) -> pa.Array:
    """The number 7 and null, as well as the type can have them.

    Unsigned integers have the greatest one, too, where Spark does not cut it to a shorter one (ours
    is an error there).
    """
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return pa.array([b"7", None]).view(dtype)
    if pa.types.is_date(dtype):
        return pa.array([7, None], pa.int32()).cast(dtype)
    if pa.types.is_decimal(dtype):
        return pa.array([Decimal(7), None], dtype)
    if pa.types.is_unsigned_integer(dtype) and dtype.bit_width >= 32:
        return pa.array([7, None, 2**dtype.bit_width - 1], dtype)
    return pa.array([7, None], pa.int64()).cast(dtype)


def folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Each of the folders, written."""
    for number, (name, files) in enumerate(FOLDERS.items()):
        folder = root / str(number)
        for file, content in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None or isinstance(content, bytes):
                path.write_bytes(content or b"")
            else:
                pq.write_table(pa.table(content), path)
        yield name, folder


def partitions(folder: Path, values: list[str]) -> None:
    """A folder with one row in each of some partitions of the column ``p``."""
    first = folder.parent / f"{folder.name}.parquet"
    written(first, id=[1])
    for value in values:
        (folder / f"p={value}").mkdir(parents=True)
        shutil.copy(first, folder / f"p={value}" / "a.parquet")
