"""Resource-aware: places communicating tasks close together, on workers of a suitable size.

Assumption: demands are known. Tasks follow the streams, operators alternate; each task goes to
the worker whose free resources are nearest to its demand and whose network is nearest to the
worker that the last task went to.

Source: B. Peng et al., "R-Storm: Resource-Aware Scheduling in Storm", Middleware 2015, and Storm's
ResourceAwareScheduler, for comparison. There CPU may be overcommitted; here delta limits CPU too.
Resources are shares of the largest worker, so that cores and MB can be added.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduling.errors import ArgumentError
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.policies.capacity import CapacityLedger

__all__ = ["ResourceAware"]


@dataclass(frozen=True)
class ResourceAware:
    """Place each task on the nearest worker in resources and network.

    Args:
        cpu_weight: of the squared distance in CPU.
        memory_weight: of the squared distance in memory.
        network_weight: of the squared distance in the network: 0 on the reference worker, one
            half on its host, 1 elsewhere. All weights are 1 by default.

    Raises:
        ArgumentError: a weight is negative.

    Complexity: O(tasks x workers) in numpy.
    """

    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    network_weight: float = 1.0
    name: ClassVar[str] = "resource-aware"

    def __post_init__(self) -> None:
        for name in ("cpu_weight", "memory_weight", "network_weight"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name}={getattr(self, name)!r}: give a number, at least 0")

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks along the streams; see :class:`scheduling.Policy`."""
        ledger = CapacityLedger(graph, snapshot)
        if not ledger.workers:
            return ledger.plan(self.name)
        cpu, memory = np.array(ledger.cpu), np.array(ledger.memory)
        slots, disk = np.array(ledger.slots), np.array(ledger.disk)
        per_cpu, per_memory = 1 / max(cpu.max(), 1e-12), 1 / max(memory.max(), 1e-12)
        codes = {name: code for code, name in enumerate({w.host: 0 for w in ledger.workers})}
        hosts = np.array([codes[worker.host] for worker in ledger.workers])
        # It starts where most is free.
        reference = int(np.argmax(np.where(slots > 0, cpu * per_cpu + memory * per_memory, -1.0)))
        for task in _along(graph):
            need = task.demand
            fits = (slots > 0) & (cpu >= need.cpu_cores) & (memory >= need.memory_mb)
            fits &= disk >= need.disk_mb
            if not fits.any():
                continue
            apart = np.where(hosts == hosts[reference], 0.5, 1.0)
            apart[reference] = 0.0
            squares = (
                self.cpu_weight * ((cpu - need.cpu_cores) * per_cpu) ** 2
                + self.memory_weight * ((memory - need.memory_mb) * per_memory) ** 2
                + self.network_weight * apart**2
            )
            reference = int(np.argmin(np.where(fits, squares, np.inf)))
            ledger.place(
                task, reference, f"at distance {squares[reference] ** 0.5:.3f}, the nearest"
            )
            slots[reference] = ledger.slots[reference]
            cpu[reference] = ledger.cpu[reference]
            memory[reference] = ledger.memory[reference]
            disk[reference] = ledger.disk[reference]
        return ledger.plan(self.name)


def _along(graph: JobGraph) -> list[Task]:
    """The tasks, alternating between operators, the operators breadth first along the streams."""
    follows: dict[str, dict[str, None]] = {name: {} for name in graph.operators}
    has_source: set[str] = set()
    for edge in graph.edges:
        source, target = graph.by_id[edge.source].operator, graph.by_id[edge.target].operator
        if source != target:
            follows[source][target] = None
            has_source.add(target)
    order: dict[str, None] = {}
    # Operators of a circle have no beginning; they come in the order of the graph.
    waiting = deque([name for name in graph.operators if name not in has_source])
    starts = iter(graph.operators)
    while len(order) < len(graph.operators):
        if not waiting:
            waiting.append(next(name for name in starts if name not in order))
        name = waiting.popleft()
        if name not in order:
            order[name] = None
            waiting.extend(follows[name])
    turns = [deque(graph.operators[name]) for name in order]
    tasks = []
    while turns:
        tasks += [one.popleft() for one in turns]
        turns = [one for one in turns if one]
    return tasks
