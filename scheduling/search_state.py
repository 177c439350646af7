"""A placement while a search changes it: what it costs, kept as it changes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from scheduling.cost import LEAST_CORES
from scheduling.objective import Indices, Numbers, Pricing

__all__ = ["BETTER", "CPU", "Best", "SearchState", "less"]

BETTER = 1e-9  # less is no gain, as a share
CPU = 1  # the column of what may be exceeded; 0, 2 and 3 are slots, memory and disk
_LEFT_OUT = 1e12  # what a task without a worker costs

Best = tuple[float, Indices]  # the cost of a placement, and the placement


class SearchState(Pricing):
    """A placement while it is changed: what each worker has left, and what it costs.

    Some arrays by task have one row more, for nothing: what a task that moves is exchanged for.
    """

    def begin(
        self,
        start: Mapping[str, str],
        forbidden: Collection[tuple[str, str]],
        room: Numbers,
        needs: Numbers,
        even: float,
    ) -> None:
        """Place the tasks that have room, or that run there already; note what is not tried."""
        self.even, self.free, self.need = even, room, np.vstack([needs, np.zeros(4)])
        self.cpu = np.append(self.cpu, 0.0)
        self.all_cpu = float(self.cpu.sum())
        by_size = np.lexsort((*-needs.T[::-1], -self.cpu[:-1]))
        self.rank = np.argsort(by_size).tolist()  # of each task, the largest first
        self.limit = np.maximum(self.free[:, CPU], LEAST_CORES)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.load, self.placed = np.zeros(self.workers), 0.0
        self.at = np.full(self.tasks, -1)
        self.may = np.ones((self.tasks + 1, self.workers), bool)
        number, position = self.number, self.position
        for name, worker in forbidden:
            if name in number and worker in position:
                self.may[number[name], position[worker]] = False
        # What each task costs on each worker by its move and by what it reads; and, where its row
        # is not stale, by its streams with the tasks that are placed.
        alone = self.moves(np.arange(self.tasks)[:, None], np.arange(self.workers)) + self.reads
        self.alone = np.vstack([alone, np.zeros(self.workers)])
        self._rows, self._stale = self.alone.copy(), np.zeros(self.tasks + 1, bool)
        self._sum: float | None = None
        self._talk()
        self.enter()
        at, present = self.indices(start).tolist(), self.present.tolist()
        for t in [number[name] for name in start if name in number]:
            fits = at[t] == present[t] or (self.free[at[t]] >= self.need[t]).all()
            if fits and at[t] >= 0:
                self.put(t, at[t])

    def _talk(self) -> None:
        """Of each task the others that it talks to, and the bytes per second to and from them."""
        one, other = self.ends[:, self.ends[0] != self.ends[1]]
        size = self.bytes_per_s[self.ends[0] != self.ends[1]]
        which, others = np.concatenate([one, other]), np.concatenate([other, one])
        sizes, order = np.kron(np.eye(2), size).T, np.argsort(which, kind="stable")
        cuts = np.searchsorted(which[order], np.arange(self.tasks + 1)).tolist()
        of = [order[slice(*cut)] for cut in itertools.pairwise(cuts)]
        self.talks = [(others[its], sizes[its].ravel()) for its in of]
        self.streams, shape = (one, other, size), (self.workers + 1, 2, self.workers)
        self.byte = np.zeros(shape)  # by the worker of the other task; the last is none
        if self.byte_costs is not None:
            self.byte[:-1, 0], self.byte[:-1, 1] = self.byte_costs.T, self.byte_costs

    def enter(self, opening: float | None = None, taste: Any = 0.0, shut: Any = False) -> None:
        """Set what the first task on each worker costs, and what workers seem dearer by, in $/s.

        ``opening`` is the weight of the rent, the objective's by default; ``shut`` ones take none.
        """
        opening = self.objective.rent if opening is None else opening
        self.later = np.where(shut, np.inf, self.objective.horizon_s * (taste + 0 * self.price))
        self.first = self.later + self.objective.horizon_s * opening * self.price
        self.entry = np.where(self.count > 0, self.later, self.first)
        self.margins: tuple[Any, ...] | None = None

    def put(self, t: int, to: int) -> int:
        """Place a task on a worker, or nowhere (-1); where it was."""
        was, self.at[t] = int(self.at[t]), to
        cpu, self._sum = float(self.cpu[t]), None
        self._stale[self.talks[t][0]] = True
        for i, sign in ((was, -1), (to, 1)):
            if i >= 0:
                count = int(self.count[i]) + sign
                self.count[i] = count
                if count == (sign > 0):  # its first task has come, or its last one is gone
                    self.entry[i] = self.later[i] if count else self.first[i]
                    self.margins = None
                used = float(self.used[i]) + sign * cpu if count else 0.0
                self.used[i], self.load[i] = used, used / self.speed[i]
                self.placed += sign * cpu
                self.free[i] -= sign * self.need[t]
        return was

    def own(self, t: int) -> Numbers:
        """What a task costs on each worker by its move, by what it reads, and by its streams."""
        if self._stale[t]:
            others, size = self.talks[t]
            there = self.byte[self.at[others]].reshape(len(size), self.workers)
            self._rows[t], self._stale[t] = self.alone[t] + size @ there, False
        row: Numbers = self._rows[t]
        return row

    def owns(self, tasks: Indices) -> Numbers:
        """What tasks (rows) cost so."""
        for t in tasks[self._stale[tasks]].tolist():
            self.own(t)
        rows: Numbers = self._rows[tasks]
        return rows

    @property
    def own_sum(self) -> float:
        """What all placed tasks cost by their moves, by what they read and by their streams."""
        if self._sum is None:
            (one, other, size), t = self.streams, np.flatnonzero(self.at >= 0)
            paid = size * self.byte[self.at[one], 1, self.at[other]] * (self.at[other] >= 0)
            self._sum = float(self.alone[t, self.at[t]].sum() + paid.sum())
        return self._sum

    def restore(self, at: Indices) -> None:
        """Go back to an earlier placement."""
        changed = np.flatnonzero(self.at != at).tolist()
        for t in changed:
            self.put(t, -1)
        for t in changed:
            if at[t] >= 0:
                self.put(t, int(at[t]))

    def on(self, i: int) -> list[int]:
        """The tasks of a worker, the largest first."""
        return sorted(np.flatnonzero(self.at == i).tolist(), key=self.rank.__getitem__)

    def better(self, than: Best | None = None) -> Best:
        """The present placement with its cost, if that is less than another's."""
        total = self.total()
        return than if than and not less(total, than[0]) else (total, self.at.copy())

    def rent(self) -> float:
        """The weighted $/s of the workers in use."""
        return self.objective.rent * float(self.price @ (self.count > 0))

    def paid_for(self) -> tuple[float, float, Any, Any]:
        """The cores and the $/s of the workers that are compared; the same with one more each."""
        if self.margins is None:
            counted = self.compared(self.count)
            cores, paid = float(self.speed @ counted), float(self.price @ counted)
            self.margins = cores, paid, cores + self.speed * ~counted, paid + self.price * ~counted
        return self.margins

    def uneven(self) -> float:
        """The weighted $/s of the imbalance."""
        if not self.objective.imbalance:
            return 0.0
        squares, (cores, paid, _, _) = float(self.used @ self.load), self.paid_for()
        return float(
            self.objective.waiting(float(self.load.max()), squares, self.placed, cores, paid)
        )

    def total(self) -> float:
        """The cost of the placement."""
        left_out = self.tasks - int(self.count.sum())
        per_s = self.rent() + self.uneven()
        return self.objective.horizon_s * per_s + self.own_sum + _LEFT_OUT * left_out

    def place(self, t: int, stays: int = -1) -> bool:
        """Place a task, now nowhere, where it has room and costs least; whether it has any.

        On worker ``stays`` it has room in any case, and remains there if it costs no more.
        """
        fits = (self.free >= self.need[t]).all(axis=1) & self.may[t]
        if stays >= 0:
            fits[stays] = True
        own, known = self.own(t), self._sum
        cost = self.entry + own
        if self.objective.imbalance:
            cpu, (_, _, cores, paid) = self.cpu[t], self.paid_for()
            more = cpu / self.speed
            squares = self.used @ self.load + more * (2 * self.used + cpu)
            highest = np.maximum(self.load + more, self.load.max())
            uneven = self.objective.waiting(highest, squares, self.placed + cpu, cores, paid)
            cost += self.objective.horizon_s * uneven
        cost[~fits] = np.inf
        i = int(cost.argmin())
        i = i if stays < 0 or less(cost[i], cost[stays]) else stays
        if cost[i] == np.inf:
            return False
        self.put(t, i)
        if known is not None:
            self._sum = known + float(own[i])
        return True


def less(one: float, other: float) -> bool:
    """Whether one cost is less than another by more than rounding."""
    return one < other - BETTER * abs(other)
