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
from numpy.typing import NDArray

from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Number, Objective
from scheduling.quantities import (
    LEAST_CORES,
    bytes_to_load,
    cpu_loads,
    is_preferred,
    prices,
    speeds,
)

__all__ = ["improve", "needs_of", "room_of"]

Numbers = NDArray[np.float64]
Indices = NDArray[np.int_]
Mask = NDArray[np.bool_]

_ROUNDING = 5e-10  # half of what Plan._check allows: sums in another order still pass it
_BETTER = 1e-9  # less is no gain, as a share
_EVEN = 1e-3  # a load so little above the mean is level, as a share
_ROUNDS, _LITTLE = 3, 1e-3  # of all steps, while they gain so much
_TASKS = 48  # of a worker that are tried
_HIGHEST = 4  # workers that are relieved
_RECEIVERS = 8  # of an exchange
_PAIRS = 48  # whose streams are looked at
_DONORS = 16  # whose task makes room for another
_FAILURES = 24  # workers that could not be emptied
_TALKING = 256  # tasks that move nearer to others in one round
_EFFORT = 30  # tasks that are inserted into sets of workers for each shake
_FEW = 12  # workers of which all sets are tried
_MANY = 100  # rounds of ruin and recreate from which what is dearer is kept for a while
_DEARER = 0.1  # than the best is what is kept at first, as a share
_LEFT_OUT = 1e12  # what a task without a worker costs
_SPACE = [0, 2, 3]  # the columns of what may never be exceeded: slots, memory, disk; 1 is the CPU


def room_of(snapshot: Snapshot) -> Numbers:
    """What is free of each worker (row): slots, cores, MB of memory, MB of disk; rounded up."""
    rows = [
        (snapshot.free_slots[name], free.cpu_cores, free.memory_mb, free.disk_mb)
        for name, free in snapshot.free.items()
    ]
    room = np.array(rows, float).reshape(-1, 4)
    room[:, 1:] = room[:, 1:] * (1 + _ROUNDING) + _ROUNDING
    return room


def needs_of(graph: JobGraph) -> Numbers:
    """What each task (row) needs: a slot, cores, MB of memory, MB of disk."""
    rows = [(1.0, t.demand.cpu_cores, t.demand.memory_mb, t.demand.disk_mb) for t in graph.tasks]
    return np.array(rows, float).reshape(-1, 4)


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


