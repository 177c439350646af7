"""``function``: what a function returns becomes rows of exactly the schema."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import ArgumentError, ColumnError, DataError, SourceError
from bsjoin.sources import function
from bsjoin.sources.transient import TransientSourceError

ARROW_DECIMAL = pd.ArrowDtype(pa.decimal128(8, 2))
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(8, 2))])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "price": Decimal("1.50")},
    {"id": 2, "name": None, "price": None},
]
KEYS = pa.table({"id": [1, 2, 3]})
ARROW = pa.Table.from_pylist(ROWS, SCHEMA)

ANSWERS: dict[str, Any] = {
    "table": ARROW,
    "batch": ARROW.to_batches()[0],
    "other order": ARROW.select(["price", "id", "name"]),
    "more columns": ARROW.append_column("more", pa.array([1, 2])),
    "other types": ARROW.set_column(0, "id", pa.array([1, 2], pa.uint8())).set_column(
        1, "name", ARROW.column("name").cast(pa.large_string()).dictionary_encode()
    ),
    "chunks": pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "list": ROWS,
    "list without nulls": [ROWS[0], {"id": 2}],
    "pandas": pd.DataFrame(ROWS),
    "pandas with floats": pd.DataFrame({**pd.DataFrame(ROWS), "id": [1.0, 2.0]}),
}


def test_every_form_of_an_answer_is_understood() -> None:
    for name, answer in ANSWERS.items():
        source = function(lambda keys, answer=answer: answer, SCHEMA)
        found = source.lookup(KEYS)
        assert found.schema.equals(SCHEMA)
        assert found.to_pylist() == ROWS, name
        part = source.lookup(KEYS, ["price"])
        assert part.schema.names == ["id", "price"]
        assert part.to_pylist() == [{"id": r["id"], "price": r["price"]} for r in ROWS], name


def runs(array: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 4], pa.int32()), array)


def test_values_are_the_same_in_all_types_of_arrow() -> None:
    """Views, dictionaries, runs, other lists: alone, in slices, and in nested values."""
    texts, amounts = ["", "é☃", None, None], [Decimal("1.5"), Decimal(-2), None, None]
    lists: list[Any] = [["a", None], [], None, None]
    struct = pa.struct([("a", pa.string_view()), ("b", pa.list_(pa.large_string()))])
    nested: list[Any] = [{"a": "x", "b": ["y"]}, {"a": None, "b": None}, None, None]
    views = pa.array(texts[:2], pa.string_view())
    kinds: dict[pa.DataType, tuple[list[Any], list[pa.Array]]] = {
        pa.string(): (texts, [
            *(pa.array(texts, dtype) for dtype in (pa.large_string(), pa.string_view())),
            runs(pa.array(texts[:3])), runs(pa.array(texts[:3], pa.string_view())),
            pa.DictionaryArray.from_arrays(pa.array([0, 1, None, None]), views),
        ]),
        pa.binary(): ([b"\xff", b"", None, None], [
            pa.array([b"\xff", b"", None, None], dtype)
            for dtype in (pa.large_binary(), pa.binary_view())
        ]),
        pa.int64(): ([1, 2, None, None], [
            pa.array([1, 2, None, None], dtype) for dtype in (pa.int8(), pa.uint32())
        ]),
        pa.decimal128(9, 2): (amounts, [
            pa.array(amounts, dtype) for dtype in (pa.decimal256(9, 2), pa.decimal128(12, 2))
        ]),
        pa.list_(pa.string()): (lists, [
            pa.array(lists, pa.large_list(pa.string_view())),
            pa.array(lists, pa.list_view(pa.string_view())), runs(pa.array(lists[:3])),
        ]),
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))]): (
            nested, [pa.array(nested, struct), runs(pa.array(nested[:3], struct))]
        ),
        pa.map_(pa.string(), pa.string()): ([[("k", "v")], [], None, None], [
            pa.array([[("k", "v")], [], None, None], pa.map_(pa.string_view(), pa.string_view()))
        ]),
    }  # fmt: skip
    for dtype, (values, arrays) in kinds.items():
        schema = pa.schema([("id", pa.int64()), ("v", dtype)])
        for array in arrays:
            for begin in (0, 1, 4):
                answer = pa.table({"id": [1, 2, 3, 4], "v": array}).slice(begin)
                source = function(lambda keys, answer=answer: answer, schema)
                found = source.lookup(KEYS)
                found.validate(full=True)
                assert found.schema.equals(schema)
                assert found.column("v").to_pylist() == values[begin:], array.type


def test_another_answer_is_refused_by_name() -> None:
    lacking = ARROW.drop_columns(["name"]), [{"id": 1, "price": None}], pd.DataFrame({"id": [1]})
    one = {"name": "a", "price": Decimal(1)}
    wrong = (
        pa.table({"id": ["x"], "name": ["a"], "price": [1]}),
        pa.table({"id": [1.5], "name": ["a"], "price": [1]}),
        *([{"id": value, **one}] for value in ("x", 1.5, 1 << 70)),
        *(
            pd.DataFrame({"id": pd.Series([value], dtype=dtype), "name": "a", "price": [1]})
            for value, dtype in ((1.5, float), (1.5, object), (Decimal("1.5"), object))
        ),
    )
    others = 5, "rows", [1], [ROWS, ROWS], {"id": [1]}
    for kind, words, answers in (
        (SourceError, r"missing: \[.*'name'", lacking),
        (DataError, "'id'", wrong),
        (SourceError, "return a", others),
    ):
        for answer in answers:  # type: ignore[attr-defined]
            source = function(lambda keys, answer=answer: answer, SCHEMA)
            with pytest.raises(kind, match=words):
                source.lookup(KEYS)
            if answers is lacking:
                assert source.lookup(KEYS, []).schema.names == ["id"]


def test_nanoseconds_are_rounded_down_before_1970_too() -> None:
    numbers = [-1, -1_000, 1_999, None]
    for zone in (None, "UTC", "Europe/Berlin"):
        times = pa.array(numbers, pa.int64()).cast(pa.timestamp("ns", zone))
        arrays = times, times.dictionary_encode(), pa.ListArray.from_arrays([0, 4], times)
        answers = [pa.table({"v": array}) for array in arrays]
        for answer in (*answers, answers[0].to_pandas()):
            nested = answer is answers[2]
            dtype = pa.timestamp("us", zone and "UTC")
            schema = {"v": pa.list_(dtype) if nested else dtype}
            (found,) = function(lambda keys, answer=answer: answer, schema).lookup(KEYS.select([]))
            whole = found.combine_chunks()
            whole = whole.flatten() if nested else whole
            assert whole.cast(pa.int64()).to_pylist() == [-1, -1, 1, None]


def test_a_number_is_no_time_and_only_0_and_1_are_true_or_false() -> None:
    late, utc = pa.array([1_704_067_200, None]), pa.timestamp("us", "UTC")
    time = datetime(2024, 1, 1)
    ones, times = pa.array([[1]]), pa.list_(pa.timestamp("us"))
    struct, pairs = pa.struct([("a", pa.int32())]), pa.map_(pa.int8(), pa.int64())
    texts = pa.map_(pa.int8(), pa.string())
    inside: list[tuple[pa.DataType, pa.Array]] = [
        (times, ones), (pa.list_(pa.bool_()), ones), (pa.list_(pa.int32()), pa.array([["0x10"]])),
        (pa.list_(times), pa.array([[[1]]])),
        (pa.list_(pa.decimal128(3, 2)), pa.array([[1.005]])),
        (pa.struct([("a", pa.decimal128(38, 18))]), pa.array([{"a": "1e30"}])),
        (pa.map_(pa.int8(), pa.decimal128(38, 18)), pa.array([[(1, "1e30")]], texts)),
        (pa.struct([("a", pa.date32())]), pa.array([{"a": 5}], struct)),
        (pa.map_(pa.int8(), pa.timestamp("us")), pa.array([[(1, 5)]], pairs)),
    ]  # fmt: skip
    wrong: list[tuple[pa.DataType, Any]] = [
        (pa.timestamp("us"), pa.table({"v": late})),
        (utc, pa.table({"v": late.cast(pa.float64())})),
        (pa.date32(), pa.table({"v": pa.array([5], pa.int32())})),
        (pa.int64(), pa.table({"v": [time]})),
        (pa.int64(), [{"v": time}]),
        (pa.bool_(), pa.table({"v": [1, 2]})),
        (pa.bool_(), pa.table({"v": [0.5]})),
        *(
            (pa.int32(), pa.table({"v": pa.array(["0x10"], t)}))
            for t in (pa.string(), pa.large_string())
        ),
        *(
            (dtype, [{"v": value}])
            for dtype in (utc, pa.date32())
            for value in (5, 1.5, Decimal(5))
        ),
        (utc, pd.DataFrame({"v": [1_704_067_200]})),
        (pa.list_(pa.date32()), [{"v": np.array([5])}]),
        *((dtype, pa.table({"v": array})) for dtype, array in inside),
    ]
    for dtype, answer in wrong:
        with pytest.raises(DataError, match="'v'"):
            function(lambda keys: answer, {"v": dtype}).lookup(KEYS.select([]))  # noqa: B023
    fine: list[tuple[pa.DataType, Any, list[Any]]] = [
        (pa.bool_(), pa.table({"v": [1.0, 0.0, -0.0, None]}), [True, False, False, None]),
        (pa.list_(pa.int64()), pa.table({"v": [[1.0, None]]}), [[1, None]]),
        (pa.timestamp("us"), pd.DataFrame({"v": [time, None]}), [time, None]),
        (pa.float64(), [{"v": Decimal("0.57")}, {"v": 1}, {"v": None}], [0.57, 1.0, None]),
        (
            pa.float64(),
            pd.DataFrame({"v": pd.array([Decimal("0.57")], dtype=ARROW_DECIMAL)}),
            [0.57],
        ),
    ]
    for dtype, answer, values in fine:
        for some, right in ((answer, values), (answer[:0], [])):
            found = function(lambda keys: some, {"v": dtype}).lookup(KEYS.select([]))  # noqa: B023
            assert found["v"].to_pylist() == right


def test_decimals_and_floats_are_those_that_are_nearest() -> None:
    numbers = [Decimal(n).scaleb(-2) for n in range(3_000)]
    decimals = pa.array(numbers, pa.decimal128(10, 2))
    floats = pa.array(list(map(float, numbers)))
    for dtype, given, right in (
        (pa.float64(), decimals, floats),
        (pa.float32(), decimals, pa.array(np.float32(list(map(str, numbers))))),
        (pa.list_(pa.float64()), pa.array([numbers]), pa.array([floats.to_pylist()])),
        (pa.decimal128(38, 18), floats, decimals.cast(pa.decimal128(38, 18))),
        (pa.decimal128(10, 2), pa.array([0.1 + 0.2]), pa.array(numbers[30:31], decimals.type)),
        (pa.decimal128(10, 2), pa.array([0.1], pa.float32()), decimals[10:11]),
    ):
        answer = pa.table({"v": given})
        source = function(lambda keys, answer=answer: answer, {"v": dtype})
        assert source.lookup(KEYS.select([]))["v"].combine_chunks().equals(right), dtype
    for value in (1.005, float("nan"), 1e9):
        answer = pa.table({"v": [value]})
        with pytest.raises(DataError, match="'v' holds"):
            function(lambda keys: answer, {"v": pa.decimal128(10, 2)}).lookup(KEYS.select([]))  # noqa: B023
    for kind in ("int64", "float64", "Int64"):
        frame = pd.DataFrame({"v": pd.Series([1], dtype=kind)})
        source = function(lambda keys, frame=frame: frame, {"v": pa.decimal128(10, 2)})
        with pytest.raises(DataError, match=rf"'v'.*decimal128\(10, 2\): it is {kind}: return"):
            source.lookup(KEYS.select([]))


def test_a_fraction_is_no_integer_inside_other_values_either() -> None:
    pairs = pa.map_(pa.int32(), pa.struct([("a", pa.int32())]))
    struct = pa.struct([("a", pa.int64()), ("b", pa.float64())])
    for dtype, fine, wrong in (
        (pa.list_(pa.list_(pa.int64())), [[1, 2.0, None], None], [[1], [-1.5]]),
        (struct, {"b": 0.5}, {"a": Decimal("-1.5")}),
        (struct, [("a", 1), ("b", 0.5)], [("a", 1.5)]),
        (struct, (np.float64(2), 0.5), (1.5, None)),
        (pa.list_(pa.int64()), np.array([1, 2]), np.array([1.5])),
        (pairs, [(1, {"a": 1.0}), (2, None)], {1: {"a": np.float32(1.5)}}),
        (pairs, {1: {}}, [(0.5, None)]),
    ):
        for made in (lambda value: [{"id": 1, "v": value}], lambda value: pd.DataFrame(
            {"id": [1], "v": pd.Series([value], dtype=object)}
        )):  # fmt: skip
            answer = made(fine)
            source = function(lambda keys: answer, {"id": pa.int64(), "v": dtype})  # noqa: B023
            assert source.lookup(KEYS).column("v").cast(dtype) == pa.chunked_array([[fine]], dtype)
            answer = made(wrong)
            with pytest.raises(DataError, match=r"'v'.*no whole number"):
                source.lookup(KEYS)
    answer = [{"id": 1, "v": {"a": Decimal("Infinity")}}]
    with pytest.raises(DataError, match="'v'"):
        function(lambda keys: answer, {"id": pa.int64(), "v": struct}).lookup(KEYS)


def test_integers_among_the_objects_of_pandas_stay_exact() -> None:
    def found(*values: Any) -> list[Any]:
        answer = pd.DataFrame({"id": pd.Series(values, dtype=object)})
        return function(lambda keys: answer, {"id": pa.int64()}).lookup(KEYS)["id"].to_pylist()

    assert found(2**53 + 1, 1.0, None) == [2**53 + 1, 1, None]
    for text in ("12", "0x1F"):
        with pytest.raises(DataError, match="'id'"):
            found(text)


class BusyError(Exception):
    """One of the user's own."""


