"""The CPU time and memory of executors: of the JVM, the Python workers, and their children.

A Python worker is a child of its executor's JVM: it walks up to that, and adds up all below it.
Spark's own figures know the JVM's share only, and only while tasks run.
"""

import contextlib
import dataclasses
import itertools
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from scheduling.protocols import Clock
from scheduling.spark import pins
from scheduling.spark.once import Once
from scheduling.spark.seen import Executor

SCHEMA = "executor string, time_s double, cpu_s double, memory_mb double"
# Standalone's; YARN's ends with the same; that of Kubernetes.
_BACKENDS = ("CoarseGrainedExecutorBackend", "KubernetesExecutorBackend")
_EVERY_S = 5.0
_AT_FIRST_S = 0.5  # until there are two readings, of which nothing can be told before
_WAIT_S = 1.0


@dataclasses.dataclass(frozen=True)
class Reading:
    """The usage of an executor's processes at one moment."""

    executor: str | None  # Spark's id; None if unknown
    time_s: float  # of its host's monotonic clock
    cpu_s: float  # since the executor started
    memory_mb: float  # resident; shared pages count for each process


def read(proc: Path = Path("/proc"), pid: int | None = None) -> Reading:
    """Read the executor that this process, or ``pid``, belongs to. O(processes of the host).

    Where there is no ``/proc``, or no executor above (a local master), the process alone is read.
    """
    now = time.monotonic()
    with contextlib.suppress(OSError, ValueError):
        found = _processes(proc)
        for top in _upwards(found, os.getpid() if pid is None else pid):
            words = (proc / str(top) / "cmdline").read_text(errors="replace").split("\0")
            if any(word.endswith(_BACKENDS) for word in words):
                below = [used for one, used in found.items() if top in _upwards(found, one)]
                cpu_s = sum(used[1] for used in below) / os.sysconf("SC_CLK_TCK")
                memory_mb = sum(used[2] for used in below) * os.sysconf("SC_PAGE_SIZE") / 2**20
                executor = dict(itertools.pairwise(words)).get("--executor-id")
                return Reading(executor, now, cpu_s, memory_mb)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return Reading(None, now, own.ru_utime + own.ru_stime, own.ru_maxrss / 1024)


def readings(batches: Iterable[Any]) -> Iterator[Any]:
    """For ``mapInArrow``: one row a partition, of the executor that runs it (:data:`SCHEMA`)."""
    import pyarrow as pa

    list(batches)
    schema = pa.schema([tuple(field.split()) for field in SCHEMA.split(", ")])
    yield pa.RecordBatch.from_pylist([dataclasses.asdict(read())], schema)


def _processes(proc: Path) -> dict[int, tuple[int, int, int]]:
    """Of every process its parent, CPU ticks (children that ended included) and pages."""
    found = {}
    for entry in proc.iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):  # no process, or it has ended
            # The name in brackets may hold anything; what counts comes after it.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks, pages = sum(map(int, fields[11:15])), int(fields[21])
            found[int(entry.name)] = int(fields[1]), ticks, pages
    return found


def _upwards(found: Mapping[int, tuple[int, int, int]], pid: int) -> Iterator[int]:
    """A process, its parent, and so on."""
    for _ in found:
        if pid <= 1:
            return
        yield pid
        pid = found[pid][0] if pid in found else 0


class Prober:
    """Reads every executor's processes by a job of small tasks; a failure is logged once."""

    def __init__(self, spark: SparkSession, clock: Clock) -> None:
        self._spark, self._clock = spark, clock
        self._read_s, self._count, self._once = -_EVERY_S, 0, Once()
        self._readings: Sequence[Reading] = ()

    def __call__(self, there: Sequence[Executor]) -> Sequence[Reading]:
        """The last readings, or new ones if these are 5 s old, or the first."""
        now = self._clock()
        every_s = _AT_FIRST_S if self._count == 1 else _EVERY_S
        if now - self._read_s < every_s or not there:
            return self._readings
        self._read_s, self._readings = now, ()
        try:
            pinned = pins.pin(self._spark.range(0, len(there), 1, len(there)), there)
            with pins.waiting(self._spark, pinned, _WAIT_S):
                rows = pinned.df.mapInArrow(readings, SCHEMA).collect()
            self._readings = [Reading(*row) for row in rows]
            self._count += 1
        except Exception as error:
            self._once.log("the executors' processes cannot be read", error)
        return self._readings
