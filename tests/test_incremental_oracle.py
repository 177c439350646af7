"""An incremental join answers row for row what Spark's own join answers, whatever is cached."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_samples import Model, Readable
from hypothesis import given
from oracle import (
    FUZZ,
    HOWS,
    assert_same,
    assert_same_rows,
    assert_same_schema,
    expected,
    rows_of_all,
    rows_of_spark,
)
from oracle import settings as spark_settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from test_oracle_types import PAIRS, Answers, Pair, answers, probes, sides, stored, table

import bsjoin
from bsjoin import Full, Incremental

pytestmark = pytest.mark.usefixtures("interpreted")

_numbers = itertools.count()

ROOMY = Incremental(max_rows=100_000)
CACHES = {
    "roomy": ROOMY,
    "a row": Incremental(max_rows=1),
    "seven rows": Incremental(max_rows=7),
    "a thousand bytes": Incremental(max_bytes="1 KiB"),
    "no absences": Incremental(max_rows=100, negative=False),
    "both bounds": Incremental(max_rows=20, max_bytes=4_000, ttl="1 day", idle_ttl="1 day"),
}


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as Spark has them: a time without a zone stays one."""
    types = [from_arrow_type(field.type, prefer_timestamp_ntz=True) for field in rows.schema]
    schema = T.StructType(list(map(T.StructField, rows.column_names, types)))
    return spark.createDataFrame(rows, schema).coalesce(1)


