"""Prices and sizes of workers from a table with patterns of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from scheduling.errors import ArgumentError
from scheduling.model import Resources, Worker
from scheduling.model.checks import check, instance, number, optional, text, whole

__all__ = ["Price", "priced"]


@dataclass(frozen=True)
class Price:
    """The price and the size of workers whose names match a pattern.

    Args:
        pattern: for the worker's id or host: ``*`` stands for any text, ``?`` for one character,
            everything else for itself, also the brackets of ``[fe80::1]``.
        price_per_s: the price in $/s; default 1.
        slots: the number of concurrent tasks; None (default): the worker's own.
        tier: the name of the kind; None (default): the worker's own.
        capacity: cores and memory; None (default): the worker's own.
    """

    pattern: str
    price_per_s: float = 1.0
    slots: int | None = None
    tier: str | None = None
    capacity: Resources | None = None

    def __post_init__(self) -> None:
        check(self, pattern=text)
        of = f" of pattern {self.pattern!r}"
        check(self, of, price_per_s=number, slots=optional(whole))
        check(self, of, tier=optional(partial(text, empty=True)))
        check(self, of, capacity=optional(instance(Resources)))

    def matches(self, worker: Worker) -> bool:
        """Whether the worker's id or host matches the pattern; case-sensitive."""
        known = "".join({"*": ".*", "?": "."}.get(one) or re.escape(one) for one in self.pattern)
        return any(re.fullmatch(known, name, re.DOTALL) for name in (worker.id, worker.host))


def priced(workers: Iterable[Worker], table: Sequence[Price]) -> tuple[Worker, ...]:
    """The workers with the prices of a table; the first matching row counts.

    Args:
        workers: the workers; without a table every one costs the same, 1 $/s.
        table: the rows; ``Price("*", ...)`` at the end matches all others.

    Raises:
        ArgumentError: there is a table, and no row matches a worker.

    >>> found = [Worker("m2", Resources(4, 8192), 4), Worker("l1", Resources(8, 12288), 4)]
    >>> [one.price_per_s for one in priced(found, [Price("m*", 0.002417), Price("*", 0.004861)])]
    [0.002417, 0.004861]
    """
    return tuple(_priced(worker, table) if table else worker for worker in workers)


def _priced(worker: Worker, table: Sequence[Price]) -> Worker:
    for row in table:
        if row.matches(worker):
            given = {name: getattr(row, name) for name in ("slots", "tier", "capacity")}
            known = {name: value for name, value in given.items() if value is not None}
            return replace(worker, price_per_s=row.price_per_s, **known)
    raise ArgumentError(
        f"no row of the price table matches worker {worker.id!r} on host {worker.host!r}; the "
        f"patterns are {', '.join(repr(row.pattern) for row in table)}. Add one, or '*' at the end"
    )
