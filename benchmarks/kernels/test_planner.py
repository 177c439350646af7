"""The planner: 1,000 tasks on 100 workers by each policy."""

from __future__ import annotations

import pytest

from benchmarks.kernels.conftest import Timed
from benchmarks.placement.feasible import assert_feasible
from benchmarks.placement.planning import cluster
from scheduling import POLICIES, JobGraph, Snapshot, policy

_SLOW = ("exact", "local-search")  # no proven optimum at this size; it takes what time it is given
_TIMED = [name for name in POLICIES if name not in _SLOW]

Asked = tuple[JobGraph, Snapshot]


@pytest.fixture(scope="module")
def asked() -> Asked:
    return cluster(1_000, 100, seed=1_000)


def test_loop_over_all_pairs(timed: Timed, asked: Asked) -> None:
    graph, snapshot = asked
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
    timed(place, len(needs), unit="task")


@pytest.mark.parametrize("name", _TIMED, ids="planned, {}".format)
def test_planned(timed: Timed, asked: Asked, name: str) -> None:
    assert_feasible(policy(name).plan(*asked), *asked)
    timed(lambda: policy(name).plan(*asked), len(asked[0].tasks), "loop over all pairs", "task")
