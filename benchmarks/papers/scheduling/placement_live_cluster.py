"""A standalone Spark cluster on this machine whose executors differ in price and speed.

Master and workers live in the JVM of the driver, each worker on an address of its own; their
executors are processes, whose CPU is limited by cgroups, of both versions, where these can be
written. Elsewhere executors differ by the number of tasks that they run at a time only;
:attr:`Shares.how` says which it was.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from benchmarks.harness.machine import ROOT, cpu_s, tree
from scheduling import Price, Resources
from scheduling.spark import Executor
from scheduling.spark.internals import StatusStore
from tests import standalone, supervisor

_PREFIX = "bsjoin_live_"
_PERIOD_US = 50_000  # short, so that a small share is no pause of a tenth of a second
_LEFT_S = 10.0  # until a group is empty


class Shares:
    """CPU shares of named groups of processes.

    A context manager: groups are made when they are first used, and removed at the end. Those of
    runs that were killed are removed at the beginning.
    """

    def __init__(self) -> None:
        self._top, self._version = None, 0  # type: Path | None, int
        self._made: dict[str, Path] = {}
        root = Path("/sys/fs/cgroup")
        for version, top, file in ((1, root / "cpu", "cpu.cfs_quota_us"), (2, root, "cpu.max")):
            trial = top / f"{_PREFIX}{os.getpid()}_trial"  # a group is made to see it
            with contextlib.suppress(OSError):
                trial.mkdir()
                if all(os.access(trial / name, os.W_OK) for name in (file, "cgroup.procs")):
                    self._top, self._version = top, version
                trial.rmdir()
            if self._top is not None:
                break
        for group in self._top.glob(f"{_PREFIX}*") if self._top else ():
            run = group.name.removeprefix(_PREFIX).partition("_")[0]
            if run.isdigit() and not psutil.pid_exists(int(run)):
                _remove(group)

    @property
    def enforced(self) -> bool:
        """Whether shares are limits that the kernel enforces."""
        return self._top is not None

    @property
    def how(self) -> str:
        """What makes executors fast and slow, for the output."""
        if self.enforced:
            return f"by CPU quotas of cgroups (version {self._version})"
        return (
            "by the number of tasks that an executor runs at a time; no cgroup of this machine "
            "can be written, so the shares of CPU are a model"
        )

    def add(self, name: str, pid: int) -> None:
        """Put a process and all its children into a group; later children inherit it."""
        if self._top is None:
            return
        if name not in self._made:
            self._made[name] = self._top / f"{_PREFIX}{os.getpid()}_{name}"
            self._made[name].mkdir(exist_ok=True)
        for one in tree(pid):
            with contextlib.suppress(OSError):
                (self._made[name] / "cgroup.procs").write_text(str(one.pid))

    def limit(self, shares: Mapping[str, float]) -> None:
        """Set the cores that each group may use at most; groups that are left out may use all."""
        for name, group in self._made.items():
            quota = round(shares[name] * _PERIOD_US) if name in shares else None
            if self._version == 2:
                told = "max" if quota is None else quota
                (group / "cpu.max").write_text(f"{told} {_PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def __enter__(self) -> Shares:
        return self

    def __exit__(self, *_: object) -> None:
        self.limit({})  # what is still there ends sooner
        for group in self._made.values():
            _remove(group, _LEFT_S)
        self._made.clear()


def _remove(group: Path, patience_s: float = 0.0) -> None:
    """Remove a group; what is left in it after some seconds belongs to its parent again."""
    until = time.monotonic() + patience_s
    while group.is_dir():
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        if time.monotonic() >= until:
            break
        time.sleep(0.1)
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


MEMORY_MB = 512
_PATIENCE_S = 120.0
_JVM = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:CICompilerCount=1 "
    "-XX:ActiveProcessorCount=1"
)
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": f"{MEMORY_MB}m",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "6",
    # Its coalescing changes the number of tasks of a stage from cycle to cycle.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2000",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.decommission.enabled": "true",
    "spark.dynamicAllocation.enabled": "false",  # what a session before this one has set stays
}


@dataclass(frozen=True)
class Node:
    """An executor to be: its price in $/s, cores of CPU that it may use, and tasks at a time."""

    name: str
    price_per_s: float
    share: float
    slots: int


NODES = tuple(
    Node(f"{tier}{number}", price, share, 4)
    for tier, price, share in (("m", 2.417e-3, 0.15), ("l", 4.861e-3, 0.30), ("x", 7.778e-3, 0.45))
    for number in (1, 2)
)
"""Two of each kind of Table 4, whose 4, 8 and 12 cores are 0.15, 0.30 and 0.45 here."""


class Cluster:
    """The cluster, its session and its executors, from the beginning of the block to its end.

    Whatever ends the block, executors, folders and groups of processes are gone after it; should
    this process be killed, the supervisor ends and removes them. The n-th of the ``nodes`` is on
    the address 127.0.0.(n + 2); ``settings`` are more settings of the session.
    """

    def __init__(self, nodes: Sequence[Node], settings: Mapping[str, str] | None = None) -> None:
        self.shares = Shares()
        if not self.shares.enforced:  # then an executor is as fast as it has slots
            least = min(node.share for node in nodes)
            nodes = [
                Node(one.name, one.price_per_s, one.share, max(1, round(one.share / least)))
                for one in nodes
            ]
        self.nodes = tuple(nodes)
        self.executors: dict[str, Executor] = {}
        """By name of the node, while there are all."""
        self._settings = {**_SETTINGS, **(settings or {})}
        self._pids: dict[str, int] = {}
        self._by_host = {f"127.0.0.{k + 2}": node.name for k, node in enumerate(self.nodes)}
        self._stack = ExitStack()

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            self.folder = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(
                        prefix="placement-live-", ignore_cleanup_errors=True
                    )
                )
            )
            supervisor.watch(self.folder)  # a JVM that ends may still write to it
            stack.enter_context(self.shares)
            self.spark = self._session()
            stack.callback(self._stop)
            self._meet()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def node_of(self, host: str) -> str:
        """The name of the node on an address, or ``host/executor``."""
        host = host.partition("/")[0]
        return self._by_host.get(host, host)

    def limit(self, shares: Mapping[str, float] | None = None) -> None:
        """Limit the executors to cores of CPU by node; None takes the limits away."""
        self.shares.limit(shares or {})

    def used_s(self) -> dict[str, float]:
        """The CPU seconds of each node's executor until now, Python workers included."""
        return {name: cpu_s(pid) for name, pid in self._pids.items()}

    def prices(self, nodes: Sequence[Node] | None = None) -> list[Price]:
        """The price table of the nodes, with the cores and slots that they have."""
        host = {name: host for host, name in self._by_host.items()}
        return [
            Price(
                host[one.name],
                one.price_per_s,
                slots=one.slots,
                tier=one.name.rstrip("0123456789"),
                capacity=Resources(one.share, MEMORY_MB),
            )
            for one in nodes or self.nodes
        ]

    def _session(self) -> SparkSession:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
        settings = {
            **self._settings,
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.local.dir": str(self.folder / "local"),
        }
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
        workers = self.folder / "workers"
        workers.mkdir()
        slots = [node.slots for node in self.nodes]
        master = standalone.start(SparkContext._gateway, workers, slots, [""] * len(slots))
        builder: Any = SparkSession.builder
        spark: SparkSession = builder.master(master).config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        return spark

    def _meet(self) -> None:
        """Wait for all executors, and put each into a group of its own."""
        status, until = StatusStore(self.spark), time.monotonic() + _PATIENCE_S
        while len(self.executors) < len(self.nodes):
            if time.monotonic() > until:
                raise RuntimeError(
                    f"of {len(self.nodes)} executors {len(self.executors)} have come in "
                    f"{_PATIENCE_S:g} s"
                )
            time.sleep(0.2)
            for one in status.executors():
                host = one["hostPort"].rpartition(":")[0]
                if one["isActive"] and one["id"] != "driver" and host in self._by_host:
                    self.executors[self._by_host[host]] = Executor(host, one["id"])
        for name, executor in self.executors.items():
            self._pids[name] = standalone.process_of(self.spark, executor.host)
            self.shares.add(name, self._pids[name])

    def _stop(self) -> None:
        self.limit(None)
        with contextlib.suppress(Exception):  # a driver that is killed has stopped, too
            self.spark.stop()
