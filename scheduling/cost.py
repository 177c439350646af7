"""Prices of workers, and the cost of a placement (CETSA, section 3.1, Eqs. 6-16)."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Resources, Snapshot, Worker
from scheduling.model.checks import AnyText, Checked, amounts, is_number

Placed = Plan | Mapping[str, str]


def rent_per_s(plan: Placed, snapshot: Snapshot) -> float:
    """The price in $/s of all workers that have a task, of a plan or a placement. O(tasks)."""
    placement = plan.placement if isinstance(plan, Plan) else plan
    return math.fsum(snapshot.by_id[name].price_per_s for name in set(placement.values()))


class Costs(NamedTuple):
    """The cost of a plan in $: rent RC, network CC, scheduling SC, their weighted sum WEC."""

    rc: float
    cc: float
    sc: float
    wec: float


def _weights(name: str, given: Any, of: str = "") -> tuple[float, ...]:
    weights = tuple(given) if isinstance(given, list | tuple) else ()
    good = len(weights) == 3 and all(is_number(one) and one >= 0 for one in weights)
    if not good or abs(sum(weights) - 1) > 1e-9:
        raise ArgumentError(f"{name}={given!r}: give three numbers, at least 0 each, that sum to 1")
    return weights


@dataclass(frozen=True)
class CostModel(Checked):
    """The cost model of placements.

    Args:
        weights: of rent, network and scheduling in WEC (Eqs. 15, 16); default one third each.
        price_per_byte: P_f, the price of a byte between hosts in $; default 0.
        distance: D of Eq. 10 by pair of hosts, in either order; 1 (default) where it is missing.

    >>> from scheduling.model import Assignment, Resources, Worker
    >>> workers = tuple(Worker(name, Resources(4, 8192), 4, 0.25) for name in "ab")
    >>> plan = Plan((Assignment("t1", "a", "cheap"), Assignment("t2", "a", "cheap")))
    >>> CostModel().costs(plan, JobGraph(()), Snapshot(0.0, workers), seconds=10).rc
    2.5
    """

    weights: Annotated[tuple[float, float, float], _weights] = (1 / 3, 1 / 3, 1 / 3)
    price_per_byte: float = 0.0
    distance: Annotated[Mapping[tuple[str, str], float], amounts] = field(
        default_factory=dict, hash=False
    )

    def costs(self, plan: Plan, graph: JobGraph, snapshot: Snapshot, seconds: float) -> Costs:
        """The costs of a ``plan`` of a ``graph`` on a ``snapshot``'s workers (Eqs. 6-16).

        The job runs for ``seconds`` on the slowest worker (ET_max, Eq. 8). O(tasks + edges).
        """
        rent, network = rent_per_s(plan, snapshot), self.network_per_s(plan, graph, snapshot)
        parts = rent * seconds, network * seconds, rent * plan.scheduling_time_s
        wec = math.fsum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        return Costs(*parts, wec)

    def network_per_s(self, plan: Placed, graph: JobGraph, snapshot: Snapshot) -> float:
        """$/s of a ``graph``'s streams between a ``snapshot``'s hosts. By ``plan``; Eqs. 10-12."""
        placement = plan.placement if isinstance(plan, Plan) else plan
        host = {task: snapshot.by_id[worker].host for task, worker in placement.items()}
        return self.price_per_byte * math.fsum(
            edge.bytes_per_s * self.far(host[edge.source], host[edge.target])
            for edge in graph.edges
            if edge.source in host and edge.target in host
        )

    def far(self, one: str, other: str) -> float:
        """The distance of hosts ``one`` and ``other``: 0 if equal, else as given, else 1."""
        if one == other:
            return 0.0
        return self.distance.get((one, other), self.distance.get((other, one), 1.0))


@dataclass(frozen=True)
class Price(Checked):
    """The price and the size of workers whose names match a pattern.

    Args:
        pattern: of the id or host: ``*`` is any text, ``?`` one character; all else stands for
            itself, also the brackets of ``[fe80::1]``.
        price_per_s: the price in $/s; default 1.
        slots: the number of concurrent tasks; None (default), as for the next two: the worker's.
        tier: the name of the kind; default None.
        capacity: cores and memory; default None.
    """

    pattern: str
    price_per_s: float = 1.0
    slots: int | None = None
    tier: AnyText | None = None
    capacity: Resources | None = None
    _of: ClassVar[str] = " of pattern {pattern!r}"

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
    found = []
    for worker in workers if table else ():
        row = next((row for row in table if row.matches(worker)), None)
        if row is None:
            known = f"the patterns are {', '.join(repr(row.pattern) for row in table)}"
            raise ArgumentError(
                f"no row of the price table matches worker {worker.id!r} on host {worker.host!r}; "
                f"{known}. Add one, or '*' at the end"
            )
        given = {name: one for name, one in row.__dict__.items() if one is not None}
        del given["pattern"]
        found.append(replace(worker, **given))
    return tuple(found if table else workers)
