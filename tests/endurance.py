"""Whether memory, open files, mappings, threads and files stay flat: ``python -m tests.endurance``.

A stream with a join with a stored table, which is refreshed, and one with a source behind a cache
that evicts, runs for many small micro-batches; then it runs while versions of a few changes are
published as fast as that goes; then queries are started and stopped. A line is fitted to what is
measured after a first part, in which caches fill and code is compiled. SIGINT ends the run early,
and so does ``--minutes``; the lines of what it has measured are printed as it runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from bsjoin import BatchTable, Incremental
from bsjoin.table import _CHANGES_UNTIL_VACUUM
from tests.sqlite_files import in_sqlite

_ROOT = Path(__file__).resolve().parent.parent
_KEYS = 200
_SHORT_LIVED = (
    "block-manager-s",
    "block-manager-a",
    "shuffle-exchang",
    "QueryStageCreat",
    "ResultQueryStag",
    "Worker Monitor",
)
"""Beginnings of the names of threads of Spark: pools that start one for each task up to a bound and
end those that were idle for a minute, and one that ends two seconds after its task."""
_RETAINED = "spark.sql.streaming.minBatchesToRetain"
_CODE = "spark.sql.codegen.cache.maxEntries"
"""The tests keep the code of 10,000 queries: that grows as long as a run lasts."""

_COUNTS = {"batches": 50_000, "changes": 10_000, "queries": 1_000}
_WARM_UP = 0.4
"""This share of the samples is left out."""
LIMITS: dict[str, tuple[float, float]] = {
    "JVM heap after a collection, MiB": (24, 0.10),
    "JVM resident memory, MiB": (64, 0.15),
    "driver's Python memory, MiB": (16, 0.10),
    "memory of the largest worker, MiB": (16, 0.15),
    "Python processes below the JVM": (2, 0.05),
    "open files": (8, 0.05),
    "mapped files": (24, 0.05),
    "threads": (8, 0.10),
    "files on disk": (12, 0.05),
}
"""By how much each figure may grow over the measured part: so much, or this share of its mean."""


@dataclass(frozen=True)
class Slope:
    """A fitted line: the mean, the growth in 1,000 steps and in all, and the most allowed."""

    mean: float
    per_1000: float
    growth: float
    limit: float

    @property
    def is_flat(self) -> bool:
        """Whether the figure stays."""
        return self.growth <= self.limit


@dataclass
class Series:
    """Figures by their names, one number for each of some steps."""

    steps: list[int] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Add a sample."""
        self.steps.append(step)
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def slopes(self) -> dict[str, Slope]:
        """The slope of each figure, without the first samples."""
        first = int(_WARM_UP * len(self.steps))
        steps = np.array(self.steps[first:], float)
        found = {}
        for name, values in self.figures.items():
            some = np.array(values[first:], float)
            slope = float(np.polyfit(steps - steps[0], some, 1)[0]) if np.ptp(steps) else 0.0
            least, share = LIMITS[name]
            limit = max(least, share * float(some.mean()))
            growth = slope * float(steps[-1] - steps[0])
            found[name] = Slope(float(some.mean()), 1000 * slope, growth, limit)
        return found


def _private_memory(process: psutil.Process) -> float:
    """Memory that a process shares with no file and no other process, in MiB."""
    memory = process.memory_info()
    return float(memory.rss - memory.shared) / 2**20


def _mapped_files(process: psutil.Process, folder: Path) -> int:
    """Mappings of tables and caches; programs and threads have their own."""
    return Path(f"/proc/{process.pid}/maps").read_bytes().count(b" " + bytes(folder))


def _threads(process: psutil.Process) -> int:
    """Threads, without those that come and go with the pace of the run."""
    count = 0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(OSError):
            count += not (thread / "comm").read_text().startswith(_SHORT_LIVED)
    return count


