"""``cycles(placement=, scaler=)`` in a local session: right rows and figures whatever happens.

``at_home`` lets the one executor there is, the driver, pass for a worker, so that all of the loop
runs; ``tests/scheduling/test_scheduling_live.py`` has executors.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cache_samples import Model
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin import Band, BatchTable, Hash, HotSpot, Incremental
from bsjoin.errors import ArgumentError
from scheduling import (
    LBACE,
    OERA,
    RoundRobin,
)
from scheduling import errors as theirs
from scheduling.scalers import Load
from scheduling.spark import (
    Executor,
    LeverWarning,
    Placement,
    internals,
    loop,
    monitor,
    pin,
    pins,
)

pytestmark = pytest.mark.usefixtures("interpreted")

ROWS = 600
HOME = Executor("home", "driver", 8)


class Steps:
    """A scaler that goes through numbers."""

    name = "steps"

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.loads = list(numbers), list[Load]()

    def cores(self, load: Load) -> float:
        self.loads.append(load)
        return self.numbers.pop(0) if self.numbers else load.cores


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    # Keys 0 to 59, the first ten of them twice.
    return spark.sql("SELECT id % 60 AS k, id AS q FROM range(0, 70)").localCheckpoint()


@pytest.fixture(scope="module")
def built(table: DataFrame) -> BatchTable:
    return BatchTable.build(table, on="k")


def stream(spark: SparkSession, parts: int = 3) -> DataFrame:
    """Keys 0 to 99, and every second row has key 7."""
    key = F.when(F.col("id") % 2 == 0, 7).otherwise(F.col("id") % 100).cast("long")
    return spark.range(0, ROWS, 1, parts).select(key.alias("k"), F.col("id").alias("p"))


HITS = 480  # the even rows, and the odd ones whose key is below 60


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> list[Executor]:
    """The driver is a worker; or what else a test puts here."""
    workers = [HOME]
    monkeypatch.setattr(monitor, "executors_of", lambda _: (tuple(workers), {}))
    monkeypatch.setattr(loop, "executors_of", lambda _: (tuple(workers), {}))
    monkeypatch.setattr(internals, "only_executor", lambda _: None)
    monkeypatch.setattr(loop, "Prober", lambda *_: None)
    return workers


@pytest.fixture(autouse=True)
def _nothing_is_left(spark: SparkSession) -> Iterator[None]:
    """Neither the wait nor a tag outlives a cycle."""
    yield
    assert not waits()
    assert not tags(spark)


def waits() -> bool:
    """Whether tasks wait for their executors."""
    return any(one.name == "scheduling-pins" for one in threading.enumerate())


def tags(spark: SparkSession) -> list[str]:
    """The tags of the jobs to come."""
    return list(spark.sparkContext.getJobTags())


class Ran:
    """Cycles that have run, and their rows."""

    def __init__(self, table: Any, on: Any = "k", **options: Any) -> None:
        self.rows: list[Counter[Any]] = []
        sink = options.pop("sink", lambda df, _: self.rows.append(Counter(df.collect())))
        self.cycles = bsjoin.cycles(table, on, sink=sink, **options)

    def run(self, *streams: DataFrame) -> Ran:
        for rows in streams:
            self.cycles(rows, len(self.told))
        return self

    @property
    def told(self) -> list[bsjoin.CycleProgress]:
        return bsjoin.progress(self.cycles)

    @property
    def placed(self) -> list[bsjoin.PlacementProgress]:
        return [one.placement for one in self.told if one.placement is not None]


def right(how: str = "inner") -> Counter[Any]:
    found: Counter[Any] = Counter()
    for p in range(ROWS):
        k = p % 100 if p % 2 else 7
        matches = [q for q in range(70) if q % 60 == k]
        found.update((k, p, q) for q in matches or [None] * (how == "left"))
    return found


def quietly(act: Callable[[], Any]) -> None:
    """Nothing is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act()


