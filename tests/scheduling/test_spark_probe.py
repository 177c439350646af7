"""The processes of an executor, read from a ``/proc`` made for the purpose."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from scheduling.spark import probe

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Proc:
    """A file system of processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        pid: int,
        parent: int,
        *words: str,
        name: str = "java",
        ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
        pages: int = 0,
    ) -> None:
        # proc(5): pid (comm) state ppid, 9 more, utime stime cutime cstime, 6 more, vsize, rss.
        fields = ["S", parent, *[0] * 9, *ticks, *[0] * 6, pages, 0]
        entry = self.folder / str(pid)
        entry.mkdir()
        told = f"{pid} ({name}) {' '.join(map(str, fields))}\n"
        (entry / "stat").write_bytes(told.encode("latin-1"))
        (entry / "cmdline").write_text("\0".join([*words, ""]))

    def executor(self, pid: int, parent: int, number: str, **known: object) -> None:
        words = ["java", "-cp", "x", BACKEND, "--executor-id", number, "--hostname", f"h{number}"]
        self.add(pid, parent, *words, **known)  # type: ignore[arg-type]


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    found = Proc(tmp_path)
    found.add(1, 0, "init", ticks=(9999, 0, 0, 0), pages=9999)
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB")
    (tmp_path / "self").mkdir()
    return found


def test_an_executor_is_all_processes_below_it(proc: Proc) -> None:
    proc.executor(10, 1, "4", ticks=(100, 20, 3, 4), pages=1000)
    proc.add(11, 10, "python", "-m", "pyspark.daemon", ticks=(10, 0, 0, 0), pages=10)
    proc.add(12, 11, "python", ticks=(0, 5, 0, 0), pages=1)
    proc.add(13, 11, "python", name="a b) S 1 (c", ticks=(0, 0, 0, 6), pages=2)
    proc.executor(20, 1, "5", ticks=(7777, 0, 0, 0), pages=7777)
    proc.add(21, 20, "python", ticks=(7777, 0, 0, 0), pages=7777)
    began = time.monotonic()
    found = probe.read(proc.folder, pid=12)
    assert found.executor == "4"
    assert found.cpu_s == pytest.approx((127 + 10 + 5 + 6) / TICKS)
    assert found.memory_mb == pytest.approx(1013 * PAGE_MB)
    assert began <= found.time_s <= time.monotonic()
    assert probe.read(proc.folder, pid=21).executor == "5"
    assert probe.read(proc.folder, pid=10).cpu_s == found.cpu_s


@pytest.mark.parametrize(
    "backend",
    [
        "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ],
)
def test_every_cluster_manager_s_executor_is_recognised(proc: Proc, backend: str) -> None:
    proc.add(10, 1, "java", backend, "--executor-id", "7", "--hostname", "pod_1")
    proc.add(11, 10, "python")
    assert probe.read(proc.folder, pid=11).executor == "7"


@pytest.mark.parametrize("damage", ["no executor", "no id", "no folder", "no parent", "no process"])
def test_without_an_executor_above_the_process_alone_is_read(proc: Proc, damage: str) -> None:
    proc.executor(10, 1, "4")
    proc.add(11, 1, "java", BACKEND)
    proc.add(12, {"no executor": 1, "no id": 11}.get(damage, 10), "python")
    folder = proc.folder
    if damage == "no folder":
        folder /= "none"
    elif damage == "no parent":
        (folder / "10" / "cmdline").unlink()
    elif damage == "no process":
        (folder / "12" / "stat").unlink()
        (folder / "12" / "cmdline").unlink()
    found = probe.read(folder, pid=12)
    assert found.executor is None
    assert found.memory_mb > 1 or damage == "no id"


def test_a_process_that_ends_meanwhile_is_passed_over(proc: Proc) -> None:
    proc.executor(10, 1, "4", ticks=(50, 0, 0, 0))
    proc.add(12, 10, "python", ticks=(50, 0, 0, 0))
    (proc.folder / "13").mkdir()  # its files are gone already
    (proc.folder / "14").mkdir()
    (proc.folder / "14" / "stat").write_text("14 (python) S 10")
    proc.add(15, 1, "other", name="caf\xe9")  # whatever its encoding
    assert probe.read(proc.folder, pid=12).cpu_s == pytest.approx(100 / TICKS)


def test_a_partition_gives_one_row_whatever_it_holds() -> None:
    names = [field.split()[0] for field in probe.SCHEMA.split(", ")]
    for batches in ([], [pa.record_batch({"id": pa.array([1, 2])})] * 3):
        (row,) = probe.readings(iter(batches))
        assert (row.num_rows, row.schema.names) == (1, names)
        assert row.column("executor").to_pylist() == [None]  # no executor is above this test