class Check:
    """Holds all join types of a stream and a source against Spark, in one Spark action each."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder

    def __call__(
        self,
        stream: pa.Table | DataFrame,
        batch: pa.Table,
        on: Any,
        cache: Any = ROOMY,
        *,
        hows: Iterable[str] = HOWS,
        unique: bool = False,
        max_keys: int = 10_000,
        select: Sequence[str] | None = None,
        suffix: str = "_batch",
    ) -> Model:
        kind = Model if isinstance(cache, Incremental) else Readable
        source = kind(self.folder / str(next(_numbers)), batch, unique=unique, max_keys=max_keys)
        left = frame(self.spark, stream) if isinstance(stream, pa.Table) else stream
        right = frame(self.spark, batch)
        results = {}
        for how in hows:
            brought = {} if how in ("semi", "anti") else {"select": select}
            results[how] = bsjoin.join(
                left, source, on, how=how, cache=cache, suffix=suffix, **brought
            )
            spark_says = expected(left, right, on, how, select, suffix)
            assert_same_schema(results[how], spark_says, f"how={how!r}")
        right_rows = rows_of_spark(left, right, on, select)
        for how, rows in rows_of_all(results).items():
            assert_same_rows(rows, right_rows[how], f"how={how!r}")
        return source


@pytest.fixture
def check(spark: SparkSession, tmp_path: Path) -> Check:
    return Check(spark, tmp_path)


INTEGERS = ("byte", "short", "int", "long")
ALL_PAIRS = list(dict.fromkeys([*PAIRS, *itertools.product(INTEGERS, INTEGERS)]))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[Pair, Model]:
    folder, batch = tmp_path_factory.mktemp("pairs"), stored()
    return {
        pair: Model(folder / str(number), batch.select([pair[1], "v"]))
        for number, pair in enumerate(ALL_PAIRS)
    }


@pytest.fixture(scope="module")
def matched(spark: SparkSession, sources: dict[Pair, Model]) -> Answers:
    stream = frame(spark, probes())
    caches = dict(zip(ALL_PAIRS, itertools.cycle(CACHES.values()), strict=False))

    def join(left: str, right: str, how: Any) -> DataFrame:
        source, cache = sources[left, right], caches[left, right]
        return bsjoin.join(stream, source, {left: right}, how=how, cache=cache)

    return answers(stream, frame(spark, stored()), ALL_PAIRS, join)


@pytest.mark.parametrize("pair", ALL_PAIRS, ids=",".join)
def test_every_pair_of_key_types_matches_as_in_spark(
    matched: Answers, sources: dict[Pair, Model], pair: Pair
) -> None:
    """All difficult values of both types, nulls and duplicates on both sides."""
    assert len(matched[pair]) == 2
    for how, (found, wanted) in matched[pair].items():
        assert_same_rows(found, wanted, how)
    assert sources[pair].asked


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


@FUZZ
@given(sides())
def test_composite_keys_of_any_types_match_as_in_spark(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[pa.Table, pa.Table, dict[str, str]],
) -> None:
    stream, batch, on = case
    check = Check(spark, tmp_path_factory.mktemp("composite"))
    check(stream, batch, on, list(CACHES.values())[len(stream) % len(CACHES)])


def test_a_session_time_zone_changes_no_match(spark: SparkSession, check: Check) -> None:
    """Around the change of the clocks, as a single key, as a part of a key and as values."""
    with spark_settings(spark, spark__sql__session__timeZone="America/New_York"):
        hours = [1_699_160_400_000_000 + 1_800_000_000 * i for i in range(12)]
        fields = [
            ("at", pa.timestamp("us", "UTC")),
            ("wall", pa.timestamp("us")),
            ("n", pa.int32()),
        ]
        stream = table(fields, [[*hours, None], [*hours[::-1], None], range(13)])
        batch = table(fields, [[*hours[3:], None], [*hours[:-3], None], range(10)])
        check(stream, batch, "at")
        check(stream, batch, ["wall"], hows=["left"])
        check(stream, batch, {"wall": "wall", "at": "at"}, hows=["inner", "anti"])


def rows_of(keys: Sequence[int | None], dtype: pa.DataType = pa.int64()) -> pa.Table:  # noqa: B008
    return pa.table({"k": pa.array(keys, dtype), "i": pa.array(range(len(keys)), pa.int32())})


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_of_any_size_answers_the_same(check: Check, cache: str) -> None:
    """More distinct keys than fit, each several times, a third of them absent."""
    generator, unique = np.random.default_rng(7), len(cache) % 2 == 0
    keys = [None if k == 99 else int(k) for k in generator.integers(0, 100, 500)]
    stored = list(range(66)) if unique else [int(k) for k in generator.integers(0, 66, 200)]
    stored += [] if unique else [1] * 500  # far more than some hold, and than an Arrow batch
    batch = pa.table({"k": pa.array(stored, pa.int32()), "text": [f"row {i}" for i in stored]})
    source = check(rows_of(keys), batch, "k", CACHES[cache], unique=unique, max_keys=13)
    assert None not in source.times
    assert set(source.times) == {k for k in keys if k is not None}
    assert max(len(look_up.keys) for look_up in source.asked) <= 13


@pytest.mark.parametrize("size", [1, 7, 50])
def test_the_size_of_arrow_batches_changes_nothing(
    spark: SparkSession, check: Check, size: int
) -> None:
    generator = np.random.default_rng(size)
    keys = [None if k > 30 else int(k) for k in generator.integers(0, 40, 101)]
    batch = rows_of([*range(0, 30, 2), *range(0, 30, 6), None], pa.int32())
    with spark_settings(spark, spark__sql__execution__arrow__maxRecordsPerBatch=str(size)):
        # All batches of the four joins find in the cache what the first has asked for.
        source = check(rows_of(keys), batch, "k", ROOMY, hows=("left",))
        assert max(source.times.values()) == 1
        check(rows_of(keys), batch, "k", CACHES["seven rows"], hows=("inner", "anti"))


NESTED = {
    "list": ([[1, None], [], None, [3]], pa.list_(pa.int32())),
    "texts": ([["a", None], None, [], ["", "é"]], pa.list_(pa.string())),
    "struct": (
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 4, "b": ""}],
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
    ),
    "map": ([[("x", 1)], [], None, [("y", None), ("z", 3)]], pa.map_(pa.string(), pa.int32())),
    "deep": (
        [[{"l": [["q"], None]}], None, [None, {"l": None}], []],
        pa.list_(pa.struct([("l", pa.list_(pa.list_(pa.string())))])),
    ),
    "times": ([[0, None], [1], None, []], pa.list_(pa.timestamp("us", "UTC"))),
}
PLAIN = {
    "decimal": ([Decimal("1.50"), None, Decimal("-9.99"), Decimal(0)], pa.decimal128(10, 2)),
    "wide": ([Decimal(10**37), None, Decimal(-1), Decimal(0)], pa.decimal128(38, 0)),
    "flag": ([True, None, False, True], pa.bool_()),
    "float": ([0.5, float("nan"), None, -0.0], pa.float32()),
    "double": ([0.1, float("inf"), None, -0.0], pa.float64()),
    "text": (["", None, "日本語", "x" * 5000], pa.string()),
    "bytes": ([b"", None, b"\x00\xff", b"x"], pa.binary()),
    "day": ([0, None, -141_428, 2_932_896], pa.date32()),
    "at": ([0, None, 1_700_000_000_000_001, -1], pa.timestamp("us", "UTC")),
    "wall": ([0, None, 1_700_000_000_000_001, -1], pa.timestamp("us")),
    "byte": ([-128, None, 127, 0], pa.int8()),
    "nothing": ([None] * 4, pa.string()),
}


@pytest.mark.parametrize("unique", [True, False])
def test_rows_of_every_type_come_back_as_they_are(
    spark: SparkSession, check: Check, unique: bool
) -> None:
    """Nested values and nulls, out of the cache and past it, in another time zone."""
    chosen = list(range(4)) if unique else [0, 1, 2, 3, 3, 1, 0, 2]
    batch = pa.table(
        {
            "k": pa.array(chosen, pa.int64()),
            **{
                name: pa.array(values, dtype).take(pa.array(chosen))
                for name, (values, dtype) in {**NESTED, **PLAIN}.items()
            },
        }
    )
    with spark_settings(
        spark,
        spark__sql__session__timeZone="America/New_York",
        spark__sql__execution__arrow__maxRecordsPerBatch="5",
    ):
        keys = [0, 3, None, 1, 9, 2, 2, 0, 1, 3, 9, 0]
        for cache in (ROOMY, CACHES["a row"]):
            check(rows_of(keys), batch, "k", cache, hows=("inner", "left"), unique=unique)


def test_columns_are_chosen_renamed_and_matched_by_other_names(check: Check) -> None:
    stream = pa.table({"id": [1, 2, 2, None, 7], "name": list("abcde"), "n": range(5)})
    batch = pa.table(
        {
            "name": ["one", "two", "zwei"],
            "key": pa.array([1, 2, 2], pa.int16()),
            "size": [1.0, 2.0, None],
            "n": ["x", "y", None],
        }
    )
    on = {"id": "key"}
    check(stream, batch, on)
    check(stream, batch, on, suffix="_there", hows=("inner", "left"))
    for select in (["n", "name"], [], ["key", "size"]):
        check(stream, batch, on, select=select, suffix="_b", hows=("inner", "left"))
    check(stream, batch.slice(0, 2), on, select=[], unique=True)
    same = stream.rename_columns(["key", "name", "m"])
    check(same, batch, None, suffix="_b")
    check(same, batch, ["key", "name"])


def test_an_empty_source_an_empty_stream_and_nothing_but_nulls(check: Check) -> None:
    batch = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    for unique in (True, False):
        source = check(rows_of([1, 2, None, 2]), batch.slice(0, 0), "k", unique=unique)
        assert set(source.times) == {1, 2}
        assert not check(rows_of([]), batch, "k", unique=unique).asked
        assert not check(rows_of([None] * 50), batch, "k", unique=unique).asked
        source = check(rows_of([None] * 50 + [2] + [None] * 50), batch, "k", unique=unique)
        assert set(source.times) == {2}


def test_many_partitions_share_a_cache(spark: SparkSession, check: Check) -> None:
    generator = np.random.default_rng(3)
    keys = rows_of([int(k) for k in generator.zipf(1.3, 20_000) % 3_000])
    batch = rows_of(list(range(0, 3_000, 2)) + list(range(0, 3_000, 10)), pa.int32())
    stream = spark.createDataFrame(keys).repartition(8)
    source = check(stream, batch, "k", hows=("left",), max_keys=500)
    assert max(source.times.values()) == 1
    check(stream, batch, "k", Incremental(max_rows=100), max_keys=500, hows=("inner",))


def test_a_full_cache_of_a_source_answers_the_same(check: Check) -> None:
    stored = [1, 2, 2, 3, None, 1]
    batch = rows_of(stored, pa.int16())
    nested = pa.array([[i, None] for i in range(len(stored))], pa.list_(pa.int64()))
    batch = batch.append_column("list", nested)
    source = check(rows_of([1, 2, 2, None, 9]), batch, "k", Full(), suffix="_b")
    assert not source.asked
    check(rows_of([1, 2]), batch, {"k": "k"}, Full(), select=["list"], hows=("inner",))


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
