"""Figures that tasks send: which attempt counts, and how much is remembered."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Literal

import pytest
from cache_samples import until
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, table_of

import bsjoin
from bsjoin import BatchTable
from bsjoin.metrics.join_metrics import JoinLabel, JoinMetrics, LookupMetrics
from bsjoin.metrics.lines import to_line
from bsjoin.metrics.observing import LINES
from bsjoin.metrics.progress import ObservedProgress, _cache
from bsjoin.metrics.tasks import MicroBatches, TaskMetrics
from bsjoin.plan import FIGURES

pytestmark = pytest.mark.usefixtures("in_python")

ONE = TaskMetrics(
    query="q", run="r", batch=3, stage=7, partition=0, attempt=11, name="join", line="1"
)


@pytest.fixture
def kept() -> MicroBatches:
    kept = MicroBatches(queries=2)
    kept.remember(2)
    return kept


def tasks(kept: MicroBatches, query: str = "q", run: str = "r", batch: int = 3) -> dict[str, str]:
    return kept.of(query, run, batch)


def test_the_tasks_of_a_stage_are_put_together_by_name(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, partition=1, attempt=12, line="2")])
    kept.take([replace(ONE, name="other", line="3")])
    assert tasks(kept) == {"join": "1\n2", "other": "3"}
    assert tasks(kept, batch=4) == {}
    assert tasks(kept, query="another") == {}


def test_a_later_attempt_takes_the_place_of_an_earlier_one(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, attempt=15, line="2"), replace(ONE, attempt=14, line="3")])
    assert tasks(kept) == {"join": "2"}


def test_a_task_that_computes_two_partitions_of_the_join_counts_both(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, line="2")])
    assert tasks(kept) == {"join": "1\n2"}


def test_a_result_that_two_actions_use_counts_once(kept: MicroBatches) -> None:
    kept.take([ONE, replace(ONE, partition=1, attempt=12)])
    # ``take`` may compute the first partition only.
    kept.take(
        [replace(ONE, stage=8, attempt=20, line="2"), replace(ONE, stage=6, attempt=9, line="4")]
    )
    assert tasks(kept) == {"join": "2\n1"}
    kept.take([replace(ONE, stage=9, partition=p, attempt=30 + p, line="3") for p in (1, 0)])
    assert tasks(kept) == {"join": "3\n3"}


def test_partitions_whose_rows_were_lost_are_counted_with_the_others(kept: MicroBatches) -> None:
    """An executor was lost after a stage: Spark computes what it had in a stage of its own."""
    for p in range(4):
        kept.take([replace(ONE, partition=p, attempt=11 + p, line=f"{p}")])
    kept.take([replace(ONE, stage=9, partition=2, attempt=20, line="again")])
    assert tasks(kept) == {"join": "0\n1\nagain\n3"}


def test_an_earlier_run_does_not_answer_for_a_later_one(kept: MicroBatches) -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    kept.take([replace(ONE, run=first)])
    assert tasks(kept, run=first) == {"join": "1"}
    assert tasks(kept, run=second) == {}
    groups = [f"the jobs of table {n}" for n in range(12)]
    for name in groups:
        kept.observe("q", name, 3, name, lambda: {"rows": 2})
    seen = {name: {"rows": 2} for name in groups}
    kept.take([replace(ONE, run=run, stage=n, partition=n) for n, run in enumerate(groups)])
    assert kept.of("q", second, 3) == {**seen, "join": "\n".join("1" * 12)}


def test_a_micro_batch_that_fails_for_ever_takes_no_more_memory(kept: MicroBatches) -> None:
    runs = [str(uuid.uuid4()) for _ in range(99)]
    for run in runs:
        kept.take([replace(ONE, run=run)])
    assert [run for run in runs if tasks(kept, run=run)] == runs[-8:]
    kept.take([replace(ONE, run=runs[-8], name="other")])  # it still runs
    kept.take([replace(ONE, run="again")])
    assert tasks(kept, run=runs[-8]) == {"join": "1", "other": "1"}


def test_shares_of_keys_are_of_rows_and_not_of_samples() -> None:
    """A sample has one size, whether it is of a hundred thousand rows or of one."""
    large = LookupMetrics(misses=90_000, hits=10_000, sampled=256, hottest=[("a", 128), ("b", 64)])
    small = LookupMetrics(negative_hits=1, sampled=256, hottest=[("c", 256)])
    plan = to_line([JoinLabel(label='1:["k"]', mode="incremental", partitioned="none",
                              runtime="python")])  # fmt: skip
    counted = to_line([JoinMetrics(rows_in=100_001, cache=[small, large])])
    one = ObservedProgress(0, "", {f"{FIGURES}{plan}": {LINES: counted}})
    (join,) = bsjoin.progress(SimpleNamespace(recentProgress=[one]))
    assert join.cache is not None
    shares = [(key, round(share, 3)) for key, share in join.cache.hottest]
    assert shares == [("a", 0.5), ("b", 0.25)]


def test_keys_that_are_there_by_chance_take_no_places() -> None:
    chance = [
        LookupMetrics(misses=900_000, sampled=256, hottest=[(f"{n}{i}", 2) for i in range(5)])
        for n in range(3)
    ]
    own = LookupMetrics(misses=10_000, sampled=256, hottest=[("a", 128)])
    assert [key for key, _ in _cache([*chance, own]).hottest] == ["a"]


def test_the_last_micro_batches_of_the_last_queries_are_remembered(kept: MicroBatches) -> None:
    kept.take([replace(ONE, batch=batch) for batch in range(5)])
    kept.observe("q", "r", 5, "not used", lambda: None)
    # The newest may not have ended.
    assert [batch for batch in range(6) if tasks(kept, batch=batch)] == [3, 4]
    last = replace(ONE, attempt=12)
    kept.take([replace(ONE, query="second"), last, replace(ONE, query="third")])
    assert tasks(kept, query="second") == {}
    assert tasks(kept) == tasks(kept, query="third") == {"join": "1"}


@pytest.mark.long
def test_rows_of_coalesced_and_of_united_streams_are_counted(
    spark: SparkSession, feed: Feed, table: BatchTable
) -> None:
    parts = table.join(feed.stream.repartition(4)).coalesce(1)
    query = feed.run(parts.union(parts), *range(40))
    assert [cycle.rows_in for cycle in cycles(query)] == [80]  # each looks its rows up
    assert len(feed.results[0]) == 2 * table_of(spark, 1).count()


@pytest.mark.long
def test_two_actions_with_other_partitions_count_once(feed: Feed, table: BatchTable) -> None:
    """All but one partition of each micro-batch have no rows."""

    def twice(batch: DataFrame, number: int) -> None:
        batch.coalesce(1).collect()
        batch.collect()

    query = feed.call(twice, table.join(feed.stream.repartition(4, "k")))
    for key in range(2):
        feed.turn(query, key)
    assert [cycle.rows_in for cycle in cycles(query)] == [1, 1]


@pytest.mark.long
def test_a_report_without_a_micro_batch_does_not_count(feed: Feed, table: BatchTable) -> None:
    """A query that waits for data reports itself with the number of the next micro-batch."""
    query = feed.start(table.join(feed.stream))
    until(lambda: query.recentProgress, "the report of the query that waits")
    feed.turn(query, 0, 1)
    waiting = query.recentProgress[0]
    assert (waiting.batchId, waiting.numInputRows) == (0, 0)
    assert [cycle.rows_in for cycle in bsjoin.progress(query)] == [2]
    assert bsjoin.progress(waiting) == []


def name(*joins: int, mode: Literal["full", "incremental"] = "incremental") -> str:
    """What Spark calls the metrics of some joins."""
    labels = [
        JoinLabel(label=f'{join}:["k"]', mode=mode, partitioned="none", runtime="python")
        for join in joins
    ]
    return f"{FIGURES}{to_line(labels)}"


def reported(**changes: object) -> SimpleNamespace:
    """A progress of Spark."""
    given = {
        "id": "q", "runId": "r", "batchId": 3, "numInputRows": 10, "observedMetrics": {},
        "durationMs": {"addBatch": 1}, "timestamp": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    return SimpleNamespace(**{**given, **changes})


def test_a_join_that_two_branches_use_has_the_figures_of_both(
    kept: MicroBatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.metrics.progress.received", kept)
    cache = LookupMetrics(
        hits=6, negative_hits=1, misses=3, keys_queried=3, load_ms=[2.0], rows=9, bytes=99
    )
    task = JoinMetrics(lookup_ns=5_000_000, cache=[cache])
    task.count("left", rows=10, hits=7, matches=8)
    kept.take([replace(ONE, name=name(0), line=to_line([task]))])
    kept.take([replace(ONE, name=name(0, 1), attempt=12, line=to_line([task, task]))])
    both, second = bsjoin.progress(SimpleNamespace(recentProgress=[reported()]))
    assert (both.join, both.rows_in, both.hits, both.matches, both.rows_out) == (0, 20, 14, 16, 22)
    assert both.lookup_ms == 10.0
    assert (both.cache.hits, both.cache.misses, both.cache.lookups) == (12, 6, 2)
    assert both.cache.keys_queried == 6
    assert (second.join, second.rows_in, second.lookup_ms) == (1, 10, 5.0)


def test_metrics_in_another_form_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    later = f'{FIGURES}{{"v":2,"records":[]}}'
    lines = {name(0): {LINES: to_line([JoinMetrics(rows_in=4)])}}
    one = reported(observedMetrics={later: {"sums": "5"}, **lines})
    assert [cycle.rows_in for cycle in bsjoin.progress(one)] == [4]
    assert "it is of version 2" in caplog.text


def test_a_micro_batch_that_ran_twice_is_listed_twice() -> None:
    """The function of :func:`bsjoin.cycles` has a replay, or another query's, under one number."""
    runs = [
        reported(
            observedMetrics={
                name(0, mode="full"): {
                    LINES: to_line([JoinMetrics(rows_in=n, hits=n - 1, version=n)])
                }
            }
        )
        for n in (4, 5)
    ]
    found = bsjoin.progress(SimpleNamespace(recentProgress=runs))
    assert [(cycle.rows_in, cycle.hits, cycle.table_version) for cycle in found] == [
        (4, 3, 4),
        (5, 4, 5),
    ]
