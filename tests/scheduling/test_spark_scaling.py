"""What Spark's own progress tells, against sources whose truth is known; and scaling beside it."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cache_samples import until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from spark_fakes import Conf, Session, executor

from scheduling import Price, errors
from scheduling.elastic import Bounds
from scheduling.flow import flow
from scheduling.scalers import DS2, Load
from scheduling.spark import internals
from scheduling.spark.executors import Executors
from scheduling.spark.internals import limits_of, widest_stage
from scheduling.spark.once import LeverWarning
from scheduling.spark.scaling import Scaling
from scheduling.spark.seen import Executor

pytestmark = pytest.mark.usefixtures("without_code")


def begun(rows: DataFrame, folder: Path) -> StreamingQuery:
    options = {"checkpointLocation": str(folder / "checkpoint")}
    return rows.writeStream.format("noop").options(**options).start()


def write(spark: SparkSession, folder: Path, rows: int) -> None:
    spark.range(rows).coalesce(1).write.mode("append").parquet(str(folder / "in"))


def test_files_are_hidden_by_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, tmp_path, 10)
    folder = str(tmp_path / "in")
    limited = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(folder)
    every = spark.readStream.schema("id long").parquet(folder)
    query = begun(limited.union(every).repartition(3), tmp_path)
    query.processAllAvailable()
    for rows in (100, 200):
        write(spark, tmp_path, rows)
        query.processAllAvailable()
    limits = limits_of(query)
    assert limits == (0.0, None)
    assert widest_stage(spark, query) == 3
    progress = [json.loads(one.json) for one in query.recentProgress if one.numInputRows > 0]
    found = flow(progress[0], progress[1:], limits)
    assert found.done == 600
    assert (found.arrived, found.waiting) == (None, None)
    unlimited = flow(progress[0], progress[1:], limits[1:])
    assert unlimited.arrived == 600


def test_the_limit_of_a_source_in_python_is_read_from_its_json() -> None:
    def limit(kind: str, **told: Any) -> Any:
        named = SimpleNamespace(getSimpleName=lambda: kind)
        return SimpleNamespace(getClass=lambda: named, json=lambda: json.dumps(told))

    python = "PythonStreamingSourceReadLimit"
    for one, rows in (
        (limit(python, _type="ReadMaxRows", max_rows=150), 150.0),
        (limit(python, _type="ReadAllAvailable"), None),
        (limit(python, _type="ReadMaxFiles", max_files=3), 0.0),
        (limit("ReadMaxFiles"), 0.0),
    ):
        assert internals._rows(one) == rows


class Fleet:
    """Executors of a cluster that gives what is requested at once."""

    reason = None
    refuses = False

    def __init__(self, count: int) -> None:
        self.count, self.asked, self.fails = count, [], 0

    def there(self) -> list[Executor]:
        if self.fails:
            self.fails -= 1
            raise OSError("the status is away")
        return [Executor("host", str(k), 2) for k in range(self.count)]

    def busy_s(self, there: Any) -> float:
        return 1.0

    def resize(self, target: int, prices: Any) -> tuple[str, ...]:
        if self.refuses:
            raise OSError("no answer")
        self.asked.append(target)
        self.count = target
        return ()


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    return begun(rows, tmp_path)


def scaling(query: StreamingQuery, count: int, **more: Any) -> tuple[Scaling, Fleet]:
    soon = Bounds(confirm=1, settle_s=0.0, shrink_after_s=0.0)
    fleet = Fleet(count)
    made = Scaling(query, DS2(), **{"executors": (1, 8), "bounds": soon, "every_s": 0.1, **more})
    made.executors = fleet  # type: ignore[assignment]
    return made, fleet


def test_a_step_requests_executors_by_the_cores_that_are_needed(query: StreamingQuery) -> None:
    made, fleet = scaling(query, 1, tasks=16)
    load = Load(10, 2500, 500, 1.0, 0, cores=2)
    assert made.step(0.0, load).target == 4  # 7.1 cores: 16 tasks in 2 turns on 8, which are 4
    assert fleet.asked == [4]
    assert "4 are there" in made.step(1.0, load).reason
    assert "ds2" in made.explain()
    assert "executors of 2 cores, tasks: 16" in made.explain()
    failing, fleet = scaling(query, 1, tasks=16)
    fleet.refuses = True
    with pytest.raises(OSError, match="no answer"):
        failing.step(0.0, load)
    fleet.refuses = False
    assert failing.step(1.0, load).target == 4  # it is requested again
    assert fleet.asked == [4]


def test_the_thread_measures_and_ends_with_the_query(
    query: StreamingQuery, caplog: pytest.LogCaptureFixture
) -> None:
    made, fleet = scaling(query, 3)
    fleet.fails = 3
    with caplog.at_level(logging.WARNING, "scheduling"), made:
        until(lambda: made.load is not None, "a load", 120)
        query.stop()
        made._thread.join(60)
        assert not made._thread.is_alive()
    assert query.exception() is None
    assert [one.getMessage() for one in caplog.records].count(
        "scheduling: a step of scaling failed: the status is away"
    ) == 1
    assert made.load.arrival is not None


def test_a_local_master_is_told_and_nothing_is_requested(
    spark: SparkSession, query: StreamingQuery
) -> None:
    made = Scaling(query, DS2(), executors=(1, 4))
    with pytest.warns(LeverWarning, match="there is one executor, the driver"):
        assert "not scaled" in made.step(0.0).reason
    made.step(1.0)
    assert "not scaled" in made.explain()
    with pytest.raises(errors.ActuatorError, match="one executor, the driver"):
        Executors(spark).resize(2)
    assert Executors(spark).there() == ()
    remote = type("StreamingQuery", (), {"__module__": "pyspark.sql.connect.streaming.query"})()
    with pytest.raises(errors.ArgumentError, match="Spark Connect"):
        Scaling(remote, DS2(), executors=(1, 4))
    for executors in ((4, 1), (0, 2), 3, None):
        with pytest.raises(errors.ArgumentError, match="executors="):
            Scaling(query, DS2(), executors=executors)  # type: ignore[arg-type]
    for wrong in ({"prices": "none.yaml"}, {"prices": [1.0]}, {"backlog": 3}):
        with pytest.raises(errors.ArgumentError, match=rf"none\.yaml: cannot|{min(wrong)}="):
            Scaling(query, DS2(), executors=(1, 2), **wrong)  # type: ignore[arg-type]
    for scaler in (DS2, "ds2", None):
        with pytest.raises(errors.ArgumentError, match="scaler="):
            Scaling(query, scaler, executors=(1, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("gently", [True, False])
def test_the_dearest_leave_first_then_idle_ones_then_the_youngest(
    monkeypatch: pytest.MonkeyPatch, gently: bool
) -> None:
    named = [("driver", 0, 0), ("0", 2, 1), ("1", 3, 0), ("2", 3, 1), ("10", 3, 0)]
    found = [
        executor(name, f"127.0.0.{host}", 1, totalDuration=1000, activeTasks=running)
        for name, host, running in named
    ]
    status = SimpleNamespace(executors=lambda: found)
    monkeypatch.setattr("scheduling.spark.internals.StatusStore", lambda _: status)
    session = Session(conf=Conf(spark_decommission_enabled=str(gently).lower()))
    executors = Executors(session)  # type: ignore[arg-type]
    there = executors.there()
    assert [executors.busy_s(there), executors.busy_s(there)] == [4.0, 0.0]  # since the last look
    # One that a look has missed, or whose time it did not know, has not run it all again.
    odd = replace(there[1], run_s=math.nan)
    looks = there[:1], there, (there[0], odd), there
    assert [executors.busy_s(one) for one in looks] == [0.0] * 4
    left, other = session.killed, session.decommissioned
    if gently:
        left, other = other, left
    prices = [Price("127.0.0.2", 1.0), Price("*", 2.0)]
    assert executors.reason is None
    assert executors.resize(2, prices) == ("10", "1")
    assert (left, other, session.wanted) == (["10", "1"], [], [2])
    # Those that are leaving are there until they are gone, and are not asked twice.
    assert executors.resize(1, prices) == ("10", "1", "2")
    assert (left, other, session.wanted) == (["10", "1", "2"], [], [2, 1])
    assert executors.resize(6, prices) == ()
    assert session.wanted[-1] == 6
    # Spark counts one that it has excluded, which runs nothing.
    found.append(executor("11", isExcluded=True))
    assert executors.resize(6, prices) == ()
    executors.release(["0"])
    assert session.wanted[-2:] == [7, 1]
