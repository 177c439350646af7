"""Builds that Ctrl-C ends at any moment, by a real SIGINT to the main thread of a process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import checks_apart
import psutil
import sessions
from cache_samples import until
from pyspark.sql import DataFrame, SparkSession
from spark_samples import rows, soon

import bsjoin
from bsjoin import BatchTable, Full
from bsjoin.build import job, merging
from bsjoin.storage import versions
from tests.supervisor import is_alive

_LATE_S = 1  # a task that is not ended at once would write some runs
_TIMEOUT_S = 120

Moment = Callable[[Path], contextlib.AbstractContextManager[None]]


def table_of(spark: SparkSession, version: int, rows: int = 40) -> DataFrame:
    """A table whose tasks write a run for every ten rows, after a quarter of a second."""
    wait = "java_method('java.lang.Thread', 'sleep', if(id > 40, 25L, 0L)) IS NOT NULL"
    return spark.range(0, rows, 1, 4).where(wait).selectExpr("id AS k", f"{version} AS v")


def slow(spark: SparkSession, version: int = 1) -> DataFrame:
    """One that takes some seconds."""
    return table_of(spark, version, 400)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def when_there_is(pattern: str) -> Moment:
    """When the first new file of a name is there."""

    @contextlib.contextmanager
    def moment(store: Path) -> Iterator[None]:
        before = set(store.rglob(pattern))

        def watch() -> None:
            until = time.monotonic() + _TIMEOUT_S
            while not set(store.rglob(pattern)) - before and time.monotonic() < until:
                time.sleep(0.001)
            interrupt()

        threading.Thread(target=watch, daemon=True).start()
        yield

    return moment


during_the_tasks = when_there_is("*.run")


def at(module: Any, name: str, *, after: bool = False) -> Moment:
    """As a function begins, or has ended."""

    @contextlib.contextmanager
    def moment(_: Path) -> Iterator[None]:
        function = getattr(module, name)

        def interrupted(*given: Any, **named: Any) -> Any:
            if not after:
                threading.Thread(target=interrupt).start()
                time.sleep(0.1)
            result = function(*given, **named)
            if after:
                interrupt()
                time.sleep(0.2)
            return result

        setattr(module, name, interrupted)
        try:
            yield
        finally:
            setattr(module, name, function)

    return moment


MOMENTS: dict[str, Moment] = {
    "as it begins": at(job, "check_workers"),
    "during the tasks": during_the_tasks,
    "during the merge": when_there_is("*.arrow"),
    "as it is published": at(versions, "publish"),
    "after the publication": at(versions, "publish", after=True),
}

_EITHER = ("during the merge", "as it is published")
"""Moments at which it may be too late already."""


def left(store: Path) -> list[str]:
    """What is there, but for the versions and their files."""
    if not store.exists():
        return []
    location = BatchTable.open(store)._location if (store / "versions").exists() else None
    kept = set() if location is None else versions.data_folders(location)
    return [
        name
        for name in sorted(str(path.relative_to(store)) for path in store.rglob("*"))
        if not any(name.startswith((folder, "versions/")) for folder in kept)
        and name not in ("builds", "data", "versions")
    ]


def _expect_interrupt(call: Callable[[], Any], moment: Moment, store: Path) -> None:
    try:
        with moment(store):
            call()
            time.sleep(1)  # the signal may come a moment after the call
    except KeyboardInterrupt:
        return
    raise AssertionError("it was not interrupted")


def _check(spark: SparkSession, folder: Path, names: Iterable[str]) -> None:
    keys, store = spark.range(3, 5).withColumnRenamed("id", "k"), folder / "deep" / "table"

    def interrupted(name: str, call: Callable[[DataFrame], Any], version: int) -> None:
        rows = table_of(spark, version, 400 if name == "during the tasks" else 40)
        _expect_interrupt(lambda: call(rows), MOMENTS[name], store)
        soon(lambda: left(store), [])

    for name in names:
        interrupted(name, lambda df: BatchTable.build(df, on="k", path=store), 1)
        published = store.exists()  # whole, or not at all
        assert published == (name == "after the publication") or name in _EITHER, name
        if not published:  # the folders that were made for it are gone, too
            soon(lambda: list(folder.iterdir()), [])
        shutil.rmtree(folder / "deep", ignore_errors=True)

    table, now = BatchTable.build(table_of(spark, 2), on="k", path=store), 2
    for version, name in enumerate(names, 3):
        before = table.version
        interrupted(name, table.refresh, version)
        published = table.version > before
        assert published == (name == "after the publication") or name in _EITHER, name
        now = version if published else now
        assert rows(table.join(keys)) == [(3, now), (4, now)], name
    table.verify()
    table.refresh(table_of(spark, 99))
    assert rows(table.join(keys)) == [(3, 99), (4, 99)]
    shutil.rmtree(folder / "deep")


def a_build_in_a_script(spark: SparkSession, folder: Path) -> None:
    """Spark's own handler cancels all jobs, in the middle of what the main thread does."""
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    _check(spark, folder, MOMENTS)


