"""What a controller remembers of tasks and workers that are missing at the moment.

Partitions come and go, as AQE's do: plans are made for the largest of the last numbers. One look
may miss an executor: a worker with tasks is lost when it is missed twice.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scheduling.model import JobGraph, Snapshot

__all__ = ["History"]

_RECENT = 20  # adopted numbers of instances
_OF_WORKERS = ("utilisation", "tuples", "cost", "busyness", "reserved")


class History:
    """The last workers of tasks, the last numbers of instances, the workers missed once."""

    def __init__(self) -> None:
        self._workers: dict[str, str] = {}
        self._counts: dict[str, deque[int]] = {}
        self._seen: Snapshot | None = None
        self.missing: frozenset[str] = frozenset()
        """The workers that the last look has missed, and that had tasks."""

    def look(self, snapshot: Snapshot, used: Collection[str]) -> tuple[Snapshot, bool]:
        """A snapshot with the workers in use that it misses first; whether workers came or went."""
        before = self._seen
        known = frozenset() if before is None else frozenset(before.by_id)
        missing = frozenset(used) - frozenset(snapshot.by_id)
        once = (missing & known) - self.missing
        self.missing = missing
        self._seen = _with(snapshot, before, once)
        return self._seen, before is not None and frozenset(self._seen.by_id) != known

    def completed(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot between two looks, with the workers that the last look has kept."""
        if self._seen is None:
            self._seen = snapshot
        return _with(snapshot, self._seen, self.missing & frozenset(self._seen.by_id))

    def ran(self, placement: Mapping[str, str]) -> None:
        """Keep the workers of tasks."""
        self._workers |= placement

    def runs_not(self, tasks: Iterable[str]) -> None:
        """Tasks run nowhere."""
        for task in tasks:
            self._workers.pop(task, None)

    def present(self, graph: JobGraph, snapshot: Snapshot) -> dict[str, str]:
        """The worker of each task: the last one if it is there still."""
        last = {task: self._workers[task] for task in graph.by_id if task in self._workers}
        return {task: worker for task, worker in last.items() if worker in snapshot.by_id}

    def counts(self, parallelism: Mapping[str, int]) -> None:
        """Keep numbers of instances that were adopted."""
        for name, count in parallelism.items():
            self._counts.setdefault(name, deque(maxlen=_RECENT)).append(count)

    def largest(self, parallelism: Mapping[str, int]) -> dict[str, int]:
        """The numbers of instances that plans are made for."""
        return {n: max([count, *self._counts.get(n, ())]) for n, count in parallelism.items()}


def _with(snapshot: Snapshot, before: Snapshot | None, names: Collection[str]) -> Snapshot:
    """A snapshot with some workers of an earlier one, in their order, and their metrics."""
    names = set(names) - set(snapshot.by_id)
    if before is None or not names:
        return snapshot
    there = snapshot.by_id.keys() | names
    old = [snapshot.by_id.get(w.id, w) for w in before.workers if w.id in there]
    new = [worker for worker in snapshot.workers if worker.id not in before.by_id]

    def kept(what: str) -> dict[str, Any]:
        was = getattr(before, what)
        return {**getattr(snapshot, what), **{name: was[name] for name in names if name in was}}

    return dataclasses.replace(
        snapshot,
        workers=(*old, *new),
        **{name: kept(name) for name in _OF_WORKERS},  # type: ignore[arg-type]
    )
