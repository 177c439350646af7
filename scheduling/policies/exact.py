"""The cheapest placement, for small cases.

It assumes that rent and network are all that counts; loads may be uneven. As many tasks are placed
as can be, and of these placements one is found with the least weighted $/s, to 1e-10 of the dearest
worker or stream. Source: a mixed-integer program for HiGHS (Huangfu and Hall, 2018), streams
linearised as in quadratic assignment (Adams and Johnson, 1994).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduling.cost import CostModel
from scheduling.errors import TooLargeError
from scheduling.model import JobGraph, Plan, Snapshot, Task
from scheduling.model.checks import Checked, whole
from scheduling.room import Room

_DEAREST = 1e4  # of all that is paid for, as HiGHS sees it: it takes 1e-6 for nothing


@dataclass(frozen=True)
class Exact(Checked):
    """Find the cheapest placement; for some 12 workers and 20 tasks.

    Args:
        cost: prices and weights of rent and network.
        max_nodes: nodes of branch and bound that are searched before it gives up; default 2,000.

    Raises:
        TooLargeError: ``max_nodes`` were not enough; use :class:`LocalSearch`.
        ImportError: scipy is not installed: ``pip install 'bsjoin[exact]'``.

    Complexity: exponential in the tasks at worst.
    """

    cost: CostModel = field(default_factory=CostModel)
    max_nodes: Annotated[int, partial(whole, least=1)] = 2_000
    name: ClassVar[str] = "exact"
    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.0, 1.0)

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks; see :class:`scheduling.Policy`."""
        room = Room(graph, snapshot)
        if graph.tasks and snapshot.workers:
            for task, i in _Program(graph, snapshot, self).cheapest().items():
                room.place(task, i, "the cheapest placement of all tasks")
        return room.plan(self.name)


_Row = tuple[dict[int, float], float, float]  # a weighted sum of variables, and its bounds


