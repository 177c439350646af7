"""Runs benchmarks one after the other in child processes, and prints progress.

A benchmark that crashes, or whose JVM runs out of memory, loses only its own record. A full run
uses a process per benchmark. Quick ones share one process and its Spark session until one fails:
starting Spark and compiling its code takes longer than many of them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pkgutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from benchmarks import charts
from benchmarks.harness import records
from benchmarks.harness.machine import commit
from benchmarks.harness.outcome import Benchmark, Context, Outcome
from benchmarks.harness.records import Record
from benchmarks.harness.text import duration, table_lines, verdict

_GRACE_S = 15.0  # for a process to end after SIGTERM


@dataclass(frozen=True)
class Task:
    """A benchmark to run; ``code`` is the state of the code, see :func:`commit`."""

    benchmark: Benchmark
    quick: bool
    seed: int
    out: Path
    code: str | None

    @property
    def file(self) -> Path:
        """The file of its record."""
        return records.record_file(self.out, self.quick, self.benchmark.name)

    def write(self, seconds: float, outcome: Outcome | None, error: str | None) -> None:
        """Write its record."""
        found = records.build(
            self.benchmark, quick=self.quick, seed=self.seed, out=self.out, code=self.code,
            seconds=seconds, outcome=outcome, error=error,
        )  # fmt: skip
        records.write(self.file, found)


def run_all(
    listed: Sequence[Benchmark],
    *,
    quick: bool,
    seed: int,
    out: Path,
    again: bool = False,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run benchmarks, except those that already have a record of the same run.

    Returns:
        The record of each; of a failed one it has an ``error``.

    Raises:
        KeyboardInterrupt: by Ctrl-C or SIGTERM, after the running benchmark has been stopped.
            Earlier records are kept, that of the stopped benchmark too.
        RecordError: an existing record was written by a newer program.
    """
    code = commit()
    kept = {one.name: records.written(out, quick, one.name) for one in listed}
    due = [one for one in listed if again or not records.repeats(kept[one.name], quick, seed, code)]
    expected = {one.name: _expected_s(one, kept[one.name], quick) for one in due}
    found: list[Record] = []
    begun, done = time.monotonic(), 0
    with _interrupt_on_sigterm(), contextlib.closing(_Runner()) as runner:
        for number, one in enumerate(listed, start=1):
            head = f"[{number}/{len(listed)}] {one.name}"
            record = kept[one.name]
            if one not in due and record is not None:
                say(f"{head}: has a record of {record['when']}; --again runs it anew")
                found.append(record)
                continue
            left = [expected[other.name] for other in due[done:]]
            notes = [] if left[0] is None else [f"about {duration(left[0])}"]
            if done:
                notes.append(f"{duration(time.monotonic() - begun)} so far")
            if len(left) > 1 and None not in left:
                notes.append(f"about {duration(sum(filter(None, left)))} to the end")
            say(f"{head}: {one.title}" + (f" ({', '.join(notes)})" if notes else ""))
            record = runner.run(Task(one, quick, seed, out, commit()))
            found.append(record)
            done += 1
            say(f"{head}: {duration(record['seconds'])}, {verdict(record)}")
    return found


def _expected_s(benchmark: Benchmark, record: Record | None, quick: bool) -> float | None:
    """Seconds by its record or the catalogue; None for a full size that has never run."""
    if record is not None and record["error"] is None:
        return float(record["seconds"])
    return benchmark.quick_s if quick else None


class _Runner:
    """The process that runs the benchmarks; started when needed, replaced after a failure."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Any = None

    def run(self, task: Task) -> Record:
        """Run one benchmark; if its process dies the record says how."""
        apart = task.benchmark.apart or not task.quick
        if apart:
            self.close()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,))
            self._process.start()
            theirs.close()
        begun = time.monotonic()
        done = self._answer(task)
        if done is None:
            self._process.join(_GRACE_S)
            task.write(time.monotonic() - begun, None, _cause(self._process.exitcode or 0))
        if apart or not done:
            self.close()
        return records.read(task.file)

    def _answer(self, task: Task) -> bool | None:
        """Whether the benchmark succeeded; None if its process died."""
        with contextlib.suppress(EOFError, OSError):
            self._connection.send(task)
            # A process that it has started may still hold the pipe when it has died.
            wait([self._connection, self._process.sentinel])
            if self._connection.poll(0):
                return bool(self._connection.recv())
        return None

    def close(self) -> None:
        """End the process, then all that it has started and left: JVM, Python workers, servers.

        It is asked first, and alone, so that it can stop what it has started.
        """
        process, self._process = self._process, None
        if process is None:
            return
        self._connection.close()
        try:
            process.join(_GRACE_S if sys.exc_info()[0] is None else 0)
            if process.is_alive():
                process.terminate()
                process.join(_GRACE_S)
            _signal_group(process.pid, signal.SIGTERM)
        finally:  # also after a second Ctrl-C
            _signal_group(process.pid, signal.SIGKILL)
        process.join()


def _cause(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status} and wrote no record"
    name = signal.Signals(-status).name
    more = "; the machine may be out of memory" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{more}"


def _signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group and wait until all of it has ended."""
    until = time.monotonic() + _GRACE_S
    if _is_running(group):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
    while time.monotonic() < until and _is_running(group):
        time.sleep(0.05)


def _is_running(group: int) -> bool:
    """Whether a process group has a process that is not a zombie."""
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


@contextlib.contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Terminated(SystemExit):
    """The child process received SIGTERM."""

    received = False


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that servers are stopped and temporary files removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Terminated.received = True
    raise _Terminated(128 + number)


def _serve(connection: Connection) -> None:
    """The child process: run tasks and write their records until the parent closes the pipe."""
    os.setsid()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with contextlib.suppress(EOFError):
            while True:
                done = _run(connection.recv())
                with contextlib.suppress(Exception):  # the next one may succeed
                    _clean_up_spark()
                connection.send(done)
        with contextlib.suppress(Exception):
            _clean_up_spark(stop=True)
    finally:  # all that is left in this group was started from here
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def _run(task: Task) -> bool:
    """Run one benchmark and write its record; whether it succeeded."""
    begun = time.monotonic()
    try:
        context = Context(
            quick=task.quick,
            out=records.folder(task.out, task.quick),
            data=task.out / "data",
            seed=task.seed,
            say=lambda line: print(line, flush=True),
            name=task.benchmark.name,
        )
        context.out.mkdir(parents=True, exist_ok=True)
        context.data.mkdir(parents=True, exist_ok=True)
        outcome: Outcome = pkgutil.resolve_name(task.benchmark.run)(context)
        outcome.pictures += charts.draw(outcome.tables, context.out / f"{context.name}.svg")
        task.write(time.monotonic() - begun, outcome, None)
    except Exception:
        if _Terminated.received:  # Spark's gateway wraps the exception
            raise _Terminated(128 + signal.SIGTERM) from None
        error = traceback.format_exc()
        print(error, file=sys.stderr, flush=True)
        task.write(time.monotonic() - begun, None, error)
        return False
    for table in outcome.tables:
        print("\n".join(["", *table_lines(table)]), flush=True)
    return True


def _clean_up_spark(*, stop: bool = False) -> None:
    """Stop the queries and drop the caches that a benchmark has left; at the end stop Spark."""
    if "pyspark" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return
    for query in session.streams.active:
        query.stop()
    session.catalog.clearCache()
    if stop:
        session.stop()
