"""Runs benchmarks one after the other, each in a child process, and prints progress.

A benchmark that crashes, or whose JVM runs out of memory, loses only its own record.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from benchmarks.harness import records
from benchmarks.harness.machine import commit
from benchmarks.harness.outcome import Benchmark, Context, Outcome
from benchmarks.harness.records import Record
from benchmarks.harness.text import duration, table_lines, verdict
from tests import supervisor

_GRACE_S = 15.0  # for a process to end after SIGTERM


@dataclass(frozen=True)
class Task:
    """A benchmark to run; ``code`` is the state of the code, see :func:`commit`."""

    benchmark: Benchmark
    quick: bool
    seed: int
    out: Path
    code: str | None

    def write(self, seconds: float, outcome: Outcome | None = None, **more: Any) -> Record:
        """Write its record; ``more``: its ``error``, its ``pictures``."""
        return records.store(
            self.benchmark, self.out, outcome or Outcome(), quick=self.quick, seed=self.seed,
            commit=self.code, seconds=round(seconds, 1), **more,
        )  # fmt: skip


def run_all(
    listed: Sequence[Benchmark], *, quick: bool, seed: int, out: Path, again: bool = False,
    say: Callable[[str], None] = print,
) -> list[Record]:  # fmt: skip
    """Run benchmarks, except those that already have a record of the same run.

    Returns:
        The record of each; of a failed one it has an ``error``.

    Raises:
        KeyboardInterrupt: by Ctrl-C or SIGTERM, after the running benchmark has been stopped.
            Earlier records are kept, that of the stopped benchmark too.
    """
    supervisor.start()
    found = list[Record]()
    for number, one in enumerate(listed, start=1):
        head = f"[{number}/{len(listed)}] {one.name}"
        record, code = records.written(out, quick, one.name), commit()  # it may move meanwhile
        if record is not None and not again and records.repeats(record, quick, seed, code):
            say(f"{head}: has a record of {record.when}; --again runs it anew")
        else:
            say(f"{head}: {one.title}{f' (about {duration(one.quick_s)})' if quick else ''}")
            record = _run(Task(one, quick, seed, out, code))
            say(f"{head}: {duration(record.seconds)}, {verdict(record)}")
        found.append(record)
    return found


def _run(task: Task) -> Record:
    """Run one benchmark in a process of its own; if that dies, the record says how."""
    begun, when = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    command = [sys.executable, "-m", __name__, json.dumps(records.plain(task))]
    with _interrupt_on_sigterm():
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = process.wait()
        finally:
            _end(process)
    record = records.written(task.out, task.quick, task.benchmark.name)
    if status or record is None or record.when < when:  # that of an earlier run
        return task.write(time.monotonic() - begun, error=_cause(status))
    return record


def _cause(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status} and wrote no record"
    name = signal.Signals(-status).name
    more = "; the machine may be out of memory" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{more}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, then all that it has started and left: JVM, Python workers, servers.

    It is asked first, and alone, so that it can stop what it has started.
    """
    try:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        _signal_group(process.pid, signal.SIGTERM)
    finally:  # also after a second Ctrl-C
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group and wait until all of it has ended, or is a zombie."""
    until = time.monotonic() + _GRACE_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
    while time.monotonic() < until and any(
        _group_of(one) == group for one in psutil.process_iter()
    ):
        time.sleep(0.05)


def _group_of(process: psutil.Process) -> int | None:
    with contextlib.suppress(ProcessLookupError, psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return os.getpgid(process.pid)
    return None


@contextlib.contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that servers are stopped and temporary files removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


@contextlib.contextmanager
def _told_only() -> Iterator[None]:
    """An error is printed, and no more."""
    try:
        yield
    except Exception:
        traceback.print_exc()


def _main(words: str) -> None:
    """The child process: run the benchmark and write its record; status 0 when that is done."""
    signal.signal(signal.SIGTERM, _leave)
    begun, given = time.monotonic(), json.loads(words)
    benchmark, out = Benchmark(**given["benchmark"]), Path(given["out"])
    task = Task(**{**given, "benchmark": benchmark, "out": out})
    folder, data = records.folder(out, task.quick), out / "data"
    try:
        for one in (folder, data):
            one.mkdir(parents=True, exist_ok=True)
        say = lambda line: print(line, flush=True)  # noqa: E731
        context = Context(task.quick, data, task.seed, say, benchmark.name)
        outcome: Outcome = pkgutil.resolve_name(benchmark.run)(context)
        if task.quick and benchmark.bounds == "full":
            outcome.figures = [replace(figure, bound=None) for figure in outcome.figures]
        write = partial(task.write, time.monotonic() - begun, outcome)
        write()  # first: an error in drawing is not to lose the run
        for table in outcome.tables:
            print("\n".join(["", *table_lines(table)]), flush=True)
        with _told_only():
            from benchmarks import charts  # with matplotlib, which takes a second

            write(pictures=charts.draw(outcome.tables, folder / f"{benchmark.name}.svg"))
    except Exception:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:  # Spark's gateway wraps SystemExit
            sys.exit(128 + signal.SIGTERM)
        error = traceback.format_exc()
        print(error, file=sys.stderr, flush=True)
        task.write(time.monotonic() - begun, error=error)


if __name__ == "__main__":
    _main(sys.argv[1])
