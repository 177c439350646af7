"""Figures of joins inside functions for ``foreachBatch``, which Spark's progress does not have.

Spark observes them with the action that uses a join's rows, and reports them to who asked for them:
here they are kept by the query and the number of its micro-batch, beside those that tasks send
(:mod:`bsjoin.metrics.tasks`).
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ObservedBatches", "new_number", "number_of_reported", "observed_batches"]

_QUERIES = 64
_REPORTED = 10_000

new_number = itertools.count(1).__next__
"""The number of one more join of this process."""


@functools.lru_cache(_REPORTED)
def number_of_reported(query: str, number: int, on: tuple[str, ...]) -> int:
    """The number, in this process, of a join that another one has planned.

    Args:
        query: Spark's id of the query.
        number: of the join, in the other process.
        on: the columns of the stream that the join compares.
    """
    return new_number()


Read = Callable[[], dict[str, Any] | None]
"""Gets the figures of a join; None as long as no action has used its rows."""


@dataclass
class _Batch:
    """One micro-batch.

    Args:
        run: Spark's id of the run that it is part of.
        joins: how many joins it has planned.
        figures: what reads those of each, by the name that Spark would report them under.
    """

    run: str
    joins: int = 0
    figures: dict[str, Read] = field(default_factory=dict)


@dataclass
class _Query:
    """One query.

    Args:
        numbers: of its joins, by their place in a micro-batch and their columns.
        batches: its last micro-batches, by their numbers.
    """

    numbers: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    batches: OrderedDict[int, _Batch] = field(default_factory=OrderedDict)


class ObservedBatches:
    """The figures of the last micro-batches of the last queries; for any number of threads.

    Args:
        queries: how many queries are remembered, those that planned a join last.
    """

    def __init__(self, queries: int = _QUERIES):
        self._queries = queries
        self._found: OrderedDict[str, _Query] = OrderedDict()
        self._lock = threading.Lock()

    def number_of(
        self,
        query: str,
        run: str,
        batch: int,
        columns: tuple[str, ...],
        new: Callable[[], int],
        kept: int,
    ) -> int:
        """The number of the next join of a micro-batch: that of the same join in the one before.

        Args:
            query: Spark's id of the query.
            run: and of the run; another one has begun the micro-batch again.
            batch: the number of the micro-batch.
            columns: the columns of the stream that the join compares.
            new: makes the number of a join that is not known.
            kept: how many micro-batches to remember.
        """
        with self._lock:
            found = self._found.setdefault(query, _Query())
            self._found.move_to_end(query)
            while len(self._found) > self._queries:
                self._found.popitem(last=False)
            one = found.batches.get(batch)
            if one is None or one.run != run:
                one = found.batches[batch] = _Batch(run)
            while len(found.batches) > kept + 1:  # the one that runs has no progress yet
                found.batches.popitem(last=False)
            place = one.joins, columns
            one.joins += 1
            if place not in found.numbers:
                found.numbers[place] = new()
            return found.numbers[place]

    def add(self, query: str, batch: int, name: str, read: Read) -> None:
        """Keep what reads the figures of a join."""
        with self._lock:
            found = self._found.get(query)
            if found is not None and batch in found.batches:
                found.batches[batch].figures[name] = read

    def of(self, query: str, batch: int) -> dict[str, dict[str, Any]]:
        """The figures of a micro-batch by name; without those of joins that nothing has used."""
        with self._lock:
            found = self._found.get(query)
            one = None if found is None else found.batches.get(batch)
            readers = {} if one is None else dict(one.figures)
        read = {name: reader() for name, reader in readers.items()}
        return {name: figures for name, figures in read.items() if figures}


observed_batches = ObservedBatches()
"""Those of this process."""
