"""Spark's schemas, read strictly: what Spark stores is known, and nothing else is."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import ColumnError
from bsjoin.planner.keys import hash_is_exact, type_name
from bsjoin.spark.arrow import arrow_fields, check_storable
from bsjoin.storage.manifest import KeyColumn, compared_fields
from bsjoin.storage.spark_schema import arrow_type, read_spark_schema

KEYS = [
    T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(),
    T.DoubleType(), T.StringType(), T.BinaryType(), T.DateType(), T.TimestampType(),
    T.TimestampNTZType(), T.DecimalType(1, 0), T.DecimalType(18, 18), T.DecimalType(19, 2),
    T.DecimalType(38, 38),
]  # fmt: skip
SIMPLE = [
    *KEYS,
    T.StringType("UNICODE_CI"),
    T.StringType("UTF8_LCASE"),
    *(T.DayTimeIntervalType(first, last) for first in range(4) for last in range(first, 4)),
    *(T.TimeType(digits) for digits in (0, 6) if hasattr(T, "TimeType")),
]
NESTED: list[T.DataType] = [
    T.ArrayType(T.ArrayType(T.StringType("UNICODE"), False)),
    T.MapType(T.StringType(), T.MapType(T.StringType("UTF8_LCASE"), T.DateType(), False)),
    T.StructType([]),
    T.StructType(
        [
            T.StructField("a.element", T.ArrayType(T.StringType("UNICODE_AI")), False),
            T.StructField("ä`b", T.StructType([T.StructField("", T.BinaryType())]), True, {"x": 1}),
        ]
    ),
]


def written(dtype: Any, metadata: Any = None, **changes: Any) -> str:
    """The schema of one column of a type that is given as JSON has it."""
    field = {"name": "c", "type": dtype, "nullable": True, "metadata": metadata or {}, **changes}
    return json.dumps({"type": "struct", "fields": [field]})


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def test_what_can_be_stored_is_read_as_spark_exchanges_it() -> None:
    for dtype in [*SIMPLE, *NESTED]:
        metadata = {"comment": "ü", "deep": {"a": [1, None]}}
        schema = T.StructType(
            [
                T.StructField("x.y", dtype, False, metadata),
                T.StructField("void", T.NullType()),
                T.StructField("l", T.ArrayType(dtype)),
                T.StructField("m", T.MapType(T.LongType(), dtype, False)),
                T.StructField("s", T.StructType([T.StructField("t", dtype)])),
            ]
        )
        assert read_spark_schema(schema.json()) == pa.schema(arrow_fields(schema)), dtype


def test_keys_are_compared_where_their_hash_is_not_exact() -> None:
    for dtype, many in itertools.product(KEYS, (1, 2)):
        keys = [KeyColumn(f"k{i}", type_name(dtype)) for i in range(many)]
        compared = compared_fields(keys)
        assert (not compared) == hash_is_exact([dtype] * many), dtype
        if compared:
            short = many == 2 and hash_is_exact([dtype])
            stored = pa.int64() if short else arrow_type(type_name(dtype))
            assert compared == [pa.field(f"k{i}", stored, nullable=False) for i in range(many)]


UDT = {
    "type": "udt",
    "pyClass": "hostile_module.Type",
    "serializedClass": "gASVAAAAAAAAAAA=",
    "sqlType": "long",
}
TWICE = T.StructType([T.StructField("a", T.LongType())] * 2).json()
VALUE = {"keyType": "long", "valueType": UDT, "valueContainsNull": True, "type": "map"}


def test_everything_else_is_refused_by_name() -> None:
    inner = {"name": "in", "type": UDT, "nullable": True, "metadata": {}}
    for schema, says in (
        *(
            (written(dtype), "user-defined types are refused")
            for dtype in (
                UDT,
                array(UDT),
                VALUE,
                {**VALUE, "keyType": UDT, "valueType": "long"},
                {"type": "struct", "fields": [inner]},
                array(array(VALUE)),
                {"type": "udt"},
            )
        ),
        (written({"type": "struct", "fields": [inner]}), "the column 'c': the column 'in': user"),
        (json.dumps(UDT), "user-defined types are refused"),
        *(
            (written(dtype), f"{dtype!r} is not a type of Spark whose values can be stored")
            for dtype in (
                "variant", "interval", "interval second to day", "bigint", "char(3)", "decimal",
                "decimal(39,0)", "decimal(3,4)", "decimal(10,2)x", "string collate UNICODE",
                "time(10)", "udt", "", "STRING", "long ", "geometry(os.system)", "null",
            )
        ),
        (written(None), "None is not a type"),
        (written(5), "5 is not a type"),
        (written([]), "a list is not a type"),
        (written({}), "the type None is not known"),
        (written({"type": "set"}), "the type 'set' is not known"),
        (written({"type": ["udt"]}), "the type a list is not known"),
        (written({"type": "array", "containsNull": True}), "None is not a type"),
        (written({"type": "array", "elementType": "long"}), "it lacks 'containsNull'"),
        (written({"type": "struct"}), "it lacks 'fields'"),
        (written("long", nullable="yes"), "nullable is 'yes', not true or false"),
        (written("long", name=5), "name is 5, not a text"),
        (written("long", name="\ud800"), "surrogates"),
        (written("long", ["x"]), "its metadata is not an object"),
        (written("long", {"__COLLATIONS": 5}), "its metadata is not an object"),
        (written("long", {"__COLLATIONS": {"c": "icu.UNICODE"}}), "not a collation for 'c'"),
        (written("string", {"__COLLATIONS": {"d": "icu.UNICODE"}}), "not a collation for 'd'"),
        (written("string", {"__COLLATIONS": {"c": "UNICODE"}}), "'UNICODE' is not a collation"),
        (written("string", {"__COLLATIONS": {"c": "x.UNICODE"}}), "'x.UNICODE' is not a coll"),
        (TWICE, "the column 'a' is there twice"),
        ('"long"', "one value of the type int64, not columns"),
        ("[]", "a list is not a type"),
        ("{", "Expecting property name"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(says)):
            read_spark_schema(schema)


def test_a_deep_type_is_an_error_and_no_crash() -> None:
    begin, end = json.dumps(array("@")).split('"@"')
    for depth in (65, 1_000, 200_000):
        deep = written("@").replace('"@"', begin * depth + '"long"' + end * depth)
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            read_spark_schema(deep)


def test_what_could_not_be_opened_is_not_built() -> None:
    twice = T.StructType([T.StructField("a", T.LongType()), T.StructField("a", T.LongType())])
    with pytest.raises(ColumnError, match="the column 'a' is there twice"):
        check_storable(T.StructType([T.StructField("s", T.ArrayType(twice))]))
    deep: T.DataType = T.LongType()
    for _ in range(70):
        deep = T.ArrayType(deep)
    with pytest.raises(ColumnError, match="nested more than 64 deep"):
        check_storable(T.StructType([T.StructField("s", deep)]))
