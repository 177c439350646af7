"""What an incremental join sees of a table that changes, and what it knows from the start."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from cache_runs import COUNTS, ROOMY, Run, database_of_planes, figures, joined, planes, turns
from cache_samples import Model, until
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from spark_samples import Feed, cycles
from test_oracle_types import KINDS

import bsjoin
from bsjoin import Incremental, sources

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def database(tmp_path: Path) -> str:
    return database_of_planes(tmp_path)


def test_a_changed_row_is_seen_after_its_ttl_and_not_before(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, ttl=3))
    run.turn(1)
    (asked,) = model.asked
    model.put(planes([1], 2))
    seen = turns(run, 1, last=[(1, "v2")])
    assert seen[0].rows == [(1, "v1")] or seen[0].end_s > asked.begin_s + 3
    for turn in seen:
        if turn.end_s < asked.begin_s + 3:
            assert turn.rows == [(1, "v1")]
        if turn.begin_s > asked.end_s + 3:
            assert turn.rows == [(1, "v2")]
    assert model.times[1] == 2


def test_an_absence_has_a_time_to_live_of_its_own(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, ttl="1 hour", negative_ttl=2))
    run.turn(1, 9)
    (asked,) = model.asked
    model.put(planes([1, 9], 2))
    for turn in turns(run, 1, 9, last=[(1, "v1"), (9, "v2")]):
        if turn.end_s < asked.begin_s + 2:
            assert turn.rows == [(1, "v1"), (9, None)]
        if turn.begin_s > asked.end_s + 2:
            assert turn.rows == [(1, "v1"), (9, "v2")]
    assert model.times == {1: 1, 9: 2}


def test_an_absence_may_outlive_the_rows(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, ttl=0.3, negative_ttl="1 hour"))
    run.turn(1, 9)
    model.put(planes([1, 9], 2))
    turns(run, 1, 9, last=[(1, "v2"), (9, None)])
    assert model.times[9] == 1


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


def test_only_a_row_not_used_for_its_idle_ttl_is_queried_again(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, idle_ttl=3))
    first = run.turn(1, 3)
    last, widest = first, 0.0
    while last.begin_s < first.end_s + 3:
        turn = run.turn(1)
        last, widest = turn, max(widest, turn.end_s - last.begin_s)
    run.turn(1, 3)
    assert model.times[3] == 2
    assert model.times[1] == 1 or widest > 3


def test_a_stale_row_is_used_while_it_is_refreshed(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, ttl=1, stale_while_revalidate="1 hour"))
    first = run.turn(1)
    model.put(planes([1], 2))
    until(lambda: time.monotonic() > first.end_s + 1, "the ttl")
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


def test_a_list_of_keys_warms_the_cache_up(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model, warm_up=[1, 2, 9, None, 2]))
    assert run.turn(1, 2, 9, 1, None).rows == [
        (None, None), (1, "v1"), (1, "v1"), (2, "v1"), (2, "v1"), (9, None),
    ]  # fmt: skip
    assert figures(run.last(), *COUNTS[:4]) == (3, 1, 0, 0)
    assert figures(run.last(), "hit_rate", "rows") == (1, 4)
    assert model.times == {1: 1, 2: 1, 9: 1}


def test_the_first_keys_of_a_warm_up_stay_when_not_all_fit(feed: Feed, tmp_path: Path) -> None:
    model = Model(tmp_path / "model", planes(range(10)))
    run = Run(feed, joined(feed, model, warm_up=range(10), max_rows=3))
    run.turn(0, 1, 2)
    assert figures(run.last(), *COUNTS[:3]) == (3, 0, 0)


def test_a_query_warms_the_cache_up(feed: Feed, database: str) -> None:
    source = sources.sql(database, table="planes")
    cache = Incremental(max_rows=100, warm_up="SELECT id FROM planes WHERE hot")
    run = Run(feed, bsjoin.join(feed.stream, source, {"k": "id"}, cache=cache, select=["name"]))
    assert run.turn(1, 3, 9).rows == [(i, f"plane {i}") for i in (1, 3, 9)]
    assert figures(run.last(), *COUNTS[:4]) == (3, 0, 0, 0)
    assert run.turn(2, 5, None).rows == [(2, "plane 2"), (5, "plane 5")]
    assert figures(run.last(), *COUNTS[:5]) == (1, 0, 1, 1, 1)


def test_a_database_that_changes_is_seen_after_a_command(feed: Feed, database: str) -> None:
    source = sources.sql(database, table="planes")
    run = Run(feed, bsjoin.join(feed.stream, source, {"k": "id"}, cache=ROOMY, select=["name"]))
    assert run.turn(1, 10).rows == [(1, "plane 1")]
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE planes SET name = 'new'")
        connection.execute("INSERT INTO planes VALUES (10, 'tenth', 0)")
    assert run.turn(1, 10).rows == [(1, "plane 1")]
    source.invalidate([10])
    assert run.turn(1, 10).rows == [(1, "plane 1"), (10, "tenth")]
    source.invalidate([1])
    assert run.turn(1, 10).rows == [(1, "new"), (10, "tenth")]


KEYS = {
    **{kind: [kind] for kind in KINDS},
    "two longs": ["long", "long"],
    "a mixed key": ["string", "double", "decimal(25,3)", "timestamp", "boolean"],
}


@pytest.mark.parametrize("kinds", KEYS.values(), ids=KEYS)
def test_keys_of_every_type_are_warmed_up_and_forgotten(
    spark: SparkSession, tmp_path: Path, kinds: list[str]
) -> None:
    """What a worker makes of them must be what Spark makes of them in a row."""
    size = max(len(KINDS[kind].special) for kind in kinds)
    columns = [
        pa.array([KINDS[kind].special[i % len(KINDS[kind].special)] for i in range(size)], type_)
        for kind, type_ in ((kind, KINDS[kind].arrow) for kind in kinds)
    ]
    names = [f"k{i}" for i in range(len(columns))]
    keys = pa.table(columns, names)
    source = Model(tmp_path / "model", keys.append_column("v", pa.array(range(size))))
    types = [from_arrow_type(field.type, prefer_timestamp_ntz=True) for field in keys.schema]
    schema = T.StructType(list(map(T.StructField, names, types)))
    stream = spark.createDataFrame(keys, schema).coalesce(1)
    cache = Incremental(max_rows=10_000, warm_up=keys)
    joined = bsjoin.join(stream, source, names, cache=cache)
    found = joined.count()
    assert found >= size
    assert len(source.asked) == 1, "the stream's keys were not those of the warm-up"
    source.invalidate(keys)
    assert joined.count() == found
    assert set(source.times.values()) == {2}
