"""What is wrong with an incremental join is said by the call: the value, the rule, what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from cache_runs import planes
from cache_samples import Model, Readable
from messages import saying
from pyspark.sql import SparkSession

import bsjoin
from bsjoin import BatchTable, Full, Incremental, sources
from bsjoin.errors import (
    ArgumentError,
    ColumnError,
    KeyTypeError,
    SourceError,
)
from bsjoin.sources.invalidation import InvalidationLog, key_table, logs_of, register
from bsjoin.storage import StorageLocation

CACHE = Incremental(max_rows=10)


# The options


TIMES = ("ttl", "idle_ttl", "negative_ttl", "backoff", "failure_cooldown")
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"ttl": 5}, ["needs max_rows= or max_bytes=", "without a bound"]),
    *(({"max_rows": v}, [f"max_rows={v!r}", "of 1 or more"]) for v in (0, 1.5, "10", True)),
    *(({"retries": v}, [f"retries={v!r}", "of 0 or more"]) for v in (-1, 2.0, False)),
    *(({"max_connections": v}, [f"max_connections={v!r}", "1 or more"]) for v in (0, 1.0)),
    *(({"max_bytes": v}, [f"max_bytes={v!r}", '"512 MB"']) for v in (0, "1 XB", "-5 MB", 2.5e9)),
    *(({name: v}, [f"{name}={v!r}", "above zero"]) for name in TIMES for v in (0, dt.timedelta(0))),
    *(({name: v}, [name, repr(v)]) for name in TIMES for v in ("5 parsecs", [], float("nan"))),
    ({"ttl": 1, "stale_while_revalidate": 0}, ["stale_while_revalidate=0", "above zero"]),
    ({"stale_while_revalidate": 5}, ["stale_while_revalidate= needs ttl="]),
    ({"negative": 1}, ["negative=1", "True or False"]),
    ({"negative": False, "negative_ttl": 5}, ["negative_ttl", "no meaning with negative=False"]),
    ({"on_error": "nul"}, ["on_error='nul'", "Did you mean 'null'"]),
    ({"folder": ""}, ["folder=''", "give a folder"]),
    ({"invalidation_log": 5}, ["invalidation_log=5", "give a folder"]),
]


@pytest.mark.parametrize(("options", "parts"), WRONG)
def test_a_value_out_of_range_is_refused_when_the_options_are_made(
    options: dict[str, Any], parts: list[str]
) -> None:
    bound = {} if "needs max_rows" in parts[0] else {"max_rows": 1}
    with saying(ArgumentError, *parts):
        Incremental(**{**bound, **options})


def test_options_are_given_as_numbers_or_texts_and_compared() -> None:
    for text, number in (
        (1024, 1024), ("1 KiB", 1024), ("2 kb", 2000), ("512 MB", 512 * 10**6),
        ("1.5 GiB", 3 << 29), (" 2tb ", 2 * 10**12), ("4096 B", 4096), ("1 TiB", 1 << 40),
    ):  # fmt: skip
        assert Incremental(max_bytes=text).most_bytes == number
    options = Incremental(max_rows=5, ttl="10 minutes", warm_up=[1, 2])
    assert options.ttl_s == 600
    assert options.most_bytes is None
    assert options == Incremental(max_rows=5, ttl="10 minutes", warm_up=[1, 2])
    assert hash(options) == hash(replace(options))


# Keys that are given: for a warm-up, or to be forgotten

ONE = pa.schema([("k", pa.int64())])
TWO = pa.schema([("k", pa.int64()), ("day", pa.date32())])
DAY = dt.date(2026, 11, 21)


@pytest.mark.parametrize(
    ("keys", "schema", "parts"),
    [
        (5, ONE, ["keys=5", "give a list of keys"]),
        (b"12", ONE, ["give a list of keys"]),
        ("a", ONE, ["give a list of keys"]),
        ({"k": 1}, ONE, ["give a list of keys"]),  # what a loop has the names of
        (pd.DataFrame({"k": [1]}), ONE, ["give a list of keys"]),
        (pa.record_batch({"k": [1]}), ONE, ["give a list of keys"]),
        ([1_704_067_200], pa.schema([("t", pa.timestamp("us"))]), ["no date or time"]),
        ([5], pa.schema([("t", pa.date32())]), ["no date or time"]),
        (["a"], ONE, ["the keys are k (int64)", "does not fit"]),
        ([2**63], ONE, ["the keys are k (int64)"]),
        ([(1, 2)], ONE, ["(1, 2) is not a key of ['k']", "give one value"]),
        ([{"x": 1}], ONE, ["{'x': 1} lacks one of the key columns ['k']"]),
        ([1], TWO, ["1 is not a key of ['k', 'day']", "a tuple of 2 values"]),
        ([(DAY, 1)], TWO, ["k (int64), day (date32[day])"]),
        (pa.table({"k": [1]}), TWO, ["the table lacks the key column 'day'"]),
        (pa.table({"k": ["x"], "day": [DAY]}), TWO, ["does not fit"]),
    ],
    ids=str,
)
def test_keys_of_another_type_or_number_of_columns_are_refused(
    keys: Any, schema: pa.Schema, parts: list[str]
) -> None:
    with saying(ArgumentError, *parts):
        key_table(keys, schema, "keys")


@pytest.mark.parametrize(
    ("keys", "schema", "rows"),
    [
        ([], ONE, []),
        ({1, None}, ONE, [(1,)]),
        ([(1,), {"k": 2}, 3], ONE, [(1,), (2,), (3,)]),
        ([(1, DAY), [2, DAY], {"day": DAY, "k": 3, "x": 0}], TWO, [(n, DAY) for n in (1, 2, 3)]),
        ([(None, DAY), (1, None), (1, DAY)], TWO, [(1, DAY)]),
        (pa.table({"x": [0], "day": [DAY], "k": pa.array([7], pa.int8())}), TWO, [(7, DAY)]),
        (["1.50"], pa.schema([("k", pa.string())]), [("1.50",)]),
        ([Decimal("1.5")], pa.schema([("k", pa.decimal128(5, 2))]), [(Decimal("1.50"),)]),
    ],
    ids=str,
)
def test_keys_are_given_in_several_forms(
    keys: Any, schema: pa.Schema, rows: list[tuple[Any, ...]]
) -> None:
    table = key_table(keys, schema, "keys")
    assert table.schema.equals(schema)
    assert list(zip(*table.to_pydict().values(), strict=True)) == rows


@pytest.fixture
def asked(tmp_path: Path) -> Model:
    """A model that one join asks, by two columns."""
    model = Model(tmp_path / "model", planes([1]))
    register(model.token, InvalidationLog(StorageLocation.of(tmp_path / "invalidation_log"), TWO))
    return model


def test_only_keys_of_a_source_in_a_join_can_be_invalidated(tmp_path: Path, asked: Model) -> None:
    other = Model(tmp_path / "other", planes([1]))
    actions: list[Callable[[], None]] = [lambda: other.invalidate([1]), other.invalidate_all]
    for action in actions:
        with saying(
            ArgumentError, "no incremental join of this application uses", "given to bsjoin.join"
        ):
            action()
    with pytest.raises(ArgumentError, match="a tuple of 2 values"):
        asked.invalidate([1])
    (log,) = logs_of(asked.token)
    assert log.last() == 0
    asked.invalidate([(1, DAY)])
    asked.invalidate_all()
    (first, keys), last = log.since(0)
    assert keys.to_pylist() == [{"k": 1, "day": DAY}]
    assert log.since(first) == [last] == [(first + 1, None)]


# The call of a join


def test_a_table_that_is_no_source_cannot_be_queried_for_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.range(3).toDF("k")
    table = BatchTable.build(df, on="k", path=tmp_path / "table")
    for batch in (df, table):
        parts = "cache=Incremental(...)", type(batch).__name__, "bsjoin.sources.sql", "bsjoin.Full"
        with saying(ArgumentError, *parts):
            bsjoin.join(df, batch, "k", cache=CACHE)


def test_a_source_with_a_name_twice_or_an_unknown_type_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.range(3).toDF("k")
    schema = pa.schema([("k", pa.int64()), ("K", pa.int64())])
    with saying(ColumnError, "2 columns called", "'k'"):
        bsjoin.join(stream, Model(tmp_path / "K", pa.table([[1], [2]], schema)), "k", cache=CACHE)
    schema = pa.schema([("k", pa.int64()), ("at", pa.month_day_nano_interval())])
    source = Model(tmp_path / "m", schema.empty_table())
    with saying(ColumnError, "'at'", "month_day_nano_interval", "Spark does not know"):
        bsjoin.join(stream, source, "k", cache=CACHE)


def test_key_types_that_do_not_compare_exactly_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    pairs = (
        ("'a'", pa.int64()), ("1", pa.string()), ("date'2026-01-01'", pa.timestamp("us")),
        ("timestamp'2026-01-01'", pa.timestamp("us")), ("1", pa.float64()),
        ("true", pa.int8()), ("array(1)", pa.list_(pa.int32())), ("X'00'", pa.string()),
        ("'a' COLLATE UTF8_LCASE", pa.string()),
    )  # fmt: skip
    for number, (stream, table) in enumerate(pairs):
        empty = pa.schema([("key", table)]).empty_table()
        left = spark.range(1).selectExpr(f"{stream} AS k")
        source, cache = Readable(tmp_path / str(number), empty), (CACHE, Full(), "auto")[number % 3]
        with saying(KeyTypeError, "'k'", "'key'", "Cast"):
            bsjoin.join(left, source, {"k": "key"}, cache=cache)


def test_a_source_without_scan_has_no_full_cache(spark: SparkSession, model: Model) -> None:
    with saying(SourceError, "supports look-ups only", "Incremental"):
        bsjoin.join(spark.range(1).toDF("k"), model, cache=Full())


def test_keys_to_warm_up_with_are_checked_by_the_call(spark: SparkSession, model: Model) -> None:
    with saying(ArgumentError, "warm_up", "k (int64)"):
        bsjoin.join(spark.range(3).toDF("k"), model, "k", cache=replace(CACHE, warm_up=["a"]))
    assert not model.begun


def test_a_source_that_cannot_be_reached_is_an_error_of_the_call(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = sources.sql(f"sqlite:///{tmp_path}/absent.db", table="planes")
    with saying(SourceError, "absent.db", "there is no file"):
        bsjoin.join(spark.range(3).toDF("k"), source, "k", cache=CACHE)
