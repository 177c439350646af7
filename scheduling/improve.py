"""Local search under the objective, from a given placement: optional, behind any policy.

Tasks without a worker are inserted. Then, while it pays, workers are emptied, tasks that talk or
read move nearer, and the highest load is lowered by moves and exchanges. Small jobs are shaken:
tasks are taken out and put back in another way (ruin and recreate). The effort is counted in steps,
never in time, and what is random has a seed: the same arguments give the same placement anywhere.

A worker that is above its limit of CPU, as one with hot partitions is, may give a task away, or
exchange it for a lighter one, to whoever stays less above its own limit.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from scheduling.cost import LEAST_CORES, cpu_loads
from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Objective
from scheduling.search_state import Mask, Numbers, SearchState

__all__ = ["improve"]

_BETTER = 1e-9  # less is no gain, as a share
_EVEN = 1e-3  # a load so little above the mean is level, as a share
_ROUNDS, _LITTLE = 3, 1e-3  # of all steps, while they gain so much
_TASKS = 48  # of a worker that are tried
_HIGHEST = 4  # workers that are relieved
_RECEIVERS = 8  # of an exchange
_PAIRS = 48  # whose streams are looked at
_DONORS = 16  # whose task makes room for another
_FAILURES = 24  # workers that could not be emptied
_TALKING = 128  # tasks that move nearer to others in one round
_EFFORT = 30  # tasks that are inserted into sets of workers for each shake
_FEW = 12  # workers of which all sets are looked at
_SETS = 8  # sets that are packed at least
_MANY = 100  # rounds of ruin and recreate from which what is dearer is kept for a while
_DEARER = 0.1  # than the best is what is kept at first, as a share


def improve(
    start: Mapping[str, str],
    graph: JobGraph,
    snapshot: Snapshot,
    objective: Objective,
    present: Mapping[str, str] | None = None,
    *,
    release: bool = False,
    loads: Mapping[str, float] | None = None,
    forbidden: Collection[tuple[str, str]] = (),
    tolerance: float = 0.0,
    shakes: int = 0,
    seed: int = 0,
    byte_costs: Numbers | None = None,
) -> dict[str, str]:
    """A placement that costs no more than the start, and leaves no more tasks out.

    Args:
        start: the worker of each task; the others are inserted.
        graph: the tasks and streams.
        snapshot: the workers.
        objective: what is lowered.
        present: the present worker of each task, from which moves are counted. None (default):
            moves cost nothing.
        release: whether idle workers are released; default False.
        loads: the CPU cores that each task uses. None (default): as measured, else as demanded.
        forbidden: pairs of task and worker that are not tried.
        tolerance: how much above the mean a load is level, as a share; default 0.
        shakes: rounds of ruin and recreate; default 0.
        seed: of what is random in them; default 0.
        byte_costs: what a byte per second from each worker (row) to each (column) costs over the
            horizon. None (default): as of the objective.

    Complexity: O(steps x (workers + tasks of a worker)), some steps for each task that moves.
    """
    if not snapshot.workers or not graph.tasks:
        return {}
    loads = cpu_loads(graph, snapshot) if loads is None else loads
    search = _Search(graph, snapshot, objective, loads, release, max(_EVEN, tolerance))
    search.price_tasks(graph, snapshot, present)
    search.price_streams(graph, snapshot, byte_costs)
    search.begin(start, present or {}, forbidden)
    begun, before = search.at.copy(), search.total()
    search.descend()
    draw = random.Random(seed)
    if shakes:
        search.choose(draw, shakes)
        search.shake(draw, shakes)
    if search.total() > before:
        search.restore(begun)
    names = [worker.id for worker in snapshot.workers]
    return {t.id: names[i] for t, i in zip(graph.tasks, search.at.tolist(), strict=True) if i >= 0}


class _Search(SearchState):
    """The steps of a search."""

    def descend(self) -> None:
        """All steps, while they gain."""
        self.insert(np.flatnonzero(self.at < 0).tolist())
        for _ in range(_ROUNDS):
            before = self.total()
            self.empty()
            self.nearer()
            self.level()
            if self.total() > before - _LITTLE * abs(before):
                return

    def insert(self, tasks: Sequence[int], *, ordered: bool = True) -> None:
        """Place tasks where they cost least, the largest first; others may have to make room."""
        if ordered:
            tasks = sorted(tasks, key=lambda t: (-self.cpu[t], *(-self.need[t]), t))
        for t in tasks:
            cost = self.costs(t, self.room(t))
            i = int(cost.argmin())
            if np.isfinite(cost[i]):
                self.put(t, i)
            else:
                self._eject(t)

    def _eject(self, t: int) -> None:
        """Place a task where another one makes room for it and goes elsewhere, if there is one."""
        lack = np.maximum(self.need[t] - self.free, 0.0).sum(axis=1)
        for i in np.argsort(lack, kind="stable")[:_DONORS].tolist():
            if self.banned[t, i] or self.shut[i]:
                continue
            for other in self.on(i)[:_TASKS]:
                if (self.free[i] + self.need[other] < self.need[t]).any():
                    continue
                self.take(other)
                self.put(t, i)
                cost = self.costs(other, self.room(other))
                if np.isfinite(cost.min()):
                    self.put(other, int(cost.argmin()))
                    return
                self.take(t)
                self.put(other, i)

    def anew(self, out: Sequence[int], shut: Mask, *, ordered: bool = True) -> None:
        """Take tasks out and insert them anew, on workers that are not shut."""
        for t in out:
            if self.at[t] >= 0:
                self.take(t)
        self.shut = shut
        self.insert(out, ordered=ordered)
        self.shut = np.zeros(self.workers, bool)

    def empty(self) -> None:
        """Close workers, or replace them by cheaper ones, where that pays."""
        if not (self.objective.rent or self.release):
            return
        failures, value = 0, self.price / np.maximum(self.count, 1)
        for i in np.argsort(-value, kind="stable").tolist():
            if not self.count[i] or failures >= _FAILURES:
                continue
            mark, before = self.at.copy(), self.total()
            self.anew(self.on(i), np.arange(self.workers) == i)
            if self.total() < before - _BETTER * abs(before):
                failures = 0
            else:
                self.restore(mark)
                failures += 1

    def nearer(self) -> None:
        """Move tasks that talk, or read, to where that costs less."""
        there = np.flatnonzero(self.at >= 0)
        if not self.objective.communication or not len(there):
            return
        own = self.own(there)
        gains = own[np.arange(len(there)), self.at[there]] - own.min(axis=1)
        order = np.argsort(-gains, kind="stable")[:_TALKING]
        for t in there[order[gains[order] > 0]].tolist():
            i = self.take(t)
            fits = self.room(t)
            fits[i] = True
            cost = self.costs(t, fits)
            j = int(cost.argmin())
            self.put(t, j if cost[j] < cost[i] - _BETTER * abs(cost[i]) else i)

    def level(self) -> None:
        """Lower the highest load step by step; the best prefix is kept, as one step may not pay.

        Rent counts in what is kept, not in a step: a worker pays only when several tasks have come.
        """
        if not self.objective.imbalance:
            return
        best, kept = self.total(), self.at.copy()
        for _ in range(4 * self.workers + self.tasks):
            counted = self.counted()
            load = np.where(counted, self.used / self.speed, -np.inf)
            limit = self.used.sum() / max(self.speed[counted].sum(), LEAST_CORES) * (1 + self.even)
            highest = [i for i in np.argsort(-load)[:_HIGHEST].tolist() if load[i] > limit]
            if not any(self._relieve(i, load) for i in highest):
                break
            total = self.total()
            if total < best - _BETTER * abs(best):
                best, kept = total, self.at.copy()
        self.restore(kept)

    def _relieve(self, i: int, load: Numbers) -> bool:
        """Make the move off a worker, or the exchange for a lighter task, that gains most, if any.

        All pairs are judged at once: rows are its tasks, columns what they are exchanged for.
        """
        counted, speed, price = self.counted(), self.speed, self.price
        mine = np.array(self.on(i)[:_TASKS])[:, None]
        low = np.zeros(self.workers + 1, bool)  # the last: nowhere
        order = np.argsort(load, kind="stable")
        low[order[self.count[order] > 0][:_RECEIVERS]] = True
        low[i] = False
        theirs = np.flatnonzero(low[self.at])
        theirs = theirs[np.argsort(self.cpu[theirs], kind="stable")][: _RECEIVERS * _TASKS]
        other = np.concatenate([np.full(self.workers, self.tasks), theirs])
        to = np.concatenate([np.arange(self.workers), self.at[theirs]])
        less = self.cpu[mine] - self.cpu[other]
        swapped = self.need[mine] - self.need[other]
        here, there = (self.used[i] - less) / speed[i], (self.used[to] + less) / speed[to]
        fits = np.maximum(here, there) < load[i] * (1 - self.even)
        fits &= (to != i) & ~self.shut[to]
        fits &= ~self.banned[mine, to] & ~self.banned[other, i]
        fits &= self.bears(self.free[to] - swapped, to, i)
        fits &= self.bears(self.free[i] + swapped, i, i) | (other == self.tasks)
        if not fits.any():
            return False
        leaves = self.release & (other == self.tasks) & (self.count[i] == 1)
        enters = ~counted[to]
        load = np.where(counted, load, 0.0)
        squares = speed @ load**2
        total, cores, paid = float(self.used.sum()), speed[counted].sum(), price[counted].sum()
        before = self.waiting(load.max(), squares, total, cores, paid)
        after = self.waiting(
            np.maximum(np.maximum(here, there), np.delete(load, i).max(initial=0.0)),
            squares + speed[i] * (here**2 - load[i] ** 2) + speed[to] * (there**2 - load[to] ** 2),
            total,
            cores + speed[to] * enters - speed[i] * leaves,
            paid + price[to] * enters - price[i] * leaves,
        )
        rows, columns = np.nonzero(fits)
        gains = self.objective.horizon_s * (before - after)[fits]
        mine, other, to = mine[rows, 0], other[columns], to[columns]
        gains -= self.alone[mine, to] - self.alone[mine, i] + self.alone[other, i]
        gains += self.alone[other, to]
        if self.talks:
            top = np.argsort(-gains, kind="stable")[:_PAIRS]
            gains, mine, other, to = gains[top], mine[top], other[top], to[top]
            gains -= self.streams(mine, to) - self.streams(mine, i)
            gains -= self.streams(other, i) - self.streams(other, to)
        best = int(gains.argmax())
        if gains[best] <= _BETTER * abs(self.objective.horizon_s * before):
            return False
        t, u, j = int(mine[best]), int(other[best]), int(to[best])
        self.take(t)
        if u < self.tasks:
            self.take(u)
            self.put(u, i)
        self.put(t, j)
        return True

    # For small jobs

    def choose(self, draw: random.Random, times: int) -> None:
        """Pack sets of workers, the cheapest first, as long as their rent alone is less."""
        if not self.objective.rent:
            return
        best, kept = self.total(), self.at.copy()
        self.restore(np.full(self.tasks, -1))
        sets = self._sets()
        rents = self.objective.horizon_s * self.objective.rent * (sets @ self.price)
        room = sets @ self.free
        enough = np.flatnonzero((room >= self.need.sum(axis=0)).all(axis=1) & (rents < best))
        alike = np.column_stack([rents, room])[enough].round(6)  # sets of workers of the same kinds
        order = enough[np.sort(np.unique(alike, axis=0, return_index=True)[1])]
        effort = max(1, _EFFORT * times // self.tasks)
        order = order[np.argsort(rents[order], kind="stable")][: max(_SETS, effort // 5)]
        more = max(1, effort // max(1, len(order)) - 2)
        sizes = [np.argsort(-self.need[:-1, k], kind="stable").tolist() for k in (1, 2)]
        # In a set all is paid for; large tasks go where there are many cores for each slot.
        self.opening, self.taste = 0.0, -_BETTER * self.limit / np.maximum(self.free[:, 0], 1.0)
        for s in order.tolist():
            if rents[s] >= best - _BETTER * abs(best):
                break
            drawn = (draw.sample(range(self.tasks), self.tasks) for _ in range(more))
            for tasks in (*sizes, *drawn):
                self.anew(tasks, ~sets[s], ordered=False)
                self.nearer()
                total = self.total()
                if total < best - _BETTER * abs(best):
                    best, kept = total, self.at.copy()
        self.opening, self.taste = self.objective.rent, np.zeros(self.workers)
        self.restore(kept)

    def _sets(self) -> Mask:
        """Sets of workers: all of few; of many those cheapest for their size, and one more."""
        if self.workers <= _FEW:
            every = np.arange(1, 2**self.workers)
            bits: Mask = (every[:, None] >> np.arange(self.workers)) & 1 == 1
            return bits
        need = np.maximum(self.need.sum(axis=0), _BETTER)
        size = np.maximum((self.free / need).min(axis=1), _BETTER)
        place = np.argsort(np.argsort(self.price / size, kind="stable"))
        first = place < np.arange(self.workers)[:, None]
        found: Mask = first[:, None, :] | np.eye(self.workers, dtype=bool)
        return found.reshape(-1, self.workers)

    def shake(self, draw: random.Random, times: int) -> None:
        """Ruin and recreate: take tasks out, put them back at other prices in another order.

        What is a little dearer than the best is kept for a while (record-to-record travel; G.
        Dueck, 1993), ever less of it.
        """
        best, kept = self.total(), self.at.copy()
        dearer = _DEARER if times >= _MANY else 0.0
        for k, out in enumerate(self._ruins(draw, times)):
            mark = self.at.copy()
            missing = sorted({*out, *np.flatnonzero(self.at < 0).tolist()})
            self.taste = self.price * np.array([draw.uniform(-1.0, 1.0) for _ in self.price])
            draw.shuffle(missing)
            self.anew(missing, self.shut, ordered=k % 2 == 0)
            self.taste = np.zeros(self.workers)
            self.level()
            total = self.total()
            if total < best - _BETTER * abs(best):
                best, kept = total, self.at.copy()
            elif total > best + abs(best) * dearer * (1 - k / times):
                self.restore(mark)
        self.restore(kept)

    def _ruins(self, draw: random.Random, times: int) -> Iterator[list[int]]:
        """Tasks to take out: those of one or two workers, or a few."""
        for k in range(times):
            used = np.flatnonzero(self.count).tolist()
            if k % 3 == 2 or len(used) < 2:
                yield draw.sample(range(self.tasks), min(self.tasks, 1 + draw.randrange(4)))
            else:
                gone = draw.sample(used, min(len(used), 1 + k % 2))
                yield np.flatnonzero(np.isin(self.at, gone)).tolist()
