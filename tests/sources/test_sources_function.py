"""``function``: what a function returns becomes rows of exactly the schema."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import ArgumentError, ColumnError, DataError, SourceError
from bsjoin.sources import function
from bsjoin.sources.transient import TransientSourceError

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


@pytest.mark.parametrize("name", ANSWERS)
def test_every_form_of_an_answer_is_understood(name: str) -> None:
    source = function(lambda keys: ANSWERS[name], SCHEMA)
    found = source.lookup(KEYS)
    assert found.schema.equals(SCHEMA)
    assert found.to_pylist() == ROWS
    part = source.lookup(KEYS, ["price"])
    assert part.schema.names == ["id", "price"]
    assert part.to_pylist() == [{"id": r["id"], "price": r["price"]} for r in ROWS]


@pytest.mark.parametrize(
    "answer",
    [ARROW.drop_columns(["name"]), [{"id": 1, "price": None}], pd.DataFrame({"id": [1]})],
)
def test_missing_columns_are_named(answer: Any) -> None:
    source = function(lambda keys: answer, SCHEMA)
    with pytest.raises(SourceError, match=r"missing: \[.*'name'"):
        source.lookup(KEYS)
    assert source.lookup(KEYS, []).schema.names == ["id"]


@pytest.mark.parametrize(
    "answer",
    [
        pa.table({"id": ["x"], "name": ["a"], "price": [1]}),
        pa.table({"id": [1.5], "name": ["a"], "price": [1]}),
        [{"id": "x", "name": "a", "price": Decimal(1)}],
        [{"id": 1.5, "name": "a", "price": Decimal(1)}],
        [{"id": 1 << 70, "name": "a", "price": Decimal(1)}],
        pd.DataFrame({"id": [1.5], "name": ["a"], "price": [Decimal(1)]}),
    ],
)
def test_values_of_another_type_are_named(answer: Any) -> None:
    with pytest.raises(DataError, match="'id'"):
        function(lambda keys: answer, SCHEMA).lookup(KEYS)


@pytest.mark.parametrize("answer", [5, "rows", [1], [ROWS, ROWS], {"id": [1]}])
def test_other_answers_are_refused(answer: Any) -> None:
    with pytest.raises(SourceError, match="return a"):
        function(lambda keys: answer, SCHEMA).lookup(KEYS)


class BusyError(Exception):
    """One of the user's own."""


@pytest.mark.parametrize("timeout", [None, 5])
@pytest.mark.parametrize("error", [BusyError("now"), SourceError("never"), KeyError("x")])
def test_what_the_function_raises_passes(error: Exception, timeout: float | None) -> None:
    def fn(keys: pa.Table) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        function(fn, SCHEMA, timeout=timeout).lookup(KEYS)
    assert caught.value is error


def test_a_late_answer_is_a_fault() -> None:
    def fn(keys: pa.Table) -> None:
        time.sleep(1)

    start = time.monotonic()
    with pytest.raises(TransientSourceError, match=r"no answer within 0\.05 seconds"):
        function(fn, SCHEMA, timeout="50 ms").lookup(KEYS)
    assert time.monotonic() - start < 0.8
    assert function(fn, SCHEMA, timeout="10 seconds").lookup(KEYS).num_rows == 0


def test_schemas_of_spark_are_understood() -> None:
    struct = T.StructType(
        [
            T.StructField("id", T.LongType(), False),
            T.StructField("name", T.StringType()),
            T.StructField("at", T.TimestampType()),
            T.StructField("local", T.TimestampNTZType()),
            T.StructField("list", T.ArrayType(T.IntegerType(), False)),
        ]
    )
    source = function(lambda keys: None, struct)
    assert source.schema.equals(
        pa.schema(
            [
                ("id", pa.int64()),
                ("name", pa.string()),
                ("at", pa.timestamp("us", "UTC")),
                ("local", pa.timestamp("us")),
                ("list", pa.list_(pa.int32())),
            ]
        )
    )
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


@pytest.mark.parametrize(
    "arguments",
    [{"fn": 5}, {"schema": 5}, {"schema": {}}, {"schema": pa.schema([])}, {"unique": 1},
     {"max_keys": 0}, {"max_keys": True}, {"timeout": 0}, {"timeout": "soon"},
     {"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])},
     {"schema": {"a": pa.duration("s")}}],
)  # fmt: skip
def test_arguments_are_checked_at_the_call(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        function(**{"fn": lambda keys: None, "schema": SCHEMA, **arguments})