def test_a_local_master_warns_once_and_joins_as_ever(spark: SparkSession, table: DataFrame) -> None:
    ran = Ran(table, placement=LBACE(), partition=HotSpot(partitions=3))
    with pytest.warns(LeverWarning, match=r"placed by Spark: the master is local\[2\]") as caught:
        ran.run(stream(spark))
    assert len(caught) == 1
    quietly(lambda: ran.run(stream(spark)))
    assert ran.rows == [right()] * 2
    for one in ran.told:
        assert (one.rows_in, one.hits, one.misses) == (ROWS, HITS, ROWS - HITS)
        assert sum(one.partition.rows) == ROWS
        assert one.partition.skew is not None
        assert one.partition.hottest[0][0] == "7"
    for placed in ran.placed:
        assert (placed.partitions, placed.requested, placed.landed) == (3, 0, 0)
        assert placed.workers == (("executor driver", 3),)


def test_a_plan_is_requested_and_observed(
    spark: SparkSession, built: BatchTable, at_home: list[Executor]
) -> None:
    seen: list[bool] = []

    def sink(df: DataFrame, _: int) -> None:
        ran.rows.append(Counter(df.collect()))
        seen.append(waits())

    ran = Ran(built, placement=LBACE(), partition=Hash(3), sink=sink)
    assert ran.cycles.explain() == "placement: no cycle has run yet"
    ran.run(stream(spark), stream(spark))
    assert ran.rows == [right()] * 2
    told = ran.cycles.explain()
    assert told.startswith("policy: lba-ce, asked in every cycle")
    assert "kept: lba-ce's answer " in told
    assert seen == [True] * 2
    first, second = ran.placed
    assert (first.action, first.reason) == ("place", "the first plan")
    assert second.action == "none"
    assert second.reason.startswith("kept: lba-ce's answer ")
    for placed in (first, second):
        assert (placed.partitions, placed.requested, placed.landed) == (3, 3, 3)
        assert placed.workers == (("home/driver", 3),)
    assert [one.hits for one in ran.told] == [HITS] * 2
    dry = Placement(policy=LBACE(), dry_run=True)
    unpinned = Ran(built, placement=dry, partition=Hash(3)).run(stream(spark))
    assert unpinned.rows == [right()]
    assert [(one.requested, one.landed) for one in unpinned.placed] == [(0, 0)]


def test_joins_of_keys_and_of_ranges_are_placed(
    spark: SparkSession, table: DataFrame, at_home: list[Executor]
) -> None:
    ran = Ran(table, how="left", placement=RoundRobin()).run(stream(spark))
    assert ran.rows == [right("left")]
    (one,) = ran.told
    assert (one.rows_in, one.hits, one.rows_out) == (ROWS, HITS, ran.rows[0].total())
    # There are no partitions to choose: the plan is made for those that came.
    (placed,) = ran.placed
    assert (placed.action, placed.reason) == ("place", "join has 3")
    assert (placed.partitions, placed.landed) == (3, 3)
    near = Band("p", "q", 1, 1)
    ranged = Ran(table.select("q"), [], when=near, how="anti", placement=RoundRobin())
    ranged.run(stream(spark))
    (one,) = ranged.told
    assert (one.rows_in, one.hits) == (ROWS, 71)  # p up to 70 is near some q
    assert ranged.rows[0].total() == ROWS - 71
    assert ranged.placed[0].landed == 3