class _Search:
    """A placement while it is changed: what each worker has, and what it costs.

    Arrays by task have one row more, for nothing: what a task that moves is exchanged for.
    """

    def __init__(
        self,
        graph: JobGraph,
        snapshot: Snapshot,
        objective: Objective,
        loads: Mapping[str, float],
        release: bool,
        even: float,
    ) -> None:
        self.tasks, self.workers = len(graph.tasks), len(snapshot.workers)
        self.number = {task.id: k for k, task in enumerate(graph.tasks)}
        self.position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        self.objective, self.release, self.even = objective, release, even
        self.cpu = np.array([*(loads[task.id] for task in graph.tasks), 0.0], float)
        self.need, self.free = np.vstack([needs_of(graph), np.zeros(4)]), room_of(snapshot)
        self.limit = np.maximum(self.free[:, 1], LEAST_CORES)
        self.price = np.array(prices(snapshot), float)
        speed = np.array(list(speeds(snapshot).values()), float)
        self.open = speed > 0
        size = [max(worker.capacity.cpu_cores, LEAST_CORES) for worker in snapshot.workers]
        self.speed = np.where(self.open, speed, size)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.at = np.full(self.tasks, -1)
        self.own_sum = 0.0  # what placed tasks and the streams between them cost
        self.shut = np.zeros(self.workers, bool)
        self.taste = np.zeros(self.workers)  # $/s by which workers seem dearer, to vary attempts
        self.banned = np.zeros((self.tasks + 1, self.workers), bool)

    def price_tasks(
        self, graph: JobGraph, snapshot: Snapshot, present: Mapping[str, str] | None
    ) -> None:
        """What each task costs on each worker, whatever the others do: its move, what it reads."""
        byte = self.price / np.array([one.bandwidth_bytes_per_s for one in snapshot.workers])
        receives = self.objective.byte_costs(snapshot)
        self.alone = np.zeros((self.tasks + 1, self.workers))
        for cost, task in zip(self.alone, graph.tasks, strict=False):
            if present is not None:
                fixed = self.price * (self.objective.move_s if task.id in present else 0.0)
                size: float | Numbers = task.state_bytes
                if task.cached:
                    size = np.array([bytes_to_load(task, one.host) for one in snapshot.workers])
                cost += fixed + size * byte
                if present.get(task.id) in self.position:
                    cost[self.position[present[task.id]]] = 0.0
            if task.preferred and task.input_bytes_per_s:
                far = np.array([not is_preferred(task, worker) for worker in snapshot.workers])
                cost += far * task.input_bytes_per_s * receives

    def price_streams(
        self, graph: JobGraph, snapshot: Snapshot, byte_costs: Numbers | None
    ) -> None:
        """The streams of each task, and what a byte costs between workers."""
        if byte_costs is None:
            host = np.array([worker.host for worker in snapshot.workers], object)
            receives = self.objective.byte_costs(snapshot)
            byte_costs = np.where(host[:, None] != host[None, :], receives[None, :], 0.0)
        self.byte = byte_costs
        size: dict[tuple[int, int], float] = {}
        for edge in graph.edges if byte_costs.any() else ():
            ends = self.number[edge.source], self.number[edge.target]
            if ends[0] != ends[1]:
                size[ends] = size.get(ends, 0.0) + edge.bytes_per_s
        self.talks = bool(size)
        sends: list[list[tuple[int, float]]] = [[] for _ in graph.tasks]
        gets: list[list[tuple[int, float]]] = [[] for _ in graph.tasks]
        for (one, other), amount in size.items():
            sends[one].append((other, amount))
            gets[other].append((one, amount))
        self.sends_to, self.gets_from = ([_ends(one) for one in every] for every in (sends, gets))
        # Bytes per second that each task sends to, and gets from, the tasks of each worker.
        self.sent, self.got = np.zeros((2, self.tasks + 1 if size else 0, self.workers))

    # The state

    def begin(
        self,
        start: Mapping[str, str],
        present: Mapping[str, str],
        forbidden: Collection[tuple[str, str]],
    ) -> None:
        """Place the tasks that have room, or that run there already; note what is not tried."""
        for name, worker in forbidden:
            if name in self.number and worker in self.position:
                self.banned[self.number[name], self.position[worker]] = True
        for name, worker in start.items():
            t, i = self.number.get(name, -1), self.position.get(worker, -1)
            stays = present.get(name) == worker
            if t >= 0 and i >= 0 and (stays or (self.free[i] >= self.need[t]).all()):
                self.put(t, i)

    def put(self, t: int, i: int) -> None:
        """Place a task that is nowhere."""
        self.at[t] = i
        self.used[i] += self.cpu[t]
        self.count[i] += 1
        self.free[i] -= self.need[t]
        self._connect(t, i, 1.0)

    def take(self, t: int) -> int:
        """Take a task out; where it was."""
        i = int(self.at[t])
        self.at[t] = -1
        self.count[i] -= 1
        self.used[i] = self.used[i] - self.cpu[t] if self.count[i] else 0.0
        self.free[i] += self.need[t]
        self._connect(t, i, -1.0)
        return i

    def _connect(self, t: int, i: int, sign: float) -> None:
        own = self.alone[t, i]
        if self.talks:
            own += self.streams(t, i)
            others, size = self.sends_to[t]
            self.got[others, i] += sign * size
            others, size = self.gets_from[t]
            self.sent[others, i] += sign * size
        self.own_sum += sign * float(own)

    def restore(self, at: Indices) -> None:
        """Go back to an earlier placement."""
        changed = np.flatnonzero(self.at != at).tolist()
        for t in changed:
            if self.at[t] >= 0:
                self.take(t)
        for t in changed:
            if at[t] >= 0:
                self.put(t, int(at[t]))

    def on(self, i: int) -> list[int]:
        """The tasks of a worker, the largest first."""
        there = np.flatnonzero(self.at == i)
        found: list[int] = there[np.argsort(-self.cpu[there], kind="stable")].tolist()
        return found

    # What it costs

    def total(self) -> float:
        """The cost of the placement."""
        left_out = self.tasks - int(self.count.sum())
        busy, counted = self.count > 0, self.counted()
        load = np.where(counted, self.used / self.speed, 0.0)
        cores, paid = self.speed[counted].sum(), self.price[counted].sum()
        cost = self.objective.rent * self.price[busy].sum()
        cost += self.waiting(load.max(), self.speed @ load**2, self.used.sum(), cores, paid)
        return float(self.objective.horizon_s * cost) + self.own_sum + _LEFT_OUT * left_out

    def counted(self) -> Mask:
        """The workers over which loads are compared."""
        return self.count > 0 if self.release else (self.count > 0) | self.open

    def waiting(
        self, highest: Number, squares: Number, load: float, cores: Number, paid: Number
    ) -> Number:
        """The $/s of the imbalance; ``paid``: the price of the workers that are compared."""
        if not self.objective.imbalance:
            return 0.0 * paid
        return paid * self.objective.excess(highest, squares, load, cores)

    def own(self, tasks: int | Indices) -> Numbers:
        """What tasks (rows) cost by themselves and by their streams, on each worker."""
        found: Numbers = self.alone[tasks]
        if self.talks:
            found = found + self.sent[tasks] @ self.byte.T + self.got[tasks] @ self.byte
        return found

    def streams(self, tasks: int | Indices, at: int | Indices) -> Numbers:
        """What the streams of tasks cost, of each on one worker."""
        sent, got = self.sent[tasks] * self.byte[at], self.got[tasks] * self.byte.T[at]
        found: Numbers = (sent + got).sum(axis=-1)
        return found

    def room(self, t: int) -> Mask:
        """The workers that have room for a task."""
        fits: Mask = (self.free >= self.need[t]).all(axis=1) & ~self.banned[t] & ~self.shut
        return fits

    def bears(self, after: Numbers, on: int | Indices, i: int) -> Mask:
        """Whether workers bear what is free then; of CPU they may lack a smaller share than i."""
        cpu, worst = after[..., 1], self.free[i, 1] / self.limit[i]
        eased = (cpu >= 0) | (cpu / self.limit[on] > worst)
        found: Mask = (after[..., _SPACE] >= 0).all(axis=-1) & eased
        return found

    def costs(self, t: int, fits: Mask) -> Numbers:
        """The cost with a task, now nowhere, on each worker, up to a constant; O(workers)."""
        counted, speed = self.counted(), self.speed
        load = np.where(counted, self.used / speed, 0.0)
        after = (self.used + self.cpu[t]) / speed
        cost = self.objective.rent * self.price * (self.count == 0) + self.taste
        cost = cost + self.waiting(
            np.maximum(after, load.max()),
            speed @ load**2 + speed * (after**2 - load**2),
            float(self.used.sum() + self.cpu[t]),
            speed[counted].sum() + speed * ~counted,
            self.price[counted].sum() + self.price * ~counted,
        )
        return np.where(fits, self.objective.horizon_s * cost + self.own(t), np.inf)

    # The steps

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
        mine, every = np.array(self.on(i)[:_TASKS])[:, None], np.arange(self.workers)
        low = [j for j in np.argsort(load, kind="stable").tolist() if self.count[j]][:_RECEIVERS]
        theirs = [t for j in low if j != i for t in self.on(j)[-_TASKS:]]
        other = np.array([self.tasks] * self.workers + theirs, int)
        to = np.concatenate([every, self.at[theirs]]) if theirs else every
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
        """Try sets of few workers, the cheapest first, as long as their rent alone is less."""
        if not self.objective.rent or self.workers > _FEW:
            return
        best, kept = self.total(), self.at.copy()
        sets = (np.arange(1, 2**self.workers)[:, None] >> np.arange(self.workers)) & 1 == 1
        rents = self.objective.horizon_s * self.objective.rent * (sets @ self.price)
        self.restore(np.full(self.tasks, -1))
        room = sets @ self.free
        enough = np.flatnonzero((room >= self.need.sum(axis=0)).all(axis=1) & (rents < best))
        alike = np.column_stack([rents, room])[enough].round(6)  # sets of workers of the same kinds
        order = enough[np.sort(np.unique(alike, axis=0, return_index=True)[1])]
        effort = max(1, _EFFORT * times // self.tasks)
        order = order[np.argsort(rents[order], kind="stable")][: max(1, effort // 5)]
        more = max(1, effort // max(1, len(order)) - 2)
        sizes = [np.argsort(-self.need[:-1, k], kind="stable").tolist() for k in (1, 2)]
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
        self.restore(kept)

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


def _ends(streams: Sequence[tuple[int, float]]) -> tuple[Indices, Numbers]:
    """The other ends of a task's streams, and their bytes per second."""
    return np.array([t for t, _ in streams], int), np.array([size for _, size in streams], float)
