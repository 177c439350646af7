"""Different keys of equal hash, made on purpose, are told apart; extreme hashes are found.

Spark's ``xxhash64`` of a long, or of 8 bytes, can be computed backwards, so that a partner of
equal hash can be made for any key.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from oracle import check, one_part
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.fuzz.collisions import bytes_of_hash, hash_of

pytestmark = pytest.mark.usefixtures("runtime")

_BITS = (1 << 64) - 1
_LARGEST, _SMALLEST = (1 << 63) - 1, 1 << 63


def long_of_hash(target: int, *seed: int) -> int:
    return int.from_bytes(bytes_of_hash(target, *seed), "little", signed=True)


def frame(spark: SparkSession, **columns: pa.Array) -> DataFrame:
    return one_part(spark, pa.table(columns))


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there"])
@pytest.mark.parametrize("hash_", [_LARGEST, _SMALLEST], ids=["largest", "smallest"])
def test_a_key_of_extreme_hash_is_found_only_where_it_is(
    spark: SparkSession, hash_: int, there: bool
) -> None:
    near = [long_of_hash((hash_ + step) & _BITS) for step in (-2, -1, 1, 2)]
    extreme = long_of_hash(hash_)
    stream = frame(spark, k=pa.array([extreme, *near, extreme, None]))
    assert stream.select(F.hex(F.xxhash64("k"))).first()[0] == f"{hash_:X}"
    keys = [*near, *near[:1], *([extreme, extreme] if there else [])]
    batch = frame(spark, k=pa.array(keys), v=pa.array(range(len(keys))))
    check(stream, batch, "k", hows=["inner", "anti"])


@pytest.mark.parametrize("copies", [[1, 1, 1], [1, 3, 2], [2, 70, 1]], ids=["row", "rows", "runs"])
def test_composite_keys_of_equal_hash_are_distinguished(
    spark: SparkSession, copies: list[int]
) -> None:
    """Five pairs of a text and a long of one hash; three of them are in the table."""
    texts = ["a", "b", "", "é", "other"]
    target = 1234567890123456789
    longs = [long_of_hash(target, hash_of(text.encode())) for text in texts]
    stream = frame(spark, t=pa.array([*texts, *texts, "a"]), n=pa.array([*longs, *longs, None]))
    hashes = stream.where("n IS NOT NULL").select(F.xxhash64("t", "n")).distinct().collect()
    assert [row[0] for row in hashes] == [target]
    rows = [(texts[i], longs[i]) for i, times in enumerate(copies) for _ in range(times)]
    rows += [("a", longs[1]), ("b", longs[0])]  # the same parts, another key
    batch = frame(
        spark,
        n=pa.array([n for _, n in rows]),
        v=pa.array(range(len(rows))),
        t=pa.array([t for t, _ in rows]),
    )
    check(stream, batch, ["n", "t"])
    check(stream, batch, ["t", "n"], hows=["left"])


def test_binary_keys_of_equal_hash_are_distinguished(spark: SparkSession) -> None:
    long_ones = [b"", b"x" * 16, b"y" * 100]
    pairs = [key for one in long_ones for key in (one, bytes_of_hash(hash_of(one)))]
    stream = frame(spark, k=pa.array([*pairs, *pairs, None]))
    assert stream.select(F.xxhash64("k")).where("k IS NOT NULL").distinct().count() == 3
    keys = [pairs[0], pairs[0], pairs[3], *pairs[4:], *pairs[4:]]
    check(stream, frame(spark, k=pa.array(keys), v=pa.array(range(len(keys)))), "k")
    check(stream, frame(spark, k=pa.array(pairs[::2]), v=pa.array([1, 2, 3])), "k", hows=["left"])
