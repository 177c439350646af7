"""The Python daemon of a profiled Spark: its workers record where each task's time went.

Spark starts it by ``spark.python.daemon.module``. It is Spark's own daemon with clocks around the
worker's reads and writes, and around the functions of bsjoin in :data:`WATCHED`. A clock costs
about a microsecond a call; an Arrow batch has some dozens of calls.

A task's record is one line of JSON in the folder that ``BSJOIN_PROFILE`` names: ``query``,
``batch``, nanoseconds by label (``ns``), and bytes ``in`` and ``out``. A sampling profiler such as
py-spy cannot replace it: a worker is busy for milliseconds of a micro-batch, and samples belong to
no micro-batch (docs/decisions/0010).
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.profile.clock import Clock

FOLDER = "BSJOIN_PROFILE"

WAIT, SEND, SET_UP, SPARK = "wait", "send", "set up", "spark"

# By module and label: functions; those with a star are generators.
WATCHED: dict[tuple[str, str], tuple[str, ...]] = {
    ("bsjoin.worker.full_cache", "other"): ("answer", "gather"),
    ("bsjoin.worker.full_cache", "gather"): ("structs", "lists"),
    ("bsjoin.worker.open_table", "find"): ("OpenTable.find", "OpenTable.run_lengths"),
    ("bsjoin.worker.open_table", "gather"): ("OpenTable.gather",),
    ("bsjoin.worker.incremental_cache", "other"): ("answers*",),
    ("bsjoin.worker.incremental_cache", "gather"): ("structs", "lists"),
    ("bsjoin.worker.loading", "keep"): ("Loader.load",),
    ("bsjoin.worker.source_client", "source"): ("SourceClient.ask",),
    ("bsjoin.shared.cache", "find"): ("HostCache.find",),
    ("bsjoin.shared.cache", "keep"): ("HostCache.claim", "HostCache.put"),
    ("bsjoin.worker.range_join", "other"): ("joined*",),
    ("bsjoin.worker.range_join", "find"): ("stored_groups*", "cached_groups*", "matches*"),
    ("bsjoin.worker.range_join", "gather"): ("_result",),
    ("bsjoin.hotspot.worker", "route"): ("routed*",),
}

_clock = Clock()
_task: dict[str, Any] = {}


class Pipe:
    """A stream between the JVM and the worker, its reads and writes timed and counted."""

    def __init__(self, stream: Any, clock: Clock):
        self._stream, self._clock = stream, clock
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, size: int = -1) -> bytes:
        """As the stream; charged to ``WAIT``."""
        if not self._clock.running:  # the first read is a new task
            data = self._stream.read(size)
            if data:
                self._clock.start(SPARK)
        else:
            data = self._clock.timed(self._stream.read, WAIT)(size)
        self.bytes += len(data)
        return data

    def write(self, data: Any) -> Any:
        """As the stream; charged to ``SEND``."""
        self.bytes += memoryview(data).nbytes
        return self._clock.timed(self._stream.write, SEND)(data)

    def flush(self) -> None:
        """As the stream; charged to ``SEND``."""
        self._clock.timed(self._stream.flush, SEND)()


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """The module or class that has a function, and the function's name."""
    *path, last = name.rstrip("*").split(".")
    owner: Any = importlib.import_module(module)
    for part in path:
        owner = getattr(owner, part)
    return owner, last


def _watch() -> None:
    """Put the clock around the functions; once per worker."""
    for (module, label), names in WATCHED.items():
        for name in names:
            owner, last = owner_of(module, name)
            function = getattr(owner, last)
            generator = name.endswith("*")
            timed = (
                _clock.timed_generator(function, label, SPARK)
                if generator
                else _clock.timed(function, label)
            )
            setattr(owner, last, timed)


def _noting_the_task(read: Callable[..., Any]) -> Callable[..., Any]:
    """Around the unpickling of a task's functions: by then its query is known."""
    from pyspark import TaskContext

    timed = _clock.timed(read, SET_UP)

    def noted(*args: Any, **named: Any) -> Any:
        context = TaskContext.get()
        if context is not None:
            _task["query"] = context.getLocalProperty("sql.streaming.queryId")
            _task["batch"] = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        return timed(*args, **named)

    return noted


def recorded(main: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Around a worker's main: one line per task."""
    file = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"

    def one_task(infile: Any, outfile: Any) -> None:
        source, target = Pipe(infile, _clock), Pipe(outfile, _clock)
        _task.clear()
        try:
            main(source, target)
            target.flush()
        finally:
            if _clock.running:
                record = {**_task, "ns": _clock.stop(), "in": source.bytes, "out": target.bytes}
                with file.open("a") as lines:
                    lines.write(json.dumps(record) + "\n")

    return one_task


def main() -> None:
    """Be Spark's daemon, with workers that keep records."""
    from pyspark import daemon

    work = daemon.worker

    def worker(*args: Any) -> int:
        # As in Spark's own daemon, only its children import anything.
        from pyspark import worker as module

        if not getattr(module, "profiled", False):
            _watch()
            module.read_udfs = _noting_the_task(module.read_udfs)
            module.main = recorded(module.main)
            module.profiled = True
        return work(*args)

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