@pytest.mark.long
def test_what_a_host_has_cached_is_known(
    spark: SparkSession,
    built: BatchTable,
    table: DataFrame,
    at_home: list[Executor],
    tmp_path: Path,
) -> None:
    def cached(ran: Ran, partitions: int) -> list[float]:
        """The bytes of each partition on the one host that there is."""
        tasks = ran.cycles._placing.loop.monitor.tasks(partitions)
        assert {*HOME.host} == {*"".join(host for one in tasks for host in one.cached)}
        return [one.cached[HOME.host] for one in tasks]

    whole = Ran(built, placement=RoundRobin(), partition=Hash(3)).run(stream(spark))
    assert cached(whole, 3) == [pytest.approx(built.stats().bytes / 3)] * 3
    source = Model(tmp_path / "source", table.toArrow())
    options: dict[str, Any] = {"cache": Incremental(max_rows=1000), "placement": RoundRobin()}
    ran = Ran(source, partition=HotSpot(partitions=2), **options)
    ran.run(stream(spark), stream(spark))
    assert ran.rows == [right()] * 2
    assert [(one.mode, one.hits) for one in ran.told] == [("incremental", HITS)] * 2
    assert [placed.landed for placed in ran.placed] == [2, 2]
    assert set(source.times.values()) == {1}
    held = [one.cache.bytes for one in ran.told if one.cache is not None][-1]
    assert sum(cached(ran, 2)) == pytest.approx(held)
    assert min(cached(ran, 2)) > 0
    # Rows that stay in the stream's partitions bring any key: the entries serve all of them.
    any_key = Ran(source, **options).run(stream(spark))
    cache = any_key.told[0].cache
    assert cached(any_key, 3) == [pytest.approx(cache.bytes / 3)] * 3


@pytest.mark.long
def test_a_scaler_alone_changes_the_number_of_partitions(
    spark: SparkSession, built: BatchTable
) -> None:
    seen: list[int] = []

    def sink(df: DataFrame, _: int) -> None:
        seen.append(internals.plan_of(df)[2])
        ran.rows.append(Counter(df.collect()))

    steps = Steps(4, 9)
    at_once = Placement(cooldown_s=0.0, partitions=(1, 5))
    ran = Ran(built, partition=HotSpot(partitions=3), sink=sink, scaler=steps, placement=at_once)
    # No placement was requested, so there is no warning.
    quietly(lambda: ran.run(*[stream(spark)] * 6))
    assert ran.rows == [right()] * 6
    # Two cycles are a load; what has changed is observed before the next change; 5 is the most.
    sizes = [3, 3, 4, 4, 5, 5]
    assert seen == sizes
    assert [placed.partitions for placed in ran.placed] == sizes
    assert ran.placed[0].reason.endswith("; steps: nothing measured")
    assert ran.placed[2].reason == "join has 4; steps: more is needed"
    assert [load.cores for load in steps.loads][:2] == [3, 4]
    assert all(load.arrival and load.arrival > 0 for load in steps.loads)
    # The rule of a hotspot goes over to another number, made from the samples before.
    partitions = [one.partition for one in ran.told]
    assert [len(one.rows) for one in partitions] == sizes
    assert all(sum(one.rows) == ROWS for one in partitions)
    versions = [one.rule_version or 0 for one in partitions]
    assert versions == sorted(versions)
    assert len(set(versions)) >= 3  # one for each number
    assert partitions[-1].skew < 0.1


# What the sink does