def _program(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return os.path.basename(process.exe())
    return ""


class Endurance:
    """The session, its tables and its streams."""

    def __init__(self, spark: SparkSession, folder: Path, tell: Callable[[str], None]):
        self.spark, self.folder, self.tell = spark, folder, tell
        self.interrupted = False
        self.own = psutil.Process()
        below = self.own.children(recursive=True)
        self.jvm = next(process for process in below if _program(process) == "java")
        self.version = 1
        self.table = BatchTable.build(self._rows(), on="k", path=folder / "table")
        script = "CREATE TABLE items (k BIGINT PRIMARY KEY, name TEXT)"
        url = in_sqlite(folder / "items.db", script, [(k, f"name {k}") for k in range(0, _KEYS, 2)])
        self.source = bsjoin.sources.sql(url, table="items")

    def _rows(self) -> DataFrame:
        return self.spark.range(_KEYS).selectExpr("id AS k", f"{self.version} AS v")

    def _start(self, checkpoint: str, every: str = "0 seconds") -> Any:
        """A query of small micro-batches over both joins."""
        stream = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 20)
            .option("numPartitions", 1)
            .load()
            .selectExpr(f"value * 7919 % {_KEYS} AS k")
        )
        cache = Incremental(max_rows=50, folder=self.folder / "cache")
        (self.folder / "cache").mkdir(exist_ok=True)
        rows = self.table.join(stream, how="left")
        rows = bsjoin.join(rows, self.source, "k", how="left", cache=cache, select=["name"])
        writer = rows.writeStream.format("noop").trigger(processingTime=every)
        # Spark keeps the logs of so many micro-batches; it reads the setting as a query starts.
        self.spark.conf.set(_RETAINED, "10")
        try:
            return writer.option("checkpointLocation", str(self.folder / checkpoint)).start()
        finally:
            self.spark.conf.unset(_RETAINED)

    def measure(self) -> dict[str, float]:
        """All figures now."""
        gc.collect()
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
        self.spark._jvm.System.gc()
        heap = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        # Spark starts workers, and ends idle ones, as it likes: of these the largest counts. What
        # the JVM starts is the JVM, with all of its memory and files, until it is another program.
        below = self.jvm.children(recursive=True)
        workers = [one for one in below if _program(one).startswith("python")]

        def of_workers(measure: Callable[[psutil.Process], float]) -> Iterator[float]:
            for one in workers:
                with suppress(psutil.Error, OSError):  # it has ended
                    yield measure(one)

        def of_all(measure: Callable[[psutil.Process], float]) -> float:
            lasting = measure(self.own) + measure(self.jvm)
            return lasting + max(of_workers(measure), default=0)

        return {
            "JVM heap after a collection, MiB": heap,
            "JVM resident memory, MiB": _private_memory(self.jvm),
            "driver's Python memory, MiB": _private_memory(self.own),
            "memory of the largest worker, MiB": max(of_workers(_private_memory), default=0),
            "Python processes below the JVM": len(workers),
            "open files": of_all(psutil.Process.num_fds),
            "mapped files": of_all(lambda process: _mapped_files(process, self.folder)),
            "threads": of_all(_threads),
            "files on disk": sum(len(files) for _, _, files in os.walk(self.folder)),
        }

    def _measured(self, what: str, goals: Sequence[int], reach: Callable[[int], int]) -> Series:
        """Reach one goal after the other, unless it is interrupted, and measure at each."""
        series, begun = Series(), time.monotonic()
        for goal in goals:
            done = reach(goal)
            if done < goal and series.steps:  # ended between two goals, as of tidied files
                break
            series.add(done, self.measure())
            rate = done / (time.monotonic() - begun)
            self.tell(f"{done} {what}, version {self.table.version}, {rate:.1f} a second")
            self.tell(told(series))  # if the rest is lost, this is not
            if self.interrupted:
                break
        return series

    def micro_batches(self, count: int, refreshes: int, samples: int = 50) -> Series:
        """Run a stream for so many micro-batches, with refreshes between them."""
        query = self._start("checkpoint")

        def reach(goal: int) -> int:
            while (done := _batches(query)) < goal and not self.interrupted:
                if self.version <= refreshes * done // count:
                    self.version += 1
                    self.table.refresh(self._rows())
                    self.table.vacuum(keep=2, older_than="1 second")
                time.sleep(0.1)
            return done

        try:
            return self._measured("micro-batches", _goals(count, samples), reach)
        finally:
            query.stop()

    def changes(self, count: int, samples: int = 150) -> Series:
        """Publish so many versions, each of a few changes, while one stream runs."""
        # The machine's time is for the changes.
        draw, query, done = np.random.default_rng(1), self._start("changed", "2 seconds"), 0

        def reach(goal: int) -> int:
            nonlocal done
            while done < goal and not self.interrupted:
                done += 1
                keys = draw.choice(2 * _KEYS, 20, replace=False).tolist()
                rows = [(key, done, "upsert" if key % 3 else "delete") for key in keys]
                changes = self.spark.createDataFrame(rows, "k long, v int, op string")
                # Calls of `apply` remove old versions, some at a time.
                self.table.apply(changes, key="k", retain="1 second")
                _batches(query)  # whether it has failed
            return done

        try:
            while not _batches(query):
                time.sleep(0.01)
            return self._measured("changes", _just_tidied(_goals(count, samples)), reach)
        finally:
            query.stop()

    def queries(self, count: int, samples: int = 20) -> Series:
        """Start and stop so many queries, each for a micro-batch."""
        done, query = 0, None

        def stop() -> None:
            if query is not None:
                query.stop()
                shutil.rmtree(self.folder / f"query-{done}")

        def reach(goal: int) -> int:
            nonlocal done, query
            while done < goal and not self.interrupted:
                stop()
                query = self._start(f"query-{done + 1}")
                done += 1
                while not _batches(query):
                    time.sleep(0.01)
            return done  # the last one has its workers while they are measured

        try:
            return self._measured("queries", _goals(count, samples), reach)
        finally:
            stop()


