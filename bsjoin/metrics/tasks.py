"""Metrics of the last micro-batches beside Spark's progress: of tasks, and of ``foreachBatch``.

Spark's observed metrics cost a call for each row; a task that counts its rows itself sends its
metrics once, at its end. Spark counts such an update again when it runs a task twice, or a whole
stage: here the last task for a partition takes the place of those before it.

What Spark observes in a function for ``foreachBatch`` it reports to who asked for it, and not with
the query's progress.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache

_QUERIES = 64
_GROUPS = 1_000
_RUNS = 8  # of a micro-batch: one that fails may run again for ever


@dataclass(frozen=True)
class TaskMetrics:
    """The counts of one task.

    Args:
        query: Spark's id of the streaming query, which a restart keeps.
        run: Spark's id of the run since the last restart; or another name, where ``foreachBatch``
            gives its jobs one (``setJobGroup``).
        batch: the number of the micro-batch.
        stage: Spark's number of the stage; a later stage has a higher one.
        partition: the partition of the stage that the task was for.
        attempt: Spark's number of the task; a later attempt has a higher one.
        name: under which Spark would have reported the metrics if it had observed them.
        line: of ``JoinMetrics``, see :mod:`bsjoin.metrics.lines`; empty if it had no rows.
    """

    query: str
    run: str
    batch: int
    stage: int
    partition: int
    attempt: int
    name: str
    line: str


Stage = dict[int, tuple[int, list[str]]]
"""Of each partition of a stage the number of the last task, and what it sent: several lines where
one task computes several partitions of the join (after ``coalesce``)."""

Read = Callable[[], dict[str, Any] | None]
"""Gets a row that Spark observes; None as long as no action has used its rows."""


@dataclass
class _Run:
    """One micro-batch in one run of its query.

    Args:
        tasks: by the name of the metrics, and Spark's number of the stage.
        observed: what reads those that Spark observes, by their name.
    """

    tasks: dict[str, dict[int, Stage]] = field(default_factory=dict)
    observed: dict[str, Read] = field(default_factory=dict)


def _lines(stages: dict[int, Stage]) -> Iterator[str]:
    """Yield the lines that count, of several stages that have computed the same rows.

    A later stage may have computed only those partitions again whose rows were lost, or that an
    action needed. But where its tasks compute other numbers of partitions of the join, it is of
    another action, and has them all.
    """
    counted: dict[int, list[str]] = {}
    for _, stage in sorted(stages.items()):
        new = {partition: lines for partition, (_, lines) in stage.items()}
        if any(len(counted[p]) != len(new[p]) for p in counted.keys() & new.keys()):
            counted = {}
        counted.update(new)
    return itertools.chain.from_iterable(counted.values())


def _texts(tasks: dict[str, dict[int, Stage]]) -> dict[str, str]:
    """The lines by the name of the metrics; without names whose tasks had no rows."""
    found = {name: "\n".join(filter(None, _lines(stages))) for name, stages in tasks.items()}
    return {name: lines for name, lines in found.items() if lines}


class MicroBatches:
    """The metrics of the last micro-batches of the last queries; for any number of threads."""

    def __init__(self, queries: int = _QUERIES):
        self._batches = 0
        self._found: LRUCache[str, OrderedDict[int, dict[str, _Run]]] = LRUCache(queries)
        self._lock = threading.Lock()

    def remember(self, batches: int) -> None:
        """Keep at least so many micro-batches of each query from now on."""
        self._batches = max(self._batches, batches)

    def take(self, sent: Sequence[TaskMetrics]) -> None:
        """Add what tasks have sent; of the attempts for a partition the last one counts."""
        with self._lock:
            for one in sent:
                stages = self._run(one.query, one.run, one.batch).tasks.setdefault(one.name, {})
                stage = stages.setdefault(one.stage, {})
                attempt, lines = stage.get(one.partition, (-1, []))
                if one.attempt == attempt:
                    lines.append(one.line)
                elif one.attempt > attempt:
                    stage[one.partition] = one.attempt, [one.line]

    def observe(self, query: str, run: str, batch: int, name: str, read: Read) -> None:
        """Add what reads metrics that Spark observes."""
        with self._lock:
            self._run(query, run, batch).observed[name] = read

    def _run(self, query: str, run: str, batch: int) -> _Run:
        batches = self._found.setdefault(query, OrderedDict())
        runs = batches.setdefault(batch, {})
        found = runs[run] = runs.pop(run) if run in runs else _Run()
        groups = [name for name in runs if not _is_run(name)]
        for old in (*[name for name in runs if _is_run(name)][:-_RUNS], *groups[:-_GROUPS]):
            del runs[old]
        # The one that runs has no progress yet.
        while len(batches) > self._batches + 1:
            batches.popitem(last=False)
        return found

    def of(self, query: str, run: str, batch: int) -> dict[str, Any]:
        """The metrics of a micro-batch.

        Returns:
            By name the lines of all tasks, with line feeds between; or the row that Spark has
            observed. Without those of joins that nothing has used, and of tasks without rows.
        """
        with self._lock:
            runs = self._found[query].get(batch, {}) if query in self._found else {}
            others = [found for name, found in runs.items() if not _is_run(name)]
            known = [*others, runs.get(run, _Run())]
            tasks: dict[str, dict[int, Stage]] = {}
            for one in known:
                for name, stages in one.tasks.items():
                    tasks.setdefault(name, {}).update(stages)
            counted = _texts(tasks)
            readers = {name: read for one in known for name, read in one.observed.items()}
        observed = {name: read() for name, read in readers.items()}
        return {**{name: row for name, row in observed.items() if row}, **counted}


def _is_run(name: str) -> bool:
    """Whether this is Spark's id of a run, and no name that a user has given to jobs."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


received = MicroBatches()
"""What this process has received."""


Sent = MicroBatches | list[TaskMetrics]


class Adding:
    """The addition of Spark's accumulator, in a task and in the driver."""

    def zero(self, value: Sent) -> Sent:
        """Return the value that a task begins with."""
        return []

    def addInPlace(self, value1: Sent, value2: list[TaskMetrics]) -> Sent:  # noqa: N802 - Spark's
        """Add what a task has counted to what it had, or to what the driver has received."""
        if isinstance(value1, MicroBatches):
            value1.take(value2)
            return value1
        return value1 + value2
