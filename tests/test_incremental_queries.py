"""Incremental joins inside larger queries: limits, windows, aggregates, foreachBatch, a restart."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cache_runs import ROOMY, Run, figures, planes
from cache_samples import Model, until
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sessions import configured
from spark_samples import Feed, cycles, rows

import bsjoin
from bsjoin import Incremental

pytestmark = pytest.mark.usefixtures("interpreted")


def test_a_limit_takes_what_it_needs_and_leaves_the_cache_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    model = Model(tmp_path / "model", planes(range(100)))
    stream = spark.range(0, 1_000, 1, 2).selectExpr("id % 100 AS k", "id AS i")
    joined = bsjoin.join(stream, model, "k", cache=ROOMY)
    with configured(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"}):
        assert len(joined.limit(3).collect()) == 3
        assert joined.take(1)[0]["v"] == "v1"
        assert not joined.where("k > 1000").take(1)
        assert joined.count() == 1_000
    assert set(model.times.values()) == {1}


def test_workers_of_a_host_share_a_cache(spark: SparkSession, tmp_path: Path) -> None:
    """Each of two tasks has keys of its own, and some of the other one's."""
    model = Model(tmp_path / "model", planes(range(100)))
    stream = spark.range(0, 120, 1, 2).selectExpr("id - id DIV 60 * 20 AS k")
    joined = bsjoin.join(stream, model, "k", cache=Incremental(max_rows=500))
    with ThreadPoolExecutor(1) as pool:
        with model.held():
            counted = pool.submit(joined.count)
            until(lambda: len({*model.begun}) == 2, "a look-up of each worker")
        assert counted.result() == 120
    assert model.times == dict.fromkeys(range(100), 1)
    assert len({look_up.pid for look_up in model.asked}) == 2


@pytest.mark.long
def test_joins_and_queries_with_equal_options_share_a_cache(
    spark: SparkSession, feed: Feed, model: Model
) -> None:
    """A DataFrame that is used twice, one that is made again, one that two streams run."""
    for _ in range(2):
        joined = bsjoin.join(spark.range(4).toDF("k"), model, "k", cache=ROOMY)
        twice = joined.union(joined.where("k > 1"))
        assert rows(twice) == sorted([(1, "v1"), *[(2, "v1"), (2, "v1"), (3, "v1")] * 2])
    both = joined.alias("a").join(joined.alias("b"), "k").select("k")
    assert rows(both) == [(k,) for k in (1, 2, 2, 2, 2, 3)]
    assert model.times == {0: 1, 1: 1, 2: 1, 3: 1}
    before = len(model.asked)
    streamed = bsjoin.join(feed.stream, model, "k", cache=Incremental(max_rows=7))
    Run(feed, streamed).turn(1, 2, 9)
    assert model.times == {0: 1, 1: 2, 2: 2, 3: 1, 9: 1}
    other = streamed.writeStream.format("memory").queryName("shares_a_cache").start()
    other.processAllAvailable()
    assert rows(spark.table("shares_a_cache")) == [(1, "v1"), (2, "v1"), (2, "v1")]
    assert [figures(c.cache, "hits", "misses") for c in cycles(other) if c.cache] == [(2, 0)]
    assert len(model.asked) == before + 1
    other.stop()


def test_a_failing_row_beside_the_join_leaves_no_claim_behind(
    spark: SparkSession, model: Model
) -> None:
    """A task that fails elsewhere; the same cache answers the next query."""
    joined = bsjoin.join(spark.range(4).toDF("k"), model, "k", how="left", cache=ROOMY)
    with pytest.raises(PySparkException, match="my own"):
        joined.where("k < 3 OR raise_error('my own') IS NULL").collect()
    model.fail(4)
    other = bsjoin.join(
        spark.range(4).toDF("k"),
        model,
        "k",
        cache=Incremental(max_rows=9, retries=1, backoff=0.001),
    )
    with pytest.raises(PySparkException, match="LookupFailedError"):
        other.coalesce(1).collect()
    model.heal()
    for df in (joined, other):
        assert len(rows(df)) == (5 if df is joined else 4)


def test_a_query_that_is_stopped_in_a_look_up_ends_and_goes_on_later(
    feed: Feed, model: Model
) -> None:
    joined = bsjoin.join(feed.stream, model, "k", how="left", cache=ROOMY)
    run = Run(feed, joined)
    run.turn(1)
    with model.held():
        feed.add(2, 9)
        until(lambda: len(model.begun) == 2, "the look-up")
        run.query.stop()
        assert not run.query.isActive
    assert 1 not in feed.results
    feed.run(joined)
    assert feed.results[1] == [(2, "v1"), (2, "v1"), (9, None)]


def test_the_cache_of_an_application_goes_when_it_ends(
    spark: SparkSession, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a killed one goes as any folder of a host does: tests/host."""
    bases: dict[str, Any] = {}
    place, told = tmp_path / "cache", "bsjoin.planner.incremental_cache.remove_at_exit"
    monkeypatch.setattr(told, lambda token, base: bases.update({token: base}))
    cache = Incremental(max_rows=10, folder=place.as_uri())
    assert bsjoin.join(spark.range(3).toDF("k"), model, "k", cache=cache).count() == 3
    there = list(place.glob("bsjoin-*/cache-*"))
    assert {path.name.split("-")[1] for path in there} == {*bases}
    assert all(path.stat().st_mode & 0o77 == 0 for path in there)
    code = "import sys; from bsjoin.cache import remove_at_exit; remove_at_exit(*sys.argv[1:])"
    for token, base in bases.items():
        subprocess.run([sys.executable, "-c", code, token, base], check=True)
    assert not any(path.exists() for path in there)