@pytest.mark.parametrize("timeout", [None, 5])
def test_what_the_function_raises_passes(timeout: float | None) -> None:
    for error in (BusyError("now"), SourceError("never"), KeyError("x")):
        source = function(mock.Mock(side_effect=error), SCHEMA, timeout=timeout)
        with pytest.raises(type(error)) as caught:
            source.lookup(KEYS)
        assert caught.value is error


def test_a_late_answer_is_a_fault() -> None:
    end = threading.Event()
    try:
        with pytest.raises(TransientSourceError, match=r"no answer within 0\.05 seconds"):
            function(lambda keys: end.wait(), SCHEMA, timeout="50 ms").lookup(KEYS)
    finally:
        end.set()
    for timeout in ("1 minute", timedelta.max):
        assert function(lambda keys: None, SCHEMA, timeout=timeout).lookup(KEYS).num_rows == 0


def test_schemas_of_spark_are_understood() -> None:
    types = {
        "id": (T.LongType(), pa.int64()),
        "name": (T.StringType(), pa.string()),
        "at": (T.TimestampType(), pa.timestamp("us", "UTC")),
        "local": (T.TimestampNTZType(), pa.timestamp("us")),
        "list": (T.ArrayType(T.IntegerType(), False), pa.list_(pa.int32())),
    }
    struct = T.StructType([T.StructField(name, spark) for name, (spark, _) in types.items()])
    expected = pa.schema([(name, arrow) for name, (_, arrow) in types.items()])
    assert function(lambda keys: None, struct).schema.equals(expected)
    assert function(lambda keys: None, {"id": pa.int64()}).schema.names == ["id"]