class _Program:
    """The mixed-integer program.

    Variables: which task is on which worker, which worker is rented (0 or 1), and of each stream
    whether both its tasks are placed and on which two hosts (0 to 1).
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot, policy: Exact) -> None:
        self.graph, self.snapshot, self.policy = graph, snapshot, policy
        self.on = np.arange(len(graph.tasks) * len(snapshot.workers)).reshape(len(graph.tasks), -1)
        self.most = np.ones(self.on.size + len(snapshot.workers))
        self.rows: list[_Row] = []
        rent, network, _ = policy.cost.weights
        costs = [0.0] * self.on.size + [rent * one.price_per_s for one in snapshot.workers]
        self._rooms()
        if network * policy.cost.price_per_byte:
            costs += self._streams()
        self.costs = np.array(costs) * (_DEAREST / (np.max(np.abs(costs)) or 1.0))

    def cheapest(self) -> dict[Task, int]:
        """The tasks that are placed, with the positions of their workers."""
        every, tasks = _each(range(self.on.size)), len(self.graph.tasks)
        found = self._solve(self.costs, (every, tasks, tasks))
        if found is None:  # they do not all fit
            placed = np.where(np.arange(len(self.costs)) < self.on.size, -1.0, 0.0)
            most = len(self._solve(placed) or {})
            found = self._solve(self.costs, (every, most, most))
        return found or {}

    def _rooms(self) -> None:
        """A task is on one worker at most; a worker that has tasks is rented, and has room."""
        empty, needs = Room(self.graph, self.snapshot), self.graph.needs
        self.rows += [(_each(of_task), 0, 1) for of_task in self.on]
        for i, on in enumerate(self.on.T):
            rented, shares = {self.on.size + i: -1.0}, np.zeros(needs.shape)
            fits = np.array([empty.fits(task, i) for task in self.graph.tasks])
            shares[fits] = needs[fits] / empty.free[i]
            self.most[on] = fits
            taken = [dict(zip(on, of_kind, strict=True)) for of_kind in shares.T]
            taken += [{one: 1.0} for one in on]
            self.rows += [(one | rented, -np.inf, 0) for one in taken]

    def _streams(self) -> list[float]:
        """A stream costs the longest way, less what a shorter one saves; what variables cost."""
        cost, position = self.policy.cost, {t.id: k for k, t in enumerate(self.graph.tasks)}
        of = [worker.host for worker in self.snapshot.workers]
        hosts = {one: [i for i, host in enumerate(of) if host == one] for one in of}
        far = np.array([[cost.far(one, other) for other in hosts] for one in hosts])
        shorter = np.argwhere(far < far.max())
        ways = [far.max(), *(far - far.max())[far < far.max()]]
        paid, costs = cost.weights[1] * cost.price_per_byte, list[float]()
        for edge in [one for one in self.graph.edges if one.source != one.target]:
            longest = len(self.most)
            self.most = np.append(self.most, np.ones(len(ways)))
            ends = [self.on[position[edge.source]], self.on[position[edge.target]]]
            both = _each(ends[0]) | _each(ends[1])
            self.rows.append((both | {longest: -1.0}, -np.inf, 1))
            for end, task in enumerate(ends):
                for host, there in enumerate(hosts.values()):
                    saved = longest + 1 + np.flatnonzero(shorter[:, end] == host)
                    self.rows.append((_each(saved) | _each(task[there], -1), -np.inf, 0))
            costs += [paid * edge.bytes_per_s * way for way in ways]
        return costs

    def _solve(self, costs: NDArray[np.float64], *more: _Row) -> dict[Task, int] | None:
        """The placement that costs least, with some more rows; None where there is none."""
        while (values := self._minimum(costs, [*self.rows, *more])) is not None:
            placed = values[: self.on.size].reshape(self.on.shape) > 0.5
            room, crowded = Room(self.graph, self.snapshot), set()
            for t, i in np.argwhere(placed).tolist():
                if not room.first(self.graph.tasks[t], (i,), lambda passed, i: ""):
                    crowded.add(i)
            if not crowded:
                return {self.graph.by_id[task]: i for task, i in room.at.items()}
            # HiGHS takes a bound for kept that is exceeded by 1e-7.
            for i in crowded:
                together = self.on[placed[:, i], i]
                self.rows.append((_each(together), 0, len(together) - 1))
        return None

    def _minimum(self, costs: NDArray[np.float64], rows: list[_Row]) -> NDArray[np.float64] | None:
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import coo_array
        except ImportError as error:
            hint = "which is not installed: pip install 'bsjoin[exact]'"
            raise ImportError(f"the exact policy needs scipy, {hint}") from error
        at = [(r, v, weight) for r, (row, _, _) in enumerate(rows) for v, weight in row.items()]
        r, v, weights = zip(*at, strict=True)
        places = np.array([r, v], np.int32)  # before scipy 1.15 no other integers will do
        matrix = coo_array((weights, tuple(places)), shape=(len(rows), len(costs))).tocsr()
        _, least, most = zip(*rows, strict=True)
        answer = milp(
            costs,
            integrality=np.arange(len(costs)) < self.on.size + len(self.snapshot.workers),
            bounds=Bounds(0, self.most),
            constraints=LinearConstraint(matrix, least, most),
            options={"node_limit": self.policy.max_nodes, "mip_rel_gap": 0},
        )
        if answer.status not in (0, 2):
            case = f"{len(self.graph.tasks)} tasks on {len(self.snapshot.workers)} workers"
            tried = f"no optimum was proven after max_nodes={self.policy.max_nodes} nodes"
            raise TooLargeError(f"{case}: {tried}. Give more nodes, or use LocalSearch")
        return None if answer.x is None else np.asarray(answer.x)


def _each(variables: Iterable[Any], weight: float = 1.0) -> dict[int, float]:
    return dict.fromkeys(variables, weight)
