"""Benchmarks one after the other, in process groups of their own, with progress in lines.

A benchmark that crashes, or whose JVM runs out of memory, loses its own record and no other one.
Full sizes have a process each. Quick ones share one, and its Spark, until one of them fails: to
start Spark and to let it compile takes longer than many of them.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType

import psutil

from benchmarks.harness.alone import DONE, Task
from benchmarks.harness.machine import commit
from benchmarks.harness.outcome import Benchmark
from benchmarks.harness.records import Record, made, place, read, repeats, write, written
from benchmarks.harness.screen import duration, verdict

__all__ = ["run_all"]

ROOT = Path(__file__).resolve().parents[2]

_PATIENCE_S = 15.0  # for a process that was asked to end


def run_all(
    listed: Sequence[Benchmark],
    *,
    quick: bool,
    seed: int,
    out: Path,
    again: bool = False,
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Run benchmarks, but not those whose record would only be repeated.

    Args:
        listed: which, in order.
        quick: their size.
        seed: of all that is drawn.
        out: the folder of all results.
        again: run them whatever records there are.
        say: prints one line.

    Returns:
        The record of each; that of one that failed has an ``error``.

    Raises:
        KeyboardInterrupt: by Ctrl-C or SIGTERM, after the running benchmark has ended. Records
            written before are kept, and so is the earlier record of the one that was ended.
        RecordError: a record that is there was written by a newer program.
    """
    code = commit()
    kept = {one.name: written(out, quick, one.name) for one in listed}
    if again:
        due = list(listed)
    else:
        due = [one for one in listed if not repeats(kept[one.name], quick, seed, code)]
    expected = {one.name: _expected_s(one, kept[one.name], quick) for one in due}
    found: dict[str, Record] = {}
    begun, done = time.monotonic(), 0
    with _interrupted_by_sigterm(), _Process() as process:
        for number, one in enumerate(listed, start=1):
            head = f"[{number}/{len(listed)}] {one.name}"
            record = kept[one.name]
            if one not in due and record is not None:
                say(f"{head}: has a record of {record['when']}; --again runs it anew")
                found[one.name] = record
                continue
            left = [expected[other.name] for other in due[done:]]
            about = [] if left[0] is None else [f"about {duration(left[0])}"]
            if done:
                about.append(f"{duration(time.monotonic() - begun)} so far")
            if len(left) > 1 and None not in left:
                about.append(f"about {duration(sum(filter(None, left)))} to the end")
            say(f"{head}: {one.title}" + (f" ({', '.join(about)})" if about else ""))
            found[one.name] = record = process.run(Task(one, quick, seed, out, commit()))
            done += 1
            say(f"{head}: {duration(record['seconds'])}, {verdict(record)}")
    return list(found.values())


def _expected_s(benchmark: Benchmark, record: Record | None, quick: bool) -> float | None:
    """Seconds that it took, or that the catalogue gives; None for a full size never run."""
    if record is not None and record["error"] is None:
        return float(record["seconds"])
    return benchmark.quick_s if quick else None


class _Process:
    """Where benchmarks run; they print where this process does. It is started when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def run(self, task: Task) -> Record:
        """Run one benchmark; the record is as it was written, or says how the process ended."""
        begun = time.monotonic()
        apart = task.benchmark.apart or not task.quick
        if apart:
            self._stack.close()
        if self._process is None:
            self._process = self._stack.enter_context(self._started())
        with contextlib.suppress(BrokenPipeError):
            self._asked.write(task.to_json().encode() + b"\n")
        ended = self._answer(self._process)
        file = place(task.out, task.quick, task.benchmark.name)
        if not ended:
            error = _why(self._process.wait())
            seconds = time.monotonic() - begun
            write(file, made(task.benchmark, **task.where, seconds=seconds, error=error))
        if apart or ended != DONE:
            self._stack.close()
        return read(file)

    def _answer(self, process: subprocess.Popen[bytes]) -> str:
        """How the benchmark ended; nothing when its process has ended."""
        while not select.select([self._told], [], [], 0.2)[0]:
            if process.poll() is not None and not select.select([self._told], [], [], 0)[0]:
                return ""  # somebody whom it has started may still hold the pipe
        return self._told.readline().strip()

    @contextlib.contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
        (for_it, asked), (told, by_it) = os.pipe(), os.pipe()
        with open(told) as self._told, open(asked, "wb", buffering=0) as self._asked:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.harness.alone", str(for_it), str(by_it)],
                    env={
                        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"
                    },
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=(for_it, by_it),
                )  # fmt: skip
            finally:
                os.close(for_it)
                os.close(by_it)
            try:
                yield process
                self._asked.close()  # nothing more: it may leave by itself
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE_S)
            finally:
                self._process = None
                _end(process)


def _why(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status} and wrote no record"
    name = signal.Signals(-status).name
    more = "; the machine may be out of memory" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{more}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process, then all that it has started and left: JVM, Python workers, servers.

    It is asked first, and alone, so that it can stop what it has started.
    """
    try:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
        _signal(process.pid, signal.SIGTERM)
    finally:  # a second Ctrl-C is impatience
        _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group and wait until all of it has ended."""
    until = time.monotonic() + _PATIENCE_S
    if _lives(group):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
    while time.monotonic() < until and _lives(group):
        time.sleep(0.05)


def _lives(group: int) -> bool:
    """Whether a process group has a process that has not ended; a zombie has."""
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