def test_a_text_needs_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        with pytest.raises(ArgumentError, match="id bigint"):
            function(lambda keys: None, "id bigint, name string")
    made = T.StructType([T.StructField("id", T.LongType())])
    monkeypatch.setattr(T.StructType, "fromDDL", classmethod(lambda cls, ddl: made))
    assert function(lambda keys: None, "id bigint").schema == pa.schema([("id", pa.int64())])


def test_it_is_looked_up_only() -> None:
    source = function(lambda keys: None, SCHEMA)
    assert not source.can_scan
    assert source.size() is None
    assert not source.is_unique(["id"])
    assert source.max_keys == 10_000
    assert "function(" in repr(source)
    with pytest.raises(ColumnError, match="'nam'"):
        source.lookup(KEYS, ["nam"])


def test_arguments_are_checked_at_the_call() -> None:
    cases: list[dict[str, Any]] = [
        {"fn": 5}, {"schema": 5}, {"schema": {}}, {"schema": pa.schema([])}, {"unique": 1},
        {"max_keys": 0}, {"max_keys": True}, {"timeout": 0}, {"timeout": "soon"},
        {"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])},
        {"schema": {"a": pa.duration("s")}},
    ]  # fmt: skip
    for arguments in cases:
        with pytest.raises(ArgumentError):
            function(**{"fn": lambda keys: None, "schema": SCHEMA, **arguments})
