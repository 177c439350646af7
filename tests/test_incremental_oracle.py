"""An incremental join answers row for row what Spark's own join answers, whatever is cached."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_samples import Model
from nested_values import nested_columns
from oracle import (
    assert_same,
    assert_same_rows,
    assert_same_schema,
    expected,
    rows_of_all,
    rows_of_spark,
)
from pyspark.sql import SparkSession
from sessions import configured
from spark_samples import rows as rows_of_df

import bsjoin
from bsjoin import Incremental
from tests.fuzz.engine import frame

pytestmark = pytest.mark.usefixtures("interpreted")

ROOMY = Incremental(max_rows=100_000)
A_ROW = Incremental(max_rows=1)
EVERY_OPTION = Incremental(
    max_rows=20, max_bytes=4_000, eviction="s3-fifo", ttl=timedelta.max, idle_ttl="1 day",
    negative_ttl="1 hour", stale_while_revalidate="1 hour", warm_up=[1, 2, 99], on_error="stale",
    retries=1, backoff="1 ms", failure_cooldown="1 second", max_connections=1,
)  # fmt: skip

Check = Callable[..., Model]


@pytest.fixture
def check(spark: SparkSession, tmp_path: Path) -> Check:
    """Holds joins of a stream and a source against Spark, in one Spark action each."""
    numbers = itertools.count()

    def checked(
        stream: pa.Table,
        batch: pa.Table,
        on: Any,
        cache: Incremental = ROOMY,
        *,
        hows: Iterable[str] = ("left", "anti"),
        unique: bool = False,
        max_keys: int = 10_000,
    ) -> Model:
        source = Model(tmp_path / str(next(numbers)), batch, unique=unique, max_keys=max_keys)
        left, right = (frame(spark, rows).coalesce(1) for rows in (stream, batch))
        results = {}
        for how in hows:
            results[how] = bsjoin.join(left, source, on, how=how, cache=cache)
            assert_same_schema(results[how], expected(left, right, on, how), f"how={how!r}")
        right_rows = rows_of_spark(left, right, on)
        for how, rows in rows_of_all(results).items():
            assert_same_rows(rows, right_rows[how], f"how={how!r}")
        return source

    return checked


def test_keys_outside_of_the_tables_type_are_not_queried(check: Check) -> None:
    batch = pa.table({"k": pa.array([1, 5, 44], pa.int8()), "v": ["one", "five", "44"]})
    decimals = [Decimal("5.5"), Decimal("5.0"), Decimal("300.0"), Decimal("1.0"), None]
    source = check(pa.table({"k": pa.array(decimals, pa.decimal128(10, 1))}), batch, "k")
    assert set(source.times) == {1, 5}
    # 300 would be 44 if its higher byte were cut off.
    source = check(pa.table({"k": pa.array([300, -200, 1, 44, None], pa.int32())}), batch, "k")
    assert set(source.times) == {1, 44}
    floats = pa.table({"k": pa.array([0.1, 0.5], pa.float32()), "v": ["tenth", "half"]})
    source = check(pa.table({"k": [0.1, 0.5, 1e300]}), floats, "k")
    assert set(source.times) == {"0.5"}


def test_nor_behind_a_stored_table_of_the_same_keys(spark: SparkSession, tmp_path: Path) -> None:
    """In one stage of Python workers, where joins on the same keys share what Spark sends."""
    batch = pa.table({"k": pa.array([1, 5], pa.int32()), "t": ["a", "b"], "v": [10, 50]})
    stream = frame(spark, pa.table({"k": [1, 1 << 31, 5], "t": ["a", "a", "b"]}))
    source = Model(tmp_path, batch)
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        first = bsjoin.join(stream, frame(spark, batch), ["k", "t"], how="left")
        second = bsjoin.join(first, source, ["k", "t"], how="left", cache=ROOMY)
    assert rows_of_df(second) == [(1, "a", 10, 10), (5, "b", 50, 50), (1 << 31, "a", None, None)]
    assert set(source.times) == {(1, "'a'"), (5, "'b'")}


def rows_of(keys: Sequence[int | None], dtype: pa.DataType = pa.int64()) -> pa.Table:  # noqa: B008
    return pa.table({"k": pa.array(keys, dtype), "i": pa.array(range(len(keys)), pa.int32())})


@pytest.mark.parametrize(
    ("cache", "unique"),
    [pytest.param(A_ROW, False, marks=pytest.mark.long), (EVERY_OPTION, True)],
)
def test_a_small_cache_answers_the_same(check: Check, cache: Incremental, unique: bool) -> None:
    """More distinct keys than fit, each several times, a third of them absent."""
    generator = np.random.default_rng(7)
    keys = [None if k == 99 else int(k) for k in generator.integers(0, 100, 500)]
    stored = list(range(66)) if unique else [int(k) for k in generator.integers(0, 66, 200)]
    stored += [] if unique else [1] * 500  # far more than some hold, and than an Arrow batch
    batch = pa.table({"k": pa.array(stored, pa.int32()), "text": [f"row {i}" for i in stored]})
    source = check(rows_of(keys), batch, "k", cache, unique=unique, max_keys=13)
    assert None not in source.times
    assert set(source.times) == {k for k in keys if k is not None} | {*(cache.warm_up or ())}
    assert max(len(look_up.keys) for look_up in source.asked) <= 13


@pytest.mark.long
def test_nested_rows_come_back_as_they_are(spark: SparkSession, check: Check) -> None:
    """And nulls, out of the cache and past it, in another time zone."""
    fields, arrays = nested_columns(8)
    chosen = pa.array([0, 1, 2, 3, 3, 1, 0, 2], pa.int64())
    batch = pa.Table.from_arrays([chosen, *arrays], ["k", *(field.name for field in fields)])
    own = {"spark.sql.session.timeZone": "America/New_York"}
    own["spark.sql.execution.arrow.maxRecordsPerBatch"] = "5"
    with configured(spark, own):
        keys = [0, 3, None, 1, 9, 2, 2, 0, 1, 3, 9, 0]
        for cache in (ROOMY, A_ROW):
            check(rows_of(keys), batch, "k", cache, hows=["left"])


@pytest.mark.long
def test_an_empty_source_an_empty_stream_and_nothing_but_nulls(check: Check) -> None:
    batch = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    source = check(rows_of([1, 2, None, 2]), batch.slice(0, 0), "k", unique=True)
    assert set(source.times) == {1, 2}
    assert not check(rows_of([]), batch, "k").asked
    assert not check(rows_of([None] * 50), batch, "k").asked
    source = check(rows_of([None] * 50 + [2] + [None] * 50), batch, "k")
    assert set(source.times) == {2}


def test_a_condition_above_the_join_queries_once(spark: SparkSession, tmp_path: Path) -> None:
    """The optimizer does not copy the look-up into a filter that it moves."""
    batch = rows_of([1, 2, 3])
    source = Model(tmp_path / "m", batch)
    left, right = frame(spark, rows_of([1, 2, 2, 5])), frame(spark, batch)
    joined = bsjoin.join(left, source, "k", how="left", cache=ROOMY)
    wanted = expected(left, right, "k", "left")
    condition = "i_batch > 0 AND k < 5 OR i_batch IS NULL"
    assert_same(joined.where(condition), wanted.where(condition))
    assert set(source.times.values()) == {1}
