"""The planner: 1,000 tasks on 100 workers by each policy."""

from __future__ import annotations

from functools import cache, partial

from benchmarks.kernels.timing import Prepared, Sizes, kernel
from benchmarks.placement.planning import cluster
from scheduling import POLICIES, JobGraph, Snapshot, policy

_SLOW = ("exact", "local-search")  # no proven optimum at this size; it takes what time it is given


@cache
def _asked() -> tuple[JobGraph, Snapshot]:
    return cluster(1_000, 100, seed=1_000)


@kernel("planner", unit="task")
def loop_over_all_pairs(sizes: Sizes) -> Prepared:
    graph, snapshot = _asked()
    free = [worker.usable.cpu_cores for worker in snapshot.workers]
    needs = [task.demand.cpu_cores for task in graph.tasks]

    def place() -> list[int]:
        left, placed = list(free), []
        for need in needs:
            best = -1
            for number in range(len(left)):
                if left[number] >= need and (best < 0 or left[number] < left[best]):
                    best = number
            if best >= 0:
                left[best] -= need
            placed.append(best)
        return placed

    assert sum(number >= 0 for number in place()) > 0
    return place, len(needs)


def _planned(name: str, sizes: Sizes) -> Prepared:
    graph, snapshot = _asked()
    policy(name).plan(graph, snapshot)._check(graph, snapshot)
    return lambda: policy(name).plan(graph, snapshot), len(graph.tasks)


for _name in POLICIES:
    if _name not in _SLOW:
        kernel("planner", "loop over all pairs", "task", f"planned, {_name}")(
            partial(_planned, _name)
        )
