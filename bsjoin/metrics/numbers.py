"""The numbers of joins in this process, by which ``progress`` tells them apart."""

from __future__ import annotations

import functools
import itertools
import threading
from dataclasses import dataclass, field

from cachetools import LRUCache

_QUERIES = 64
_BATCHES = 8
_REPORTED = 10_000

new_number = itertools.count(1).__next__
"""The number of one more join of this process."""


@functools.lru_cache(_REPORTED)
def number_of_reported(query: str, number: int, on: tuple[str, ...]) -> int:
    """The number, in this process, of a join that another one has planned."""
    return new_number()


@dataclass
class _Query:
    """One query.

    Args:
        numbers: of its joins, by their place in a micro-batch and their columns.
        planned: how many joins its last micro-batches have planned, by the call and the number: a
            thread that a function leaves behind may plan one when the next micro-batch has begun.
    """

    numbers: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    planned: LRUCache[tuple[str, int], int] = field(default_factory=lambda: LRUCache(_BATCHES))


class JoinNumbers:
    """The numbers of joins that functions for ``foreachBatch`` plan; for any number of threads."""

    def __init__(self, queries: int = _QUERIES):
        self._queries: LRUCache[str, _Query] = LRUCache(queries)
        self._lock = threading.Lock()

    def next(self, query: str, call: str, batch: int, columns: tuple[str, ...]) -> int:
        """The number of the next join of a micro-batch: that of the same join in the one before.

        Another call of the function has begun the micro-batch again.
        """
        with self._lock:
            one = self._queries.setdefault(query, _Query())
            before = one.planned.get((call, batch), 0)
            one.planned[call, batch] = before + 1
            place = before, columns
            if place not in one.numbers:
                one.numbers[place] = new_number()
            return one.numbers[place]


numbers = JoinNumbers()
"""Those of this process."""
