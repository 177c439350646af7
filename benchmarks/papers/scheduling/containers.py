"""Twister2's schedulers as its code has them: what differs from its text, and from our policies.

Round robin checks no sizes, and places nothing unless there are more instances than containers.
First fit has containers of one size, made from defaults: two instances and 1 % more, in whole
units; its check adds the padding as one unit to each resource, which leaves room for one default
instance. Data locality computes distances, and hands instances out in turns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from scheduling import (
    Assignment,
    DataNode,
    JobGraph,
    Plan,
    Resources,
    Snapshot,
    Task,
    Unplaced,
    Worker,
)
from scheduling.cost import rent_per_s
from scheduling.errors import ArgumentError, InfeasibleError

INSTANCE = Resources(cpu_cores=2.0, memory_mb=512.0, disk_mb=500.0)
"""What an instance takes where nothing is said."""

CONTAINER = Resources(cpu_cores=4, memory_mb=1034, disk_mb=1010)
"""The size of a container in first fit."""

_ONE_OF_EACH = Resources(1.0, 1.0, 1.0)  # the padding's percentage, taken as a number

PADDING = Resources(cpu_cores=1.0, memory_mb=2.0, disk_mb=12.0)
"""What a container has besides its instances."""


def container_sizes(
    plan: Plan,
    graph: JobGraph,
    snapshot: Snapshot,
    *,
    padding: Resources = PADDING,
    compat: Literal["twister2"] | None = None,
) -> dict[str, Resources]:
    """How large the containers of a plan are, by worker, for round robin and data locality.

    A container is as large as its worker, where the worker's CPU, memory and disk are all given
    (not 0); else the sum of its instances and the padding. ``compat="twister2"`` adds the
    instances' disk to the CPU, as the original does.
    """
    sizes = {}
    for worker in snapshot.workers:
        size = worker.capacity
        if not (size.cpu_cores > 0 and size.memory_mb > 0 and size.disk_mb > 0):
            size = padding
            for task in plan.by_worker.get(worker.id, ()):
                need = graph.by_id[task].demand
                cpu = need.disk_mb if compat else need.cpu_cores
                size += Resources(cpu, need.memory_mb, need.disk_mb)
        sizes[worker.id] = size
    return sizes


def distance(worker: Worker, node: DataNode) -> float:
    """Twister2's distance, without the data size: |2bl of the worker - 2bl of the data node|."""
    return abs(
        2 * worker.bandwidth_bytes_per_s * worker.latency_s
        - 2 * node.bandwidth_bytes_per_s * node.latency_s
    )


def round_robin(graph: JobGraph, snapshot: Snapshot) -> Plan:
    """Instance i of every operator to container i mod n; may exceed a worker's capacity."""
    n = len(snapshot.workers)
    if n >= len(graph.tasks) or not n:
        reason = f"{n} containers are not fewer than {len(graph.tasks)} instances"
        return _nothing(graph, reason if n else "there is no worker")
    turns = [(i, task) for tasks in graph.operators.values() for i, task in enumerate(tasks)]
    return _in_turns(turns, snapshot)


def data_locality(graph: JobGraph, snapshot: Snapshot) -> Plan:
    """The instances in turns, each operator continuing where the last one ended."""
    if not snapshot.workers:
        return _nothing(graph, "there is no worker")
    slots = sum(worker.slots for worker in snapshot.workers)
    if len(graph.tasks) > slots:
        raise ArgumentError(
            f"{len(graph.tasks)} instances are more than the {slots} that the workers hold; "
            "add workers, or lower the parallelism"
        )
    every = [task for tasks in graph.operators.values() for task in tasks]
    return _in_turns(list(enumerate(every)), snapshot)


def first_fit(graph: JobGraph, snapshot: Snapshot, container: Resources = CONTAINER) -> Plan:
    """Operators by the memory of an instance; the workers are containers of one size."""
    operators = sorted(graph.operators.values(), key=lambda tasks: -tasks[0].demand.memory_mb)
    names, used = [worker.id for worker in snapshot.workers], list[Resources]()
    placed, left = [], []
    for task in (task for tasks in operators for task in tasks):
        need = task.demand + _ONE_OF_EACH
        if not need.within(container):
            raise InfeasibleError(
                f"task {task.id!r} needs {task.demand}, and one unit of padding of each; "
                f"a container has {container}. Give a larger container"
            )
        holds = (i for i, taken in enumerate(used) if (taken + need).within(container))
        at = next(holds, len(used))
        if at == len(names):
            full = f"all {at} containers are full" if at else "there is no worker"
            left.append(Unplaced(task.id, full))
            continue
        used += [Resources(0, 0)] * (at == len(used))
        used[at] += task.demand
        placed.append(Assignment(task.id, names[at], f"container {at} of {len(used)} in use"))
    plan = Plan(tuple(placed), tuple(left), policy="twister2")
    return replace(plan, score=rent_per_s(plan, snapshot))


def _nothing(graph: JobGraph, why: str) -> Plan:
    return Plan((), tuple(Unplaced(task.id, why) for task in graph.tasks), policy="twister2")


def _in_turns(turns: list[tuple[int, Task]], snapshot: Snapshot) -> Plan:
    names = [worker.id for worker in snapshot.workers]
    n = len(names)
    placed = (Assignment(task.id, names[i % n], f"turn {i} of {n} workers") for i, task in turns)
    plan = Plan(tuple(placed), policy="twister2")
    return replace(plan, score=rent_per_s(plan, snapshot))
