"""Figures of joins that tasks have sent to the driver, beside those that Spark observes.

Spark's observed metrics cost a call for each row; a task that counts its rows itself sends its
figures once, at its end. Spark counts such an update again when it runs a task twice, or a whole
stage: here the last task for a partition takes the place of those before it.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Adding", "MicroBatches", "TaskFigures", "received"]

_QUERIES = 64


@dataclass(frozen=True)
class TaskFigures:
    """What one task has counted.

    Args:
        query: Spark's id of the streaming query, which a restart keeps.
        run: Spark's id of the run since the last restart; or another name, where ``foreachBatch``
            gives its jobs one (``setJobGroup``).
        batch: the number of the micro-batch.
        stage: Spark's number of the stage; a later stage has a higher one.
        partition: the partition of the stage that the task was for.
        attempt: Spark's number of the task; a later attempt has a higher one.
        name: under which Spark would have reported the figures if it had observed them.
        text: the figures, as JSON.
    """

    query: str
    run: str
    batch: int
    stage: int
    partition: int
    attempt: int
    name: str
    text: str


@dataclass
class _Stage:
    """The figures of one stage.

    Args:
        partitions: of each partition the number of the last task, and what it sent: several texts
            where one task computes several partitions of the join (after ``coalesce``).
    """

    partitions: dict[int, tuple[int, list[str]]] = field(default_factory=dict)

    def take(self, one: TaskFigures) -> None:
        """Add the figures of a task, unless a later attempt has sent its own."""
        attempt, texts = self.partitions.get(one.partition, (-1, []))
        if one.attempt == attempt:
            texts.append(one.text)
        elif one.attempt > attempt:
            self.partitions[one.partition] = one.attempt, [one.text]


_Run = dict[str, dict[int, _Stage]]
"""By the name of the figures, and Spark's number of the stage."""


def _texts(stages: dict[int, _Stage]) -> Iterator[str]:
    """What counts of several stages that have computed the same rows.

    A later stage may have computed only those partitions again whose rows were lost, or that an
    action needed. But where its tasks compute other numbers of partitions of the join, it is of
    another action, and has them all.
    """
    counted: dict[int, list[str]] = {}
    for _, stage in sorted(stages.items()):
        new = {partition: texts for partition, (_, texts) in stage.partitions.items()}
        if any(len(counted[p]) != len(new[p]) for p in counted.keys() & new.keys()):
            counted = {}
        counted.update(new)
    return itertools.chain.from_iterable(counted.values())


class MicroBatches:
    """The figures of the last micro-batches of the last queries; for any number of threads.

    Args:
        queries: how many queries are remembered, those that sent figures last.
    """

    def __init__(self, queries: int = _QUERIES):
        self._queries = queries
        self._batches = 0
        self._found: OrderedDict[str, OrderedDict[int, dict[str, _Run]]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, batches: int) -> None:
        """Keep at least so many micro-batches of each query from now on."""
        self._batches = max(self._batches, batches)

    def take(self, sent: Sequence[TaskFigures]) -> None:
        """Add what tasks have sent."""
        with self._lock:
            for one in sent:
                self._take(one)

    def _take(self, one: TaskFigures) -> None:
        batches = self._found.setdefault(one.query, OrderedDict())
        self._found.move_to_end(one.query)
        names = batches.setdefault(one.batch, {}).setdefault(one.run, {})
        names.setdefault(one.name, {}).setdefault(one.stage, _Stage()).take(one)
        # The one that runs has no progress yet.
        while len(batches) > self._batches + 1:
            batches.popitem(last=False)
        while len(self._found) > self._queries:
            self._found.popitem(last=False)

    def of(self, query: str, run: str, batch: int) -> dict[str, dict[str, str]]:
        """The figures of a micro-batch, as if Spark had observed them.

        Args:
            query: Spark's id of the query.
            run: and of the run.
            batch: the number of the micro-batch.

        Returns:
            By name a row with one column, ``tasks``: the texts of all tasks, with commas between.
        """
        with self._lock:
            runs = self._found[query].get(batch, {}) if query in self._found else {}
            others = [found for name, found in runs.items() if not _is_run(name)]
            names = runs.get(run) or (others[-1] if others else {})
            return {name: {"tasks": ",".join(_texts(stages))} for name, stages in names.items()}


def _is_run(name: str) -> bool:
    """Whether this is Spark's id of a run, and no name that a user has given to jobs."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


received = MicroBatches()
"""What this process has received."""


Sent = MicroBatches | list[TaskFigures]


class Adding:
    """How Spark's accumulator adds figures up, in a task and in the driver."""

    def zero(self, value: Sent) -> Sent:
        """What a task begins with."""
        return []

    def addInPlace(self, value1: Sent, value2: list[TaskFigures]) -> Sent:  # noqa: N802 - Spark's
        """Add what a task has counted to what it had, or to what the driver has received."""
        if isinstance(value1, MicroBatches):
            value1.take(value2)
            return value1
        return value1 + value2
