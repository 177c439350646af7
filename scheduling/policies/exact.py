"""Exact: the cheapest placement, for small cases.

Assumes that rent and network are all that counts: it places as many tasks as can be placed, and of
these placements finds one with the least weighted $/s. Loads may be uneven.

Source: branch and bound, the largest tasks first, beginning with what local search finds. Cut off
are branches whose rent so far, and the least rent of more workers for what is left, are no better;
equal tasks and equal unused workers are tried in one order only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from scheduling.cost import CostModel
from scheduling.errors import ArgumentError, TooLargeError
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.capacity import CapacityLedger
from scheduling.policies.cetsa import CETSA
from scheduling.policies.local_search import LocalSearch, objective

__all__ = ["Exact"]

_ROUNDING = 1e-6  # cores, MB: what is missing by less is there


@dataclass(frozen=True)
class Exact:
    """Find the cheapest placement; for some 12 workers and 20 tasks.

    Args:
        cost: prices and weights of rent and network.
        max_steps: the maximum number of tried placements of a task; default 200,000.

    Raises:
        ArgumentError: ``max_steps`` is below 1.
        TooLargeError: ``max_steps`` were not enough; use :class:`LocalSearch`.

    Complexity: exponential in the tasks at worst.
    """

    cost: CostModel = field(default_factory=CostModel)
    max_steps: int = 200_000
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ArgumentError(f"max_steps={self.max_steps!r}: give 1 or more")

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        start = LocalSearch(CETSA(by_price=True), self.cost).plan(graph, snapshot)
        search = _Search(graph, snapshot, self)
        search.best = (
            len(start.unplaced),
            objective(self.cost, start.placement, graph, snapshot),
        )
        search.best_at = {
            task: search.positions[worker] for task, worker in start.placement.items()
        }
        search.descend(0, -1)
        ledger = CapacityLedger(graph, snapshot)
        for task in graph.tasks:
            if task.id in search.best_at:
                ledger.place(task, search.best_at[task.id], "the cheapest placement of all tasks")
        return ledger.plan(self.name)


class _Search:
    """One search; ``best`` is (tasks unplaced, weighted $/s), ``best_at`` where they are."""

    best: tuple[int, float]
    best_at: dict[str, int]

    def __init__(self, graph: JobGraph, snapshot: Snapshot, policy: Exact) -> None:
        self.ledger = CapacityLedger(graph, snapshot)
        self.policy = policy
        self.positions = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        self.steps = 0
        cost = policy.cost
        self.rent_weight, self.network_weight = cost.weights[0], cost.weights[1]
        self.paid_network = cost.price_per_byte > 0 and self.network_weight > 0
        self.tasks: Sequence[Task] = sorted(
            graph.tasks,
            key=lambda t: (-t.demand.cpu_cores, -t.demand.memory_mb, -t.demand.disk_mb),
        )
        self.neighbours = graph.neighbours
        self.prices = [worker.price_per_s * self.rent_weight for worker in snapshot.workers]
        self.used = [0] * len(self.prices)
        self.rent = 0.0
        self.network = 0.0
        self.unplaced = 0
        alone = [worker.host for worker in snapshot.workers]
        # Workers of one class can stand in for one another as long as they are empty.
        self.classes = [
            (
                snapshot.free[worker.id],
                snapshot.free_slots[worker.id],
                worker.price_per_s,
                worker.id
                if self.paid_network and (alone.count(worker.host) > 1 or cost.distance)
                else "",
            )
            for worker in snapshot.workers
        ]
        # What is left to place from each position on: tasks, cores, MB; the least of each.
        self.left: list[tuple[int, float, float, float, float]] = [(0, 0.0, 0.0, 1e99, 1e99)]
        for task in reversed(self.tasks):
            count, cpu, memory, least_cpu, least_memory = self.left[-1]
            need = task.demand
            self.left.append(
                (
                    count + 1,
                    cpu + need.cpu_cores,
                    memory + need.memory_mb,
                    min(least_cpu, need.cpu_cores),
                    min(least_memory, need.memory_mb),
                )
            )
        self.left.reverse()

    def descend(self, at: int, last: int) -> None:
        """Place the tasks from ``at`` on; the one before went to worker ``last``."""
        self.steps += 1
        if self.steps > self.policy.max_steps:
            raise TooLargeError(
                f"{len(self.tasks)} tasks on {len(self.prices)} workers: no optimum was proven "
                f"after max_steps={self.policy.max_steps} placements. Give more steps, or use "
                "LocalSearch"
            )
        if at == len(self.tasks):
            found = (self.unplaced, self.rent + self.network)
            if found < (self.best[0], self.best[1] - 1e-12):
                self.best, self.best_at = found, dict(self.ledger.at)
            return
        if not self._promising(at):
            return
        task = self.tasks[at]
        first = last if at and self._alike(task, self.tasks[at - 1]) else -1
        tried = set()
        choices = []
        for i in range(max(first, 0), len(self.prices)):
            if not self.used[i]:
                if self.classes[i] in tried:
                    continue
                tried.add(self.classes[i])
            if self.ledger.fits(task, i):
                extra = self._network(task, i)
                choices.append((extra + (0 if self.used[i] else self.prices[i]), i, extra))
        for _, i, extra in sorted(choices):
            opened = 0.0 if self.used[i] else self.prices[i]
            self.ledger.place(task, i, "")
            self.used[i] += 1
            self.rent += opened
            self.network += extra
            self.descend(at + 1, i)
            self.network -= extra
            self.rent -= opened
            self.used[i] -= 1
            self.ledger.release(task)
        self.unplaced += 1
        self.descend(at + 1, len(self.prices))
        self.unplaced -= 1

    def _alike(self, one: Task, other: Task) -> bool:
        linked = self.paid_network and (self.neighbours[one.id] or self.neighbours[other.id])
        return one.demand == other.demand and not linked

    def _network(self, task: Task, i: int) -> float:
        if not self.paid_network:
            return 0.0
        cost, hosts = self.policy.cost, self.ledger.workers
        return (
            self.network_weight
            * cost.price_per_byte
            * sum(
                bytes_per_s * cost.far(hosts[i].host, hosts[self.ledger.at[other]].host)
                for other, bytes_per_s in self.neighbours[task.id]
                if other in self.ledger.at
            )
        )

    def _promising(self, at: int) -> bool:
        """Whether what is left may still be placed better than the best so far."""
        unplaced, limit = self.best[0], self.best[1] - 1e-12
        if self.unplaced != unplaced:
            return self.unplaced < unplaced
        # No further task may be left out, so workers for all of them must be paid for.
        count, cpu, memory, least_cpu, least_memory = self.left[at]
        closed: list[tuple[float, float, float, float]] = []
        for i, price in enumerate(self.prices):
            holds = min(
                self.ledger.slots[i],
                self.ledger.cpu[i] // least_cpu if least_cpu else count,
                self.ledger.memory[i] // least_memory if least_memory else count,
            )
            if self.used[i]:
                count -= int(holds)
                cpu -= self.ledger.cpu[i]
                memory -= self.ledger.memory[i]
            else:
                closed.append((price, holds, self.ledger.cpu[i], self.ledger.memory[i]))
        spare = limit - self.rent - self.network
        return all(
            _cover(need, [(one[0], one[k]) for one in closed]) < spare
            for k, need in ((1, float(count)), (2, cpu), (3, memory))
        )


def _cover(need: float, offers: list[tuple[float, float]]) -> float:
    """A least price for ``need`` of something that is offered as (price, amount).

    The dearer of two bounds: parts of offers, the cheapest for its amount first; and as many of the
    cheapest offers as it takes of the largest. Infinite if there is too little.
    """
    offers = [offer for offer in offers if offer[1] > 0]
    parts, left = 0.0, need
    for price, amount in sorted(offers, key=lambda offer: offer[0] / offer[1]):
        if left <= _ROUNDING:
            break
        parts += price * min(1.0, left / amount)
        left -= amount
    if left > _ROUNDING:
        return float("inf")
    count, left = 0, need
    for amount in sorted((amount for _, amount in offers), reverse=True):
        if left <= _ROUNDING:
            break
        count += 1
        left -= amount
    wholes = sum(sorted(price for price, _ in offers)[:count])
    # What is taken as free is a little too large: see Room.
    return max(parts * (1 - 1e-8), wholes)