def _goals(count: int, samples: int) -> list[int]:
    """So many numbers up to one, or fewer."""
    return sorted({-(-count * sample // samples) for sample in range(1, samples + 1)})


def _just_tidied(goals: Sequence[int]) -> list[int]:
    """Numbers of changes near some, after which `apply` has just removed old versions."""
    every = _CHANGES_UNTIL_VACUUM
    return sorted({-(-goal // every) * every for goal in goals})


def _batches(query: Any) -> int:
    """How many micro-batches a query has finished."""
    if query.exception() is not None:
        raise query.exception()
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def told(series: Series) -> str:
    """The figures at the first, the middle and the last step, and slopes: a table in Markdown."""
    places = (0, len(series.steps) // 2, -1)
    steps = " | ".join(f"at {series.steps[place]:,}" for place in places)
    lines = [f"| figure | {steps} | mean | per 1,000 | growth | limit |", "| --- " * 8 + "|"]
    for name, s in series.slopes().items():
        seen = " | ".join(f"{series.figures[name][place]:.1f}" for place in places)
        grown = "" if s.is_flat else " **exceeded**"
        fitted = f"{s.mean:.1f} | {s.per_1000:+.3f} | {s.growth:+.2f} | {s.limit:.1f}{grown}"
        lines.append(f"| {name} | {seen} | {fitted} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all, or what is named, and print the slopes; 1 if one is not flat."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__)
    for option in ("--batches", "--changes", "--queries"):
        parser.add_argument(option, type=int, help="only what is named, so many")
    parser.add_argument("--refreshes", type=int, default=1_000, help="among the micro-batches")
    parser.add_argument("--minutes", type=float, default=0, help="at most; 0: no limit")
    given = vars(parser.parse_args(arguments))
    counts = {name: given[name] for name in _COUNTS if given[name]} or _COUNTS
    from tests import sessions

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)
    settings = dict(sessions.LONG)
    del settings[_CODE]
    spark = sessions.session("local[2]", settings)
    flat = True
    with tempfile.TemporaryDirectory(prefix="bsjoin-endurance-") as folder:
        run = Endurance(spark, Path(folder), lambda text: print(text, flush=True))

        def interrupt(*_: object) -> None:
            run.interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 60 * given["minutes"])
        for name, count in counts.items():
            if run.interrupted:
                break
            if name == "batches":
                series = run.micro_batches(count, given["refreshes"])
            else:
                series = run.changes(count) if name == "changes" else run.queries(count)
            slopes = series.slopes()
            grown = [figure for figure, slope in slopes.items() if not slope.is_flat]
            print(f"{name}: {', '.join(grown) or 'nothing'} grew over its limit\n", flush=True)
            flat &= not grown
        signal.signal(signal.SIGINT, before)
        spark.stop()
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
