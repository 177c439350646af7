"""Range joins with a source: the rows of a key are asked for, ordered and cached as one entry."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles
from test_oracle_ranges import Joins, When, held_against_a_loop

import bsjoin
from bsjoin import AsOf, Band, Incremental
from bsjoin.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("interpreted")

_numbers = itertools.count()

ROOMY = Incremental(max_rows=100_000)


def of_sources(folder: Path, cache: Incremental) -> Callable[[DataFrame, DataFrame], Joins]:
    """The joins with sources, of which each condition has one of its own."""

    def joins(stream: DataFrame, table: DataFrame) -> Joins:
        rows, sources = table.toArrow(), dict[When, Model]()

        def joined(when: When, on: list[str], how: Any) -> DataFrame:
            if when not in sources:
                sources[when] = Model(folder / str(next(_numbers)), rows, max_keys=2)
            return bsjoin.join(stream, sources[when], on, when=when, how=how, cache=cache)

        return joined

    return joins


# One kind of order each, and caches that hold less than they should; the fuzz draws the rest.
CACHES = {
    "tinyint in int": Incremental(max_rows=1),
    "double": Incremental(max_rows=50),
    "long decimal": ROOMY,
    "timestamp_ntz": Incremental(max_bytes="4 KiB"),
    "string": ROOMY,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("double", "string") else [pytest.mark.long])
        for name in CACHES
    ],
)
def test_every_condition_answers_as_a_nested_loop_does(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    held_against_a_loop(spark, name, of_sources(tmp_path, CACHES[name]), keyed=True)


def test_a_stream_queries_each_group_once(feed: Feed, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "k": pa.array([1] * 50 + [2] * 3, pa.int64()),
            "q": pa.array([*range(49, -1, -1), 7, 7, None], pa.int64()),
            "v": pa.array([f"v{n}" for n in range(53)]),
        }
    )
    source = Model(tmp_path / "source", rows)
    stream, when = feed.stream.selectExpr("k DIV 100 AS k", "k % 100 AS p"), Band("p", "q", 1, 0)
    joined = bsjoin.join(stream, source, "k", when=when, how="left", select=["v"], cache=ROOMY)
    query = feed.start(joined)
    assert feed.turn(query, 110, 207, 301) == [
        (1, 10, "v39"), (1, 10, "v40"), (2, 7, "v50"), (2, 7, "v51"), (3, 1, None),
    ]  # fmt: skip
    assert feed.turn(query, 100, 199, 208, 302, None) == [
        (None, None, None), (1, 0, "v49"), (1, 99, None), (2, 8, "v50"), (2, 8, "v51"),
        (3, 2, None),
    ]  # fmt: skip
    assert source.times == {1: 1, 2: 1, 3: 1}
    first, second = cycles(query)
    assert (first.mode, first.table_version) == ("incremental", None)
    assert (first.rows_in, first.rows_out, first.hits, first.matches) == (3, 5, 2, 4)
    assert (second.rows_in, second.rows_out, second.hits, second.matches) == (5, 6, 2, 3)
    assert (first.cache.misses, first.cache.keys_queried) == (3, 3)
    assert (second.cache.hits, second.cache.negative_hits, second.cache.misses) == (3, 1, 0)
    assert second.cache.rows == 50 + 2 + 1  # the row without a point is not kept


@pytest.mark.long
def test_of_equal_rows_the_same_one_is_taken_whenever_they_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.sql("SELECT 1L AS k, 5L AS p")
    found = []
    for turn, order in enumerate(itertools.permutations(["a", "b", None])):
        rows = {"k": [1, 1, 1], "q": [5, 5, 5], "v": list(order), "w": [[v] for v in order]}
        source = Model(tmp_path / str(turn), pa.table(rows))
        found.append(bsjoin.join(stream, source, "k", when=AsOf("p", "q"), cache=ROOMY))
    assert reduce(DataFrame.union, found).distinct().count() == 1


def test_a_pure_range_join_needs_the_table_whole(spark: SparkSession, tmp_path: Path) -> None:
    source = Model(tmp_path / "source", pa.table({"q": [1]}))
    with pytest.raises(ArgumentError, match=r"alone has none.*bsjoin.Full"):
        bsjoin.join(spark.range(1), source, [], when=AsOf("id", "q"), cache=ROOMY)
