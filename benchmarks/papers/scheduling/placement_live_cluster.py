"""A standalone Spark cluster on this machine whose executors differ in price and speed.

Master and workers live in the JVM of the driver, each worker on an address of its own; their
executors are processes, whose CPU is limited
(:mod:`benchmarks.papers.scheduling.placement_live_cpu`).
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

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from benchmarks.harness.machine import ROOT, cpu_s
from benchmarks.papers.scheduling.placement_live_cpu import Shares
from scheduling import Price, Resources
from scheduling.spark import Executor
from scheduling.spark.internals import StatusStore
from tests import standalone, supervisor

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
    """An executor to be.

    Args:
        name: for the output.
        price_per_s: in $/s, of the paper's Table 4.
        share: the cores of CPU that it may use.
        slots: the tasks that it runs at a time.
    """

    name: str
    price_per_s: float
    share: float
    slots: int

    @property
    def tier(self) -> str:
        """Its kind: the name without its number."""
        return self.name.rstrip("0123456789")


NODES = tuple(
    Node(f"{tier}{number}", price, share, 4)
    for tier, price, share in (("m", 2.417e-3, 0.15), ("l", 4.861e-3, 0.30), ("x", 7.778e-3, 0.45))
    for number in (1, 2)
)
"""Two of each kind of Table 4, whose 4, 8 and 12 cores are 0.15, 0.30 and 0.45 here."""


class Cluster:
    """The cluster, its session and its executors, from the beginning of the block to its end.

    Whatever ends the block, executors, folders and groups of processes are gone after it; should
    this process be killed, the supervisor ends and removes them.

    Args:
        nodes: the executors; the n-th is on the address 127.0.0.(n + 2).
        settings: more settings of the session.
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
                tier=one.tier,
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
