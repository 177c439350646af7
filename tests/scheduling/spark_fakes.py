"""A Spark session and its executors as the live parts see them, without a JVM."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from scheduling import Assignment, JobGraph, Plan, Resources, Snapshot, Unplaced, Worker
from scheduling.spark import Executor, Loop, Pinned, Placement, internals, loop, pins
from scheduling.spark.monitor import SparkMonitor
from scheduling.spark.probe import Reading
from scheduling.spark.seen import TaskSeen


class Conf:
    """A configuration of the driver."""

    def __init__(self, **known: str) -> None:
        self.known = {name.replace("_", "."): value for name, value in known.items()}

    def get(self, name: str, default: str | None = None) -> Any:
        return self.known.get(name, default)

    def contains(self, name: str) -> bool:
        return name in self.known

    def set(self, name: str, value: str) -> None:
        self.known[name] = value

    def getTimeAsMs(self, name: str, default: str) -> int:  # noqa: N802 - Spark's name
        value = self.known.get(name, default)
        return int(value.removesuffix("s")) * 1000

    def remove(self, name: str) -> None:
        self.known.pop(name, None)


class Session:
    """A classic session: it is its own context, and the JVM behind that."""

    def __init__(self, master: str = "spark://there:7077", conf: Conf | None = None) -> None:
        self.master, self.settings = master, conf or Conf()
        self.killed: list[str] = []
        self.decommissioned: list[str] = []
        self.wanted: list[int] = []
        self._jsparkSession = self._jvm = self._jsc = self.sparkContext = self

    def schedulerBackend(self) -> Any:  # noqa: N802 - Spark's name
        return self

    def decommissionExecutor(self, executor: str, *_: Any) -> bool:  # noqa: N802 - Spark's name
        self.decommissioned.append(executor)
        return True

    def sc(self) -> Any:
        return self

    def isLocal(self) -> bool:  # noqa: N802 - Spark's name
        return self.master.startswith("local")

    @property
    def conf(self) -> Any:
        # RuntimeConfig is a property, SparkContext.conf() a method.
        return _Callable(self.settings)

    def getConf(self) -> Conf:  # noqa: N802 - Spark's name
        return self.settings

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __getattr__(self, name: str) -> MagicMock:
        """What else Spark has, on which nothing depends here."""
        return MagicMock()

    def killExecutor(self, executor: str) -> bool:  # noqa: N802 - Spark's name
        self.killed.append(executor)
        return True

    def requestTotalExecutors(self, count: int, *_: Any) -> bool:  # noqa: N802 - Spark's name
        self.wanted.append(count)
        return True


class _Callable:
    def __init__(self, conf: Conf) -> None:
        self._conf = conf

    def __call__(self) -> Conf:
        return self._conf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)


class ConnectSession:
    """A session of Spark Connect: no driver in this process."""

    def __init__(self, conf: Conf | None = None) -> None:
        self.conf = conf or Conf()


ConnectSession.__module__ = "pyspark.sql.connect.session"


def executor(name: str, host: str = "h", cores: int = 2, **known: Any) -> dict[str, Any]:
    """An executor as Spark's REST API tells it."""
    return {
        "id": name,
        "hostPort": f"{host}:4040",
        "isActive": True,
        "totalCores": cores,
        "totalDuration": 0,
        "memoryUsed": 0,
        "maxMemory": 1000,
    } | known


DRIVER = executor("driver", "d")
Cycle = tuple[float, tuple[TaskSeen, ...]]


class Cluster:
    """Executors, a clock and readings that a test sets."""

    def __init__(
        self, *executors: dict[str, Any], probe: bool = False, expected: int = 1, **options: Any
    ) -> None:
        self.executors = [DRIVER, *executors]
        self.now = 0.0
        self.readings: list[Reading] = []
        self.monitor = SparkMonitor(
            lambda: self.executors,
            1000.0,
            "join",
            expected,
            clock=lambda: self.now,
            probe=(lambda there: self.readings) if probe else None,
            **options,
        )

    def demands(self, count: int, *cycles: Cycle) -> list[Resources]:
        """What each of so many tasks demands after these cycles, and a look at the executors."""
        for one in cycles:
            self.monitor.record(*one)
        self.monitor.snapshot()
        return [task.demand for task in self.monitor.tasks(count)]

    def cores(self, count: int, *cycles: Cycle) -> list[float]:
        return [one.cpu_cores for one in self.demands(count, *cycles)]


def workers_of(found: list[dict[str, Any]], expected: int, **options: Any) -> tuple[Worker, ...]:
    """The workers that a monitor sees."""
    return Cluster(*found, expected=expected, **options).monitor.snapshot().workers


def cycle(*run_s: float, length_s: float = 1.0, executor: str = "0", rows: int = 10) -> Cycle:
    tasks = (TaskSeen(i, executor, seconds, rows) for i, seconds in enumerate(run_s))
    return length_s, tuple(tasks)


class Rows:
    """A DataFrame of which only the number of partitions counts."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def schema(self) -> str:
        return "the schema"

    def mapInArrow(self, function: Any, schema: str, profile: Any) -> tuple[Any, ...]:  # noqa: N802
        assert list(function(iter([1, 2]))) == [1, 2]
        return self, schema, profile


def plan(*workers: str | None) -> Plan:
    """Task i on the i-th worker; None leaves it out."""
    return Plan(
        tuple(Assignment(f"join-{i}", at, "test") for i, at in enumerate(workers) if at),
        tuple(Unplaced(f"join-{i}", "no room") for i, at in enumerate(workers) if not at),
        policy="test",
    )


class Planned:
    """A policy that answers what a test says."""

    name = "test"

    def __init__(self, *workers: str | None) -> None:
        self.workers = workers

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        return plan(*self.workers)


class Live:
    """A loop on executors h/0, h/1, ... that a test sets; what is pinned is noted, nothing runs."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *workers: str | None, session: Any = None, **options: Any
    ) -> None:
        self.session = session or Session()
        self.found = [executor("1"), executor("2")]
        self.pinned = list[list[Executor | None]]()
        patch.setattr(internals, "StatusStore", lambda _: self)
        patch.setattr(internals, "plan_of", lambda df: (None, None, df.count))
        patch.setattr(internals, "preferred_hosts", lambda *_: [])
        patch.setattr(pins, "pin", self._pin)
        patch.setattr(loop, "tasks_of", lambda *_: ())
        policy = Planned(*workers) if workers else None
        placement = Placement(**{"policy": policy, "probe": False, "hysteresis": 0} | options)
        self.loop = Loop(self.session, placement, partitions=len(workers) or 2)

    def _pin(self, df: Any, executors: list[Executor | None]) -> Pinned:
        self.pinned.append(executors)
        return Pinned(df, 1, tuple(executors), None)

    def executors(self) -> list[dict[str, Any]]:
        return self.found

    def memory_mb(self) -> float:
        return 1000.0

    def cycle(self, count: int) -> Any:
        """The rows of one cycle in so many partitions, as they are placed."""
        with self.loop.cycle() as cycle:
            return cycle.place(Rows(count))  # type: ignore[arg-type]