def a_build_in_a_notebook(spark: SparkSession, folder: Path) -> None:
    """A notebook's handler only raises: the jobs would go on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _check(spark, folder, ["during the tasks"])
        time.sleep(_LATE_S)
        assert list(folder.rglob("*")) == []
        assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    finally:
        signal.signal(signal.SIGINT, before)


def a_join_without_a_store(spark: SparkSession, folder: Path) -> None:
    """The temporary folder of its table goes at once, not with the application."""
    tempfile.tempdir = str(folder)
    keys = spark.range(3, 5).withColumnRenamed("id", "k")
    try:
        for call in (
            lambda: bsjoin.join(keys, slow(spark), "k"),
            lambda: bsjoin.join(keys, slow(spark), "k", cache=Full(store=folder / "table")),
        ):
            _expect_interrupt(call, during_the_tasks, folder)
            soon(lambda: [path for path in folder.rglob("*") if path.is_file()], [])
            soon(lambda: list(folder.rglob("store-*")), [])
    finally:
        tempfile.tempdir = None


def what_the_session_does_next_is_right(spark: SparkSession, folder: Path) -> None:
    """No answer of the JVM stays unread, and no tag stays on the thread."""
    before = spark.getTags()
    _expect_interrupt(
        lambda: BatchTable.build(slow(spark), on="k", path=folder / "t"), during_the_tasks, folder
    )
    assert spark.getTags() == before
    assert [spark.range(n).count() for n in range(5)] == [0, 1, 2, 3, 4]
    assert spark.sparkContext.getLocalProperty("spark.job.tags") in (None, "")


def a_killed_driver_leaves_nothing_to_the_next_build(spark: SparkSession, folder: Path) -> None:
    """SIGKILL lets nobody tidy up: the next build at the path does."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "t")
    with subprocess.Popen(
        [sys.executable, __file__, "killed", str(folder / "t")], env=checks_apart.environment()
    ) as child:
        until(lambda: list(folder.rglob("*.run")), "a run", _TIMEOUT_S)
        below = psutil.Process(child.pid).children(recursive=True)
        child.kill()
    assert child.returncode == -signal.SIGKILL
    soon(lambda: list(filter(is_alive, below)), [])  # its JVM and its workers end after it
    assert left(folder / "t")
    assert table.refresh(table_of(spark, 2)) == 2
    assert left(folder / "t") == []


CHECKS = checks_apart.named(
    a_build_in_a_script,
    a_build_in_a_notebook,
    a_join_without_a_store,
    what_the_session_does_next_is_right,
    a_killed_driver_leaves_nothing_to_the_next_build,
)


def main() -> None:
    job.RUN_BYTES = merging.RUN_BYTES = 1  # small runs, merged by tasks
    settings = {**sessions.INTERPRETED, "spark.sql.execution.arrow.maxRecordsPerBatch": "10"}
    spark = sessions.session("local[2]", settings)
    if sys.argv[1:2] == ["killed"]:
        BatchTable.build(slow(spark, 9), on="k", path=sys.argv[2])
    else:
        checks_apart.run(CHECKS, spark)


if __name__ == "__main__":
    main()
