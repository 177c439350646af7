"""Whichever of Arrow's types a value comes in, a source returns the same value."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.sources import parquet, sql
from bsjoin.sources.plain import plain
from bsjoin.sources.types import fitted

# The same values under other types; each takes an array of a basic type.
Encoder = Callable[[pa.Array], pa.Array]


def _dictionary(array: pa.Array) -> pa.Array:
    places = pa.array(
        [i if valid else None for i, valid in enumerate(array.is_valid().to_pylist())]
    )
    return pa.DictionaryArray.from_arrays(places, array)


def _runs(array: pa.Array) -> pa.Array:
    ends = pa.array(range(1, len(array) + 1), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, array)


def _listed(kind: Callable[[pa.DataType], pa.DataType]) -> Encoder:
    return lambda array: pa.array(
        [None if i == 1 else [value] for i, value in enumerate(array.to_pylist())],
        kind(array.type),
    )


def _struct(array: pa.Array) -> pa.Array:
    mask = pa.array([i == 1 for i in range(len(array))])
    return pa.StructArray.from_arrays([array, array], ["a", "b"], mask=mask)


def _map(array: pa.Array) -> pa.Array:
    keys = pa.array([str(i) for i in range(len(array))], pa.string_view())
    return pa.MapArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), keys, array)


LEAVES: dict[str, list[pa.Array]] = {
    "text": [
        pa.array(["", "é☃", None, "long " * 9], dtype)
        for dtype in (pa.string(), pa.large_string(), pa.string_view())
    ],
    "bytes": [
        pa.array([b"", b"\xff", None, b"long " * 9], dtype)
        for dtype in (pa.binary(), pa.large_binary(), pa.binary_view())
    ],
    "integer": [pa.array([1, 2, None, 4], dtype) for dtype in (pa.int64(), pa.int8(), pa.uint32())],
    "decimal": [
        pa.array([Decimal("1.5"), Decimal(-2), None, Decimal(0)], dtype)
        for dtype in (pa.decimal128(9, 2), pa.decimal256(9, 2), pa.decimal128(12, 2))
    ],
}
WHOLE: dict[str, Encoder] = {
    "as it is": lambda array: array,
    "dictionary": _dictionary,
    "runs": _runs,
}
NESTED: dict[str, list[Encoder]] = {
    "list": [
        _listed(pa.list_), _listed(pa.large_list), _listed(pa.list_view),
        _listed(pa.large_list_view), _listed(lambda dtype: pa.list_(dtype, 1)),
    ],
    "struct": [_struct],
    "map": [_map],
}  # fmt: skip


@given(data=st.data())
def test_values_are_the_same_in_all_types(data: st.DataObject) -> None:
    leaves = data.draw(st.sampled_from(sorted(LEAVES)))
    first, array = LEAVES[leaves][0], data.draw(st.sampled_from(LEAVES[leaves]))
    nested = data.draw(st.none() | st.sampled_from(sorted(NESTED)))
    if nested is None or data.draw(st.booleans(), "encoded inside"):
        encoded = data.draw(st.sampled_from(sorted(WHOLE)), "inside")
        # Arrow makes lists of Python values, and not of runs or of dictionaries.
        if nested != "list":
            array = WHOLE[encoded](array)
    if nested is not None:
        first = NESTED[nested][0](first)
        array = data.draw(st.sampled_from(NESTED[nested]))(array)
        array = WHOLE[data.draw(st.sampled_from(["as it is", "dictionary", "runs"]))](array)
    begin = data.draw(st.integers(0, 2))
    array, first = array[begin:], first[begin:]
    schema = pa.schema([("v", first.type)])
    found = fitted(pa.table({"v": array}), schema, "a source")
    found.validate(full=True)
    assert found.schema.equals(schema)
    assert found.column("v").to_pylist() == first.to_pylist()
    assert fitted(pa.table({"v": array[:0]}), schema, "a source").num_rows == 0
    assert plain(array).to_pylist() == first.to_pylist()


ARRAYS = [
    ("text view", pa.array(["a", None], pa.string_view()), pa.string()),
    ("bytes view", pa.array([b"a", None], pa.binary_view()), pa.binary()),
    ("runs", _runs(pa.array(["a", None])), pa.string()),
    ("dictionary of views", _dictionary(pa.array(["a", None], pa.string_view())), pa.string()),
    ("list view", pa.array([["a"], None], pa.list_view(pa.string_view())), pa.list_(pa.string())),
    (
        "struct of views",
        _struct(pa.array(["a", None], pa.string_view())),
        pa.struct([("a", pa.string()), ("b", pa.string())]),
    ),
]


@pytest.mark.parametrize(
    ("array", "dtype"), [a[1:] for a in ARRAYS if a[0] != "runs"],
    ids=[a[0] for a in ARRAYS if a[0] != "runs"],
)  # fmt: skip
def test_parquet_with_any_embedded_type(
    tmp_path: Path, array: pa.Array, dtype: pa.DataType
) -> None:
    if pa.types.is_dictionary(array.type):
        array = pa.array(["a", None]).dictionary_encode()
    pq.write_table(pa.table({"k": [1, 2], "v": array}), tmp_path / "a.parquet")
    for options in ({}, {"schema": {"v": dtype}}):
        source = parquet(tmp_path, **options)  # type: ignore[arg-type]
        assert source.schema.field("v").type == dtype
        found = source.lookup(pa.table({"k": pa.array([2, 3], pa.int64())}))
        assert found.to_pylist() == [{"k": 2, "v": None}]
        found = source.lookup(pa.table({"k": pa.array([1], pa.int64())}), ["v"])
        assert found.column("v").to_pylist() == array.to_pylist()[:1]
        if not pa.types.is_nested(dtype):
            by_value = source.lookup(pa.table({"v": array[:1].cast(dtype)}))
            assert by_value.to_pylist() == [{"v": array[0].as_py(), "k": 1}]


def test_duckdb_with_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 k, 'long text ' || 1 v, [['a'], NULL] w")
    source: Any = sql(f"duckdb:///{path}", table="t")
    opened = type(source)._open

    def with_views(self: Any) -> Any:
        connection = opened(self)
        connection.execute("SET produce_arrow_string_view = true")
        connection.execute("SET arrow_output_list_view = true")
        return connection

    monkeypatch.setattr(type(source), "_open", with_views)
    asked = pa.table({"k": pa.array([1], pa.int32())})
    found = source.lookup(asked)
    assert found.schema.equals(source.schema)
    assert found.to_pylist() == [{"k": 1, "v": "long text 1", "w": [["a"], None]}]
    source.close()