@pytest.mark.long
def test_what_did_not_run_did_not_run_elsewhere(
    spark: SparkSession,
    built: BatchTable,
    at_home: list[Executor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A sink that does nothing is waited for.
    monkeypatch.setattr("bsjoin.metrics.observing._WAIT_S", 0.1)
    sinks = iter([lambda df: df.take(1), lambda df: None])
    ran = Ran(built, sink=lambda df, _: next(sinks)(df), placement=RoundRobin())
    for ran_there in (1, 0):
        ran.run(stream(spark))
        found = ran.cycles._placing.loop
        assert (len(found.last.requested), len(found.last.landed)) == (3, ran_there)
        assert found.controller.failed == frozenset()
        assert found.controller.plan.unplaced == ()


def test_an_error_of_the_sink_passes_and_the_next_cycle_is_as_ever(
    spark: SparkSession, built: BatchTable, at_home: list[Executor]
) -> None:
    failing = [True]

    def sink(df: DataFrame, _: int) -> None:
        ran.rows.append(Counter(df.collect()))
        assert waits()
        if failing.pop():
            failing.append(False)
            raise KeyError("the sink")

    ran = Ran(built, placement=RoundRobin(), partition=Hash(2), sink=sink)
    with pytest.raises(KeyError, match="the sink"):
        ran.run(stream(spark))
    assert not waits()
    assert not tags(spark)
    assert ran.told == []
    ran.run(stream(spark))
    assert ran.rows == [right()] * 2
    assert ran.placed[0].landed == 2


def test_a_micro_batch_without_rows(
    spark: SparkSession, built: BatchTable, at_home: list[Executor], caplog: Any
) -> None:
    nothing = spark.sparkContext.emptyRDD()
    empty = spark.createDataFrame(nothing, "k long, p long")
    assert internals.plan_of(empty)[2] == 0
    with caplog.at_level(logging.WARNING, "scheduling"):
        ran = Ran(built, placement=RoundRobin()).run(empty, stream(spark))
        routed = Ran(built, placement=RoundRobin(), partition=Hash(2)).run(empty)
    assert ran.rows == [Counter(), right()]
    assert routed.rows == [Counter()]
    assert caplog.text == ""


# What fails


@pytest.mark.parametrize(
    "what", ["policy", *(pytest.param(one, marks=pytest.mark.long) for one in ("observed", "pins"))]
)
def test_what_fails_is_logged_and_the_cycle_goes_on(
    spark: SparkSession,
    built: BatchTable,
    at_home: list[Executor],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise OSError("nothing works")

    patches: dict[str, tuple[Any, str]] = {
        "policy": (RoundRobin, "plan"),
        "observed": (pins.Pinned, "observed"),
        "pins": (pins, "pin"),
    }
    monkeypatch.setattr(*patches[what], fails)
    ran = Ran(built, placement=RoundRobin(), partition=Hash(2))
    with caplog.at_level(logging.WARNING, "scheduling"):
        ran.run(stream(spark))
    assert "nothing works" in caplog.text
    assert ran.rows == [right()]
    assert [one.hits for one in ran.told] == [HITS]
    (placed,) = ran.placed
    if what == "policy":
        assert (placed.action, placed.reason) == ("failed", "see the log of scheduling")
        assert placed.requested == 0
    else:
        assert placed.landed == (2 if what == "observed" else None)


# Pins and the loop by themselves


def test_pinned_rows_are_the_same_in_the_same_partitions(spark: SparkSession) -> None:
    rows = stream(spark).repartition(3, "k").observe("seen", F.count("*").alias("n"))
    laid = rows.withColumn("at", F.spark_partition_id())
    pinned = pin(laid, [None] * 3)
    assert pinned.observed().get("seen", {}).get("n") in (None, 0)  # nothing has run
    where = F.spark_partition_id().alias("now")
    found = pinned.df.select("*", where).collect()
    assert all(row["at"] == row["now"] for row in found)
    assert Counter((row["k"], row["p"]) for row in found) == Counter(
        map(tuple, stream(spark).collect())
    )
    assert pinned.df.schema == laid.schema
    assert pinned.observed() == {"seen": {"n": ROWS}}
    with pytest.raises(theirs.ArgumentError, match="3 partitions, and executors for 2"):
        pin(laid, [None] * 2)


def test_what_is_no_policy_or_no_scaler_is_refused(table: DataFrame) -> None:
    for option, value in (
        ("placement", "lba"),
        ("placement", LBACE),
        ("placement", OERA()),
        ("scaler", 3),
        ("scaler", OERA),
        ("scaler", LBACE()),
    ):
        with pytest.raises(ArgumentError, match=f"{option}=.*: give a"):
            bsjoin.cycles(table, "k", sink=print, **{option: value})


def test_a_scaler_that_has_nothing_to_choose_is_refused(table: DataFrame) -> None:
    cycles: Any = partial(bsjoin.cycles, table, "k", sink=print, scaler=OERA())
    for placement in (None, RoundRobin(), Placement(policy=RoundRobin())):
        with pytest.raises(ArgumentError, match="and the rows are sent to none"):
            cycles(placement=placement)
    cycles(placement=Placement(executors=(1, 2)))
    cycles(partition=Hash(2))
