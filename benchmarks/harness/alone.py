"""Benchmarks in this process: ``python -m benchmarks.harness.alone ASKED TOLD``.

:mod:`benchmarks.harness.running` starts it, writes tasks as lines of JSON into the pipe ``ASKED``,
a descriptor, and reads from ``TOLD`` how each ended; the records are written here. Benchmarks of
one process share its Spark session.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.harness.outcome import Benchmark, Context, Outcome
from benchmarks.harness.records import folder, made, place, write
from benchmarks.harness.screen import lines_of

__all__ = ["DONE", "FAILED", "Task", "main"]

DONE, FAILED = "done", "failed"
"""How a benchmark ended that has a record: as it should, or with an error."""


@dataclass(frozen=True)
class Task:
    """A benchmark to be run.

    Args:
        benchmark: which.
        quick: its size.
        seed: of all that it draws.
        out: the folder of all results.
        code: the state of the code, as :func:`benchmarks.harness.machine.commit` tells it.
    """

    benchmark: Benchmark
    quick: bool
    seed: int
    out: Path
    code: str | None

    @property
    def where(self) -> dict[str, Any]:
        """What its record says beside the outcome."""
        return {"quick": self.quick, "seed": self.seed, "out": self.out, "code": self.code}

    def to_json(self) -> str:
        """One line, for the process that does it."""
        return json.dumps({**asdict(self), "out": str(self.out)})

    @staticmethod
    def from_json(text: str) -> Task:
        """The task that a text stands for."""
        found = json.loads(text)
        found |= {"benchmark": Benchmark(**found["benchmark"]), "out": Path(found["out"])}
        return Task(**found)


def main(words: list[str]) -> int:
    """Run tasks and write their records until no more are asked for."""
    signal.signal(signal.SIGTERM, _ended)
    try:
        with open(int(words[0])) as asked, open(int(words[1]), "w") as told:
            for line in asked:
                ended = _done(Task.from_json(line))
                with contextlib.suppress(Exception):  # the next one may fare better
                    _tidy()
                print(ended, file=told, flush=True)
        with contextlib.suppress(Exception):
            _tidy(leave=True)
        return 0
    finally:
        if os.getsid(0) == os.getpid():  # all that is left in this group was started from here
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)


class _Ended(SystemExit):
    """The process was asked to end."""

    asked = False


def _ended(number: int, frame: FrameType | None) -> None:
    """Leave as an exception would, so that servers are stopped and temporary files removed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Ended.asked = True
    raise _Ended(128 + number)


def _tidy(*, leave: bool = False) -> None:
    """Let go of what a benchmark has left in Spark; at the end, of Spark."""
    if "pyspark" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return
    for query in session.streams.active:
        query.stop()
    session.catalog.clearCache()
    if leave:
        session.stop()


def _done(task: Task) -> str:
    begun = time.monotonic()
    file = place(task.out, task.quick, task.benchmark.name)
    try:
        context = Context(
            quick=task.quick,
            out=folder(task.out, task.quick),
            data=task.out / "data",
            seed=task.seed,
            say=lambda line: print(line, flush=True),
        )
        context.out.mkdir(parents=True, exist_ok=True)
        context.data.mkdir(parents=True, exist_ok=True)
        outcome: Outcome = importlib.import_module(task.benchmark.module).run(context)
        seconds = time.monotonic() - begun
        record = made(task.benchmark, seconds=seconds, outcome=outcome, **task.where)
    except Exception:
        if _Ended.asked:  # what Spark's gateway makes of the exception is no failure
            raise _Ended(128 + signal.SIGTERM) from None
        error = traceback.format_exc()
        print(error, file=sys.stderr, flush=True)
        seconds = time.monotonic() - begun
        write(file, made(task.benchmark, seconds=seconds, error=error, **task.where))
        return FAILED
    write(file, record)
    for table in outcome.tables:
        print("\n".join(["", *lines_of(table)]), flush=True)
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
