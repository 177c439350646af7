"""The Python daemon of a profiled Spark: its workers write down what each task's time went to.

Spark is told to start it with ``spark.python.daemon.module``. It is Spark's own daemon, but for
clocks around what a worker reads and writes, and around the functions of bsjoin in
:data:`WATCHED`. A clock costs about a microsecond a call, and there are some dozens of calls
for an Arrow batch.

A task's record is one line of JSON in the folder that ``BSJOIN_PROFILE`` names: ``query``,
``batch``, ``stage`` and ``partition``, nanoseconds by label (``ns``), and bytes in and out.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.profile.clock import Clock

__all__ = ["FOLDER", "WATCHED", "Sampler", "main"]

FOLDER = "BSJOIN_PROFILE"
FLAME = "BSJOIN_PROFILE_FLAME"

WAIT, SEND, SET_UP, SPARK = "wait", "send", "set up", "spark"
FIND, GATHER, SOURCE, KEEP, ROUTE, OTHER = "find", "gather", "source", "keep", "route", "other"

WATCHED: tuple[tuple[str, str, str, bool], ...] = (
    # module, function, label, whether it is a generator
    ("bsjoin.cache.full", "answer", OTHER, False),
    ("bsjoin.cache.full", "gather", OTHER, False),
    ("bsjoin.cache.full", "structs", GATHER, False),
    ("bsjoin.cache.full", "lists", GATHER, False),
    ("bsjoin.cache.table", "OpenTable.find", FIND, False),
    ("bsjoin.cache.table", "OpenTable.run_lengths", FIND, False),
    ("bsjoin.cache.table", "OpenTable.gather", GATHER, False),
    ("bsjoin.cache.incremental", "answers", OTHER, True),
    ("bsjoin.cache.incremental", "structs", GATHER, False),
    ("bsjoin.cache.incremental", "lists", GATHER, False),
    ("bsjoin.cache.loading", "Loader.load", KEEP, False),
    ("bsjoin.cache.asking", "Asker.ask", SOURCE, False),
    ("bsjoin.shared.cache", "HostCache.find", FIND, False),
    ("bsjoin.shared.cache", "HostCache.claim", KEEP, False),
    ("bsjoin.shared.cache", "HostCache.put", KEEP, False),
    ("bsjoin.cache.ranged", "joined", OTHER, True),
    ("bsjoin.cache.ranged", "stored_groups", FIND, True),
    ("bsjoin.cache.ranged", "cached_groups", FIND, True),
    ("bsjoin.cache.ranged", "matches", FIND, True),
    ("bsjoin.cache.ranged", "_result", GATHER, False),
    ("bsjoin.hotspot.worker", "routed", ROUTE, True),
)

_clock = Clock()
_task: dict[str, Any] = {}


class _Pipe:
    """A stream between the JVM and the worker, its reads and writes timed and counted."""

    def __init__(self, stream: Any, clock: Clock):
        self._stream, self._clock = stream, clock
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1) -> bytes:
        if not self._clock.running:  # what comes first is a new task
            data = self._stream.read(size)
            if data:
                self._clock.start(SPARK)
        else:
            data = self._clock.timed(self._stream.read, WAIT)(size)
        self.bytes += len(data)
        return data

    def write(self, data: Any) -> Any:
        self.bytes += memoryview(data).nbytes
        return self._clock.timed(self._stream.write, SEND)(data)

    def flush(self) -> None:
        self._clock.timed(self._stream.flush, SEND)()


class Sampler:
    """Looks at the main thread's stack every so often, from a thread of its own.

    Args:
        every_s: seconds between two looks.
    """

    def __init__(self, every_s: float = 0.002):
        import sys
        import threading

        self.stacks: dict[str, int] = {}
        self._every_s = every_s
        self._frames = sys._current_frames
        self._main = threading.main_thread().ident
        self._wanted = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def start(self) -> None:
        """Look from now on."""
        self.stacks = {}
        self._wanted.set()

    def stop(self) -> dict[str, int]:
        """Look no more; how often each stack was seen, outermost function first."""
        self._wanted.clear()
        return self.stacks

    def _run(self) -> None:
        while self._wanted.wait():
            time.sleep(self._every_s)
            frame = self._frames().get(self._main)
            names = []
            while frame is not None:
                module = frame.f_globals.get("__name__", "?")
                names.append(f"{module}.{frame.f_code.co_name}")
                frame = frame.f_back
            if names and self._wanted.is_set():
                stack = ";".join(reversed(names))
                self.stacks[stack] = self.stacks.get(stack, 0) + 1


def _watch() -> None:
    """Put the clock around the functions; once per worker."""
    for module, name, label, generator in WATCHED:
        owner: Any = importlib.import_module(module)
        *path, name = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        function = getattr(owner, name)
        timed = (
            _clock.timed_iterator(function, label, SPARK)
            if generator
            else _clock.timed(function, label)
        )
        setattr(owner, name, timed)


def _noting_the_task(read: Callable[..., Any]) -> Callable[..., Any]:
    """Around what unpickles a task's functions: by then it is known whose they are."""
    from pyspark import TaskContext

    timed = _clock.timed(read, SET_UP)

    def noted(*args: Any, **named: Any) -> Any:
        context = TaskContext.get()
        if context is not None:
            _task.update(
                query=context.getLocalProperty("sql.streaming.queryId"),
                batch=int(context.getLocalProperty("streaming.sql.batchId") or -1),
                stage=context.stageId(),
                partition=context.partitionId(),
            )
        return timed(*args, **named)

    return noted


def _recorded(main: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Around a worker's main: one task, one line."""
    file = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
    sampler = Sampler() if os.environ.get(FLAME) else None

    def one_task(infile: Any, outfile: Any) -> None:
        source, target = _Pipe(infile, _clock), _Pipe(outfile, _clock)
        _task.clear()
        if sampler is not None:
            sampler.start()
        try:
            main(source, target)
            target.flush()
        finally:
            if _clock.running:
                record = {**_task, "ns": _clock.stop(), "in": source.bytes, "out": target.bytes}
                if sampler is not None:
                    record["stacks"] = sampler.stop()
                with file.open("a") as lines:
                    lines.write(json.dumps(record) + "\n")

    return one_task


def main() -> None:
    """Be Spark's daemon, with workers that keep records."""
    from pyspark import daemon

    work = daemon.worker

    def worker(*args: Any) -> int:
        # What Spark's own daemon leaves to its children: nothing is imported before the fork.
        from pyspark import worker as module

        if not getattr(module, "profiled", False):
            _watch()
            module.read_udfs = _noting_the_task(module.read_udfs)
            module.main = _recorded(module.main)
            module.profiled = True
        return work(*args)

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
