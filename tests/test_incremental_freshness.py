"""What an incremental join sees of a table that changes, and what it knows from the start."""

from __future__ import annotations

import time
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from cache_runs import COUNTS, Run, database_of_planes, figures, joined, planes, turns
from cache_samples import Model, until
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, rows
from sqlite_files import in_sqlite

import bsjoin
from bsjoin import Incremental, sources
from tests.fuzz.engine import frame
from tests.fuzz.values import FAMILIES, KINDS, special

pytestmark = pytest.mark.usefixtures("interpreted")


def test_a_change_is_seen_after_the_ttl_of_a_row_or_of_an_absence_and_not_before(
    feed: Feed, model: Model
) -> None:
    run = Run(feed, joined(feed, model, ttl=0.5, negative_ttl=0.25))
    run.turn(1, 9)
    (asked,) = model.asked
    model.put(planes([1, 9], 2))
    for turn in turns(run, 1, 9, last=[(1, "v2"), (9, "v2")]):
        for key, old, ttl in ((1, "v1", 0.5), (9, None, 0.25)):
            if turn.end_s < asked.begin_s + ttl:
                assert (key, old) in turn.rows
            if turn.begin_s > asked.end_s + ttl:
                assert (key, "v2") in turn.rows
    assert model.times[1] == 2
    assert model.times[9] >= 2  # it has rows now, and their ttl


@pytest.mark.long
def test_without_negative_entries_a_missing_key_is_queried_every_time(
    feed: Feed, model: Model
) -> None:
    run = Run(feed, joined(feed, model, negative=False))
    for count in (1, 2, 3):
        run.turn(1, 9)
        assert model.times == {1: 1, 9: count}
    assert figures(run.last(), *COUNTS) == (1, 0, 1, 1, 1, 0, 1, 0)
    model.put(planes([9], 2))
    assert run.turn(1, 9).rows == [(1, "v1"), (9, "v2")]


@pytest.mark.long
def test_only_a_row_not_used_for_its_idle_ttl_is_queried_again(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, idle_ttl=0.5))
    first = run.turn(1, 3)
    last, widest = first, 0.0
    while last.begin_s < first.end_s + 0.5:
        turn = run.turn(1)
        last, widest = turn, max(widest, turn.end_s - last.begin_s)
    run.turn(1, 3)
    assert model.times[3] == 2
    assert model.times[1] == 1 or widest > 0.5


@pytest.mark.long
def test_a_stale_row_is_used_while_it_is_refreshed(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, ttl=0.3, stale_while_revalidate="1 hour"))
    first = run.turn(1)
    model.put(planes([1], 2))
    until(lambda: time.monotonic() > first.end_s + 0.3, "the ttl")
    with model.held():  # nothing is answered, and the micro-batch does not wait
        turn = run.turn(1)
        assert turn.rows == [(1, "v1")]
        assert figures(run.last(), "hits", "misses", "stale_rows") == (1, 0, 1)
        until(lambda: len(model.begun) == 2, "the look-up in the background")
    until(lambda: model.times[1] == 2, "its end")
    turns(run, 1, last=[(1, "v2")])

    def looked_up() -> int:  # that of the background is told by its process's next batch
        run.turn(1)
        return sum(cycle.cache.lookups for cycle in cycles(run.query) if cycle.cache)

    until(lambda: looked_up() >= 2, "the figures of the background")


def test_keys_are_forgotten_on_demand(feed: Feed, model: Model) -> None:
    """In every join that asks the source: for a row, for an absence, for all."""
    one = joined(feed, model)
    other = Incremental(max_rows=77)  # a cache of its own
    both = bsjoin.join(one, model, "k", how="left", suffix="_2", cache=other)
    run = Run(feed, both)
    run.turn(1, 3, 9)
    model.put(planes([1, 3, 9], 2))
    assert run.turn(1, 3, 9).rows == [(1, "v1", "v1"), (3, "v1", "v1"), (9, None, None)]
    model.invalidate([1])
    assert run.turn(1, 3, 9).rows == [(1, "v2", "v2"), (3, "v1", "v1"), (9, None, None)]
    model.invalidate(pa.table({"k": [9, 1_000]}))
    assert run.turn(1, 3, 9).rows == [(1, "v2", "v2"), (3, "v1", "v1"), (9, "v2", "v2")]
    model.put(planes([1, 3, 9], 3))
    model.invalidate_all()
    assert run.turn(1, 3, 9).rows == [(1, "v3", "v3"), (3, "v3", "v3"), (9, "v3", "v3")]
    run.turn(1, 3, 9)
    assert model.times == {1: 6, 3: 4, 9: 6}


