"""A placement while a search changes it: what it costs, kept as it changes."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from scheduling.objective import LEAST_CORES, Indices, Pricing
from scheduling.room import have_room, room_of

BETTER = 1e-9  # less is no gain, as a share
CPU = 1  # the column of what may be exceeded; 0, 2 and 3 are slots, memory and disk

Cost = tuple[int, float]  # tasks without a worker, which are worse than any price; $
Best = tuple[Cost, Indices]  # the cost of a placement, and the placement


class SearchState(Pricing):
    """A placement while it is changed: what each worker has left, and what it costs.

    Some arrays by task have one row more, for nothing: what a task that moves is exchanged for.
    """

    def __init__(
        self, of: Pricing, start: Mapping[str, str], forbidden: Collection[tuple[str, str]],
        even: float,
    ) -> None:  # fmt: skip
        self.__dict__.update(of.__dict__)
        # Tasks of the start that have room, or run there already, are placed.
        self.even, self.free, needs = even, room_of(of.snapshot), of.graph.needs
        self.need = np.vstack([needs, np.zeros(4)])
        by_size = np.lexsort((*-needs.T[::-1], -self.cpu))
        self.rank = np.argsort(by_size).tolist()  # of each task, the largest first
        self.cpu = np.append(self.cpu, 0.0)
        self.limit = np.maximum(self.free[:, CPU], LEAST_CORES)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.load, self.placed = np.zeros(self.workers), 0.0
        self.price_of, self.rent_s = self.price.tolist(), 0.0  # $/s of the workers in use
        self.at = np.full(self.tasks, -1)
        self.may = np.ones((self.tasks + 1, self.workers), bool)
        for name, worker in forbidden:
            if name in self.number and worker in self.position:
                self.may[self.number[name], self.position[worker]] = False
        # What each task costs on each worker by its move, by what it reads, and by its streams
        # with the tasks that are placed; and what all cost so, each stream once.
        own = self.moves(np.arange(self.tasks)[:, None], np.arange(self.workers)) + self.reads
        self.own, self.own_sum = np.vstack([own, np.zeros(self.workers)]), 0.0
        # Of each task the others that it talks to, and what these send and get in bytes/s.
        talks: list[dict[int, list[float]]] = [{} for _ in range(self.tasks)]
        streams = zip(*self.ends.tolist(), self.bytes_per_s.tolist(), strict=True)
        for one, other, size in ((a, b, size) for a, b, size in streams if a != b):
            talks[other].setdefault(one, [0.0, 0.0])[0] += size
            talks[one].setdefault(other, [0.0, 0.0])[1] += size
        self.talks = [(np.array([*its]), np.array([*its.values()])) for its in talks]
        self.byte = np.zeros((self.workers + 1, 2, self.workers))  # the last one is no worker
        if self.byte_costs is not None:
            self.byte[:-1, 0], self.byte[:-1, 1] = self.byte_costs.T, self.byte_costs
        self.enter()
        at, present = self.indices(start).tolist(), self.present.tolist()
        for t in [self.number[name] for name in start if name in self.number]:
            fits = at[t] == present[t] or (self.free[at[t]] >= self.need[t]).all()
            if fits and at[t] >= 0:
                self.put(t, at[t])

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
        cpu, own, (others, size) = float(self.cpu[t]), self.own[t], self.talks[t]
        for i, sign in ((was, -1), (to, 1)):
            if i >= 0:
                count = int(self.count[i]) + sign
                self.count[i] = count
                if count == (sign > 0):  # its first task has come, or its last one is gone
                    self.entry[i] = self.later[i] if count else self.first[i]
                    self.rent_s += sign * self.price_of[i]
                    self.margins = None
                used = float(self.used[i]) + sign * cpu if count else 0.0
                self.used[i], self.load[i] = used, used / self.speed[i]
                self.placed += sign * cpu
                self.own_sum += sign * float(own[i])
                (np.subtract if sign > 0 else np.add)(self.free[i], self.need[t], self.free[i])
        if len(others):
            self.own[others] += size @ (self.byte[to] - self.byte[was])
        return was

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

    def paid_for(self) -> tuple[float, float, Any, Any]:
        """The cores and the $/s of the workers that are compared; the same with one more each."""
        if self.margins is None:
            counted = self.compared(self.count)
            cores, paid = float(self.speed @ counted), float(self.price @ counted)
            self.margins = cores, paid, cores + self.speed * ~counted, paid + self.price * ~counted
        return self.margins

    def uneven(self) -> float:
        """The weighted $/s of the imbalance."""
        squares, (cores, paid, _, _) = float(self.used @ self.load), self.paid_for()
        highest = float(self.load.max())
        return float(self.objective.waiting(highest, squares, self.placed, cores, paid))

    def total(self) -> Cost:
        """The cost of the placement."""
        per_s = self.objective.rent * self.rent_s
        per_s += self.uneven() if self.objective.imbalance else 0.0
        return self.tasks - int(self.count.sum()), self.objective.horizon_s * per_s + self.own_sum

    def place(self, t: int, stays: int = -1) -> bool:
        """Place a task, now nowhere, where it has room and costs least; whether it has any.

        On worker ``stays`` it has room in any case, and remains there if it costs no more.
        """
        fits = have_room(self.free, self.need[t]) & self.may[t]
        if stays >= 0:
            fits[stays] = True
        cost = self.entry + self.own[t]
        if self.objective.imbalance:
            cpu, (_, _, cores, paid) = self.cpu[t], self.paid_for()
            more = cpu / self.speed
            squares = self.used @ self.load + more * (2 * self.used + cpu)
            highest = np.maximum(self.load + more, self.load.max())
            uneven = self.objective.waiting(highest, squares, self.placed + cpu, cores, paid)
            cost += self.objective.horizon_s * uneven
        cost[~fits] = np.inf
        i = int(cost.argmin())
        i = i if stays < 0 or less((0, cost[i]), (0, cost[stays])) else stays
        if cost[i] < np.inf:
            self.put(t, i)
        return bool(cost[i] < np.inf)


def less(one: Cost, other: Cost, by: float = BETTER) -> bool:
    """Whether one cost is less than another, of as many tasks left out by more than a share."""
    return one[0] < other[0] or (one[0] == other[0] and one[1] < other[1] - by * abs(other[1]))
