"""Twister2's sizes of containers and distances, as its text and its code have them."""

from __future__ import annotations

from typing import Literal

from scheduling import DataNode, JobGraph, Plan, Resources, Snapshot, Worker

__all__ = ["PADDING", "container_sizes", "distance"]

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


def distance(worker: Worker, node: DataNode) -> float:
    """Twister2's distance, without the data size: |2bl of the worker - 2bl of the data node|."""
    return abs(
        2 * worker.bandwidth_bytes_per_s * worker.latency_s
        - 2 * node.bandwidth_bytes_per_s * node.latency_s
    )
