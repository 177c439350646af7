"""Sizes of Twister2's containers and instances: its defaults, as text and as code have them.

Source: Twister2's streaming schedulers and their settings. RAM and disk in MB.
"""

from __future__ import annotations

from typing import Literal

from scheduling.model import JobGraph, Plan, Resources, Snapshot

__all__ = [
    "CONTAINER",
    "INSTANCE",
    "INSTANCES",
    "PADDING",
    "PADDING_UNIT",
    "container_size",
    "container_sizes",
]

INSTANCE = Resources(cpu_cores=2.0, memory_mb=512.0, disk_mb=500.0)
"""What an instance takes where nothing is said."""

INSTANCES = 2
"""Instances to a container where nothing is said."""

PADDING = Resources(cpu_cores=1.0, memory_mb=2.0, disk_mb=12.0)
"""What a container has besides its instances."""

PADDING_UNIT = Resources(1.0, 1.0, 1.0)
"""What first fit's check adds to each resource: its percentage, taken as a number."""

_PADDING_PERCENT = 1


def container_size(instances: int = INSTANCES, instance: Resources = INSTANCE) -> Resources:
    """The size of a container in first fit: instances, 1 % more, rounded to whole units.

    >>> container_size()
    Resources(cpu_cores=4, memory_mb=1034, disk_mb=1010)
    """
    padded = instance * (instances * (1 + _PADDING_PERCENT / 100))
    return Resources(round(padded.cpu_cores), round(padded.memory_mb), round(padded.disk_mb))


CONTAINER = container_size()


def container_sizes(
    plan: Plan,
    graph: JobGraph,
    snapshot: Snapshot,
    *,
    padding: Resources = PADDING,
    compat: Literal["twister2"] | None = None,
) -> dict[str, Resources]:
    """How large the containers of a plan are, for round robin and data locality.

    A container is as large as its worker, where the worker's CPU, memory and disk are all given;
    else the sum of its instances and the padding.

    Args:
        plan: where the tasks go.
        graph: the tasks.
        snapshot: the workers; one with 0 of anything counts as not given.
        padding: what a container has besides its instances.
        compat: ``"twister2"`` adds the instances' disk to the CPU, as the original does.

    Returns:
        The size by worker, for every worker of the snapshot.
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