def test_a_result_during_an_invalidation_is_not_cached(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model))
    with model.held():
        feed.add(1)
        until(lambda: model.begun, "the look-up")
        model.invalidate([1])
    run.query.processAllAvailable()
    model.put(planes([1], 2))
    assert run.turn(1).rows == [(1, "v2")]
    assert run.turn(1).rows == [(1, "v2")]
    assert model.times == {1: 2}


def test_a_list_of_keys_warms_the_cache_up_the_first_ones_where_not_all_fit(
    feed: Feed, model: Model
) -> None:
    run = Run(feed, joined(feed, model, warm_up=[1, 2, 9, None, 2, *range(20, 30)], max_rows=4))
    assert run.turn(1, 2, 9, 1, None).rows == [
        (None, None), (1, "v1"), (1, "v1"), (2, "v1"), (2, "v1"), (9, None),
    ]  # fmt: skip
    assert figures(run.last(), *COUNTS[:4]) == (3, 1, 0, 0)
    assert figures(run.last(), "hit_rate", "rows") == (1, 4)
    assert [model.times[key] for key in (1, 2, 9)] == [1, 1, 1]


def test_a_query_warms_the_cache_up_and_a_command_makes_a_change_visible(
    feed: Feed, tmp_path: Path
) -> None:
    source = sources.sql(database_of_planes(tmp_path), table="planes")
    cache = Incremental(max_rows=100, warm_up="SELECT id FROM planes WHERE hot")
    run = Run(feed, bsjoin.join(feed.stream, source, {"k": "id"}, cache=cache, select=["name"]))
    assert run.turn(1, 3, 9).rows == [(i, f"plane {i}") for i in (1, 3, 9)]
    assert figures(run.last(), *COUNTS[:4]) == (3, 0, 0, 0)
    assert run.turn(2, 5, None).rows == [(2, "plane 2"), (5, "plane 5")]
    assert figures(run.last(), *COUNTS[:5]) == (1, 0, 1, 1, 1)
    in_sqlite(tmp_path / "planes.db", "UPDATE planes SET name = 'new'")
    assert run.turn(1, 2).rows == [(1, "plane 1"), (2, "plane 2")]
    source.invalidate([1])
    assert run.turn(1, 2).rows == [(1, "new"), (2, "plane 2")]


KEYS = [
    *([kinds[-1]] for kinds in FAMILIES.values()),
    ["int", "float", "decimal(10,2)"],
    ["string", "double", "decimal(25,3)", "timestamp", "boolean"],
]


@pytest.mark.long
def test_keys_of_every_type_are_warmed_up_and_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What a worker makes of them must be what Spark makes of them in a row."""
    counted: list[DataFrame] = []
    sources: list[tuple[Model, pa.Table]] = []
    for number, kinds in enumerate(KEYS):
        size = max(len(special(kind)) for kind in kinds)
        names = [f"k{i}" for i in range(len(kinds))]
        drawn = [[special(k)[i % len(special(k))] for i in range(size)] for k in kinds]
        types = [KINDS[kind].arrow for kind in kinds]
        keys = pa.table(list(map(pa.array, drawn, types)), names)
        source = Model(tmp_path / str(number), keys.append_column("v", pa.array(range(size))))
        cache = Incremental(max_rows=10_000, warm_up=keys)
        joined = bsjoin.join(frame(spark, keys).coalesce(1), source, names, cache=cache)
        counted.append(joined.selectExpr(f"{number} AS number", f"{size} AS size"))
        sources.append((source, keys))

    def together() -> DataFrame:
        """A new one each time: of the same one Spark would read the shuffle again."""
        return reduce(DataFrame.union, counted).groupBy("number", "size").count()

    found = rows(together())
    assert len(found) == len(KEYS)
    assert all(count >= size for _, size, count in found)
    for source, _ in sources:
        assert len(source.asked) == 1, "the stream's keys were not those of the warm-up"
    for source, keys in sources:
        source.invalidate(keys)
    assert rows(together()) == found
    for source, _ in sources:
        assert set(source.times.values()) == {2}
