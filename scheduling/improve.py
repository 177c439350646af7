"""Local search under the objective, from a given placement: optional, behind any policy.

Tasks without a worker are inserted. Then, while it pays, workers are emptied where their rent is
more than what their tasks cost elsewhere, tasks that talk move together, and the highest load is
lowered by moves and swaps. Small jobs are shaken: some tasks are taken out and put back at other
prices (ruin and recreate), and what is better is kept. The effort is counted in steps, never in
time, and what is random has a seed: the same arguments give the same placement on any machine.

A worker that is above its limit of CPU, as one with hot partitions is, may give a task away, or
exchange it for a lighter one, to whoever stays less above its own limit.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Objective
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
Mask = NDArray[np.bool_]

_ROUNDING = 5e-10  # half of what Plan._check allows: sums in another order still pass it
_BETTER = 1e-9  # less is no gain, as a share
_EVEN = 1e-3  # a load so little above the mean is level, as a share
_ROUNDS, _LITTLE = 3, 1e-3  # of all steps, while they gain so much
_TASKS = 48  # of a worker that are tried
_RECEIVERS = 8  # of a swap
_DONORS = 16  # whose task makes room for another
_FAILURES = 24  # workers that could not be emptied
_TALKING = 256  # tasks that move nearer to others in one round
_EFFORT = 30  # tasks that are inserted into sets of workers for each shake
_FEW = 12  # workers of which all sets are tried
_MANY = 100  # rounds of ruin and recreate from which what is dearer is kept for a while
_DEARER = 0.1  # than the best is what is kept at first, as a share
_SPREAD = 0.01  # the weight of the variance of loads: each step towards level loads shows
_LEFT_OUT = 1e12  # what a task without a worker costs


def room_of(snapshot: Snapshot) -> Numbers:
    """What is free of each worker (row): slots, cores, MB of memory, MB of disk; rounded up."""
    rows = [
        (snapshot.free_slots[w.id], free.cpu_cores, free.memory_mb, free.disk_mb)
        for w in snapshot.workers
        for free in (snapshot.free[w.id],)
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
    loads = cpu_loads(graph, snapshot) if loads is None else loads
    if not snapshot.workers or not graph.tasks:
        return {}
    search = _Search(graph, snapshot, objective, present, loads, release, byte_costs)
    search.forbid(forbidden)
    search.even = max(_EVEN, tolerance)
    search.begin(start)
    begun = search.at.copy()
    before = search.total(exact=True)
    search.descend()
    draw = random.Random(seed)
    search.choose(draw, shakes)
    search.shake(draw, shakes)
    if search.total(exact=True) > before:
        search.restore(begun)
    names = [worker.id for worker in snapshot.workers]
    return {t.id: names[i] for t, i in zip(graph.tasks, search.at.tolist(), strict=True) if i >= 0}


class _Search:
    """A placement while it is changed: what each worker has, and what it costs."""

    def __init__(
        self,
        graph: JobGraph,
        snapshot: Snapshot,
        objective: Objective,
        present: Mapping[str, str] | None,
        loads: Mapping[str, float],
        release: bool,
        byte_costs: Numbers | None,
    ) -> None:
        self.tasks, self.workers = len(graph.tasks), len(snapshot.workers)
        self.number = {task.id: k for k, task in enumerate(graph.tasks)}
        self.position = {worker.id: i for i, worker in enumerate(snapshot.workers)}
        self.objective, self.release, self.rent = objective, release, objective.rent
        self.cpu = np.array([loads[task.id] for task in graph.tasks], float)
        self.need, self.free = needs_of(graph), room_of(snapshot)
        self.limit = np.maximum(self.free[:, 1], LEAST_CORES)
        self.price = np.array(prices(snapshot), float)
        speed = np.array(list(speeds(snapshot).values()), float)
        self.open = speed > 0
        size = [max(worker.capacity.cpu_cores, LEAST_CORES) for worker in snapshot.workers]
        self.speed = np.where(self.open, speed, size)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.at = np.full(self.tasks, -1)
        self.shut = np.zeros(self.workers, bool)
        self.taste = np.zeros(
            self.workers
        )  # $/s by which a worker seems dearer, to vary what is tried
        self.even = _EVEN
        self.banned = np.zeros((self.tasks, self.workers), bool)
        self.present = np.full(self.tasks, -1)
        for name, worker in (present or {}).items():
            if name in self.number and worker in self.position:
                self.present[self.number[name]] = self.position[worker]
        self.alone = self._alone(graph, snapshot, present)
        self._link(graph, snapshot, byte_costs)

    def _alone(
        self, graph: JobGraph, snapshot: Snapshot, present: Mapping[str, str] | None
    ) -> Numbers:
        """What each task costs on each worker, whatever the others do: its move, what it reads."""
        bandwidth = np.array([worker.bandwidth_bytes_per_s for worker in snapshot.workers])
        byte, cost = self.price / bandwidth, np.zeros((self.tasks, self.workers))
        receives = self.objective.byte_costs(snapshot)
        for k, task in enumerate(graph.tasks):
            if present is not None:
                moved = self.objective.move_s if task.id in present else 0.0
                cost[k] = self.price * moved + task.state_bytes * byte
                if task.cached:
                    missing = [bytes_to_load(task, worker.host) for worker in snapshot.workers]
                    cost[k] = self.price * moved + np.array(missing) * byte
                if self.present[k] >= 0:
                    cost[k, self.present[k]] = 0.0
            if task.preferred and task.input_bytes_per_s:
                far = np.array([not is_preferred(task, worker) for worker in snapshot.workers])
                cost[k] += far * task.input_bytes_per_s * receives
        return cost

    def _link(self, graph: JobGraph, snapshot: Snapshot, byte_costs: Numbers | None) -> None:
        """The streams between tasks, and what a byte costs between workers."""
        if byte_costs is None:
            host = np.array([worker.host for worker in snapshot.workers], object)
            receives = self.objective.byte_costs(snapshot)
            byte_costs = np.where(host[:, None] != host[None, :], receives[None, :], 0.0)
        self.byte = byte_costs
        self.links: list[list[tuple[int, float, bool]]] = [[] for _ in graph.tasks]
        ends = []
        for edge in graph.edges if byte_costs.any() else ():
            one, other = self.number[edge.source], self.number[edge.target]
            if one != other:
                ends.append((one, other, edge.bytes_per_s))
                self.links[one].append((other, edge.bytes_per_s, True))
                self.links[other].append((one, edge.bytes_per_s, False))
        self.sends = np.array([one for one, _, _ in ends], int)
        self.gets = np.array([other for _, other, _ in ends], int)
        self.size = np.array([size for _, _, size in ends], float)

    # The state

    def forbid(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Do not try these pairs of task and worker, unless the task is there."""
        for name, worker in pairs:
            if name in self.number and worker in self.position:
                self.banned[self.number[name], self.position[worker]] = True

    def begin(self, start: Mapping[str, str]) -> None:
        """Place the tasks that have room, or that run there already."""
        for name, worker in start.items():
            t, i = self.number.get(name, -1), self.position.get(worker, -1)
            if t >= 0 and i >= 0 and (self.present[t] == i or (self.free[i] >= self.need[t]).all()):
                self.put(t, i)

    def put(self, t: int, i: int) -> None:
        """Place a task that is nowhere."""
        self.at[t] = i
        self.used[i] += self.cpu[t]
        self.count[i] += 1
        self.free[i] -= self.need[t]

    def take(self, t: int) -> int:
        """Take a task out; where it was."""
        i = int(self.at[t])
        self.at[t] = -1
        self.count[i] -= 1
        self.used[i] = self.used[i] - self.cpu[t] if self.count[i] else 0.0
        self.free[i] += self.need[t]
        return i

    def restore(self, at: NDArray[np.int_]) -> None:
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

    def total(self, *, exact: bool = False) -> float:
        """The cost of the placement; not ``exact``, with a little of the variance of the loads."""
        there = np.flatnonzero(self.at >= 0)
        found = self.shared(0.0 if exact else _SPREAD) + self.alone[there, self.at[there]].sum()
        if len(self.size):
            one, other = self.at[self.sends], self.at[self.gets]
            both = (one >= 0) & (other >= 0)
            found += self.size[both] @ self.byte[one[both], other[both]]
        return float(found + _LEFT_OUT * (self.tasks - len(there)))

    def counted(self) -> Mask:
        """The workers over which loads are compared."""
        return self.count > 0 if self.release else (self.count > 0) | self.open

    def shared(self, spread: float = _SPREAD) -> float:
        """Rent and imbalance."""
        busy, counted = self.count > 0, self.counted()
        cost, total = self.rent * float(self.price[busy].sum()), float(self.used.sum())
        if total and self.objective.imbalance:
            cores = float(self.speed[counted].sum())
            load = self.used[counted] / self.speed[counted] * (cores / total)
            excess = max(0.0, float(load.max()) - 1)
            excess += spread * float(self.speed[counted] @ (load - 1) ** 2) / cores
            cost += self.objective.imbalance * float(self.price[counted].sum()) * excess
        return self.objective.horizon_s * cost

    def own(self, t: int) -> Numbers:
        """What a task costs by itself and by its streams, on each worker."""
        cost: Numbers = self.alone[t]
        if self.links[t]:
            cost = cost.copy()
            for other, size, sends in self.links[t]:
                j = self.at[other]
                if j >= 0:
                    cost += size * (self.byte[:, j] if sends else self.byte[j])
        return cost

    def room(self, t: int) -> Mask:
        """The workers that have room for a task."""
        fits: Mask = (self.free >= self.need[t]).all(axis=1) & ~self.banned[t] & ~self.shut
        return fits

    def eased(self, t: int, i: int) -> Mask:
        """As :meth:`room`, and where the CPU is less above its limit than at worker i."""
        after = self.free - self.need[t]
        cpu = after[:, 1] / self.limit
        fits: Mask = (after[:, [0, 2, 3]] >= 0).all(axis=1) & ~self.banned[t] & ~self.shut
        fits &= (cpu >= 0) | (cpu > self.free[i, 1] / self.limit[i])
        return fits

    def costs(self, t: int, fits: Mask) -> Numbers:
        """Rent, imbalance and own cost with a task, now nowhere, on each worker; O(workers)."""
        price, counted = self.price, self.counted()
        cost = self.rent * price * (self.count == 0) + self.taste
        total = float(self.used.sum()) + self.cpu[t]
        if total and self.objective.imbalance:
            load = np.where(counted, self.used / self.speed, 0.0)
            after = (self.used + self.cpu[t]) / self.speed
            cores = self.speed[counted].sum() + self.speed * ~counted
            mean = total / cores
            squares = (self.speed * load * load).sum() + self.speed * (after**2 - load**2)
            excess = np.maximum(np.maximum(after, load.max(initial=0.0)) / mean - 1, 0.0)
            excess += _SPREAD * np.maximum(squares / (cores * mean * mean) - 1, 0.0)
            cost = cost + self.objective.imbalance * excess * (
                price[counted].sum() + price * ~counted
            )
        found = self.objective.horizon_s * (cost + self.rent * price[self.count > 0].sum())
        return np.where(fits, found + self.own(t), np.inf)

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

    def _eject(self, t: int) -> bool:
        """Place a task where another one makes room for it and goes elsewhere."""
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
                    return True
                self.take(t)
                self.put(other, i)
        return False

    def empty(self) -> None:
        """Close workers, or replace them by cheaper ones, where that pays."""
        if not (self.rent or self.release):
            return
        failures, value = 0, self.price / np.maximum(self.count, 1)
        for i in np.argsort(-value, kind="stable").tolist():
            if not self.count[i] or failures >= _FAILURES:
                continue
            mark, before = self.at.copy(), self.total()
            tasks = self.on(i)
            for t in tasks:
                self.take(t)
            self.shut[i] = True
            self.insert(tasks)
            self.shut[i] = False
            if self.total() < before - _BETTER * abs(before):
                failures = 0
            else:
                self.restore(mark)
                failures += 1

    def nearer(self) -> None:
        """Move tasks that talk, or read, to where that costs less."""
        if not self.objective.communication:
            return
        there = np.flatnonzero(self.at >= 0).tolist()
        talk = [t for t in there if self.links[t] or self.alone[t].any()]
        for t in talk[:_TALKING]:
            i = self.take(t)
            fits = self.room(t)
            fits[i] = True
            cost = self.costs(t, fits)
            j = int(cost.argmin())
            self.put(t, j if cost[j] < cost[i] - _BETTER * abs(cost[i]) else i)

    def level(self) -> None:
        """Lower the highest load step by step; the best prefix is kept, as one step may not pay."""
        if not self.objective.imbalance:
            return
        best, kept = self.total(), self.at.copy()
        for _ in range(4 * self.workers + self.tasks):
            counted = self.counted()
            load = np.where(counted, self.used / self.speed, -np.inf)
            i = int(load.argmax())
            mean = self.used.sum() / max(self.speed[counted].sum(), LEAST_CORES)
            self.rent = 0.0  # a worker pays only when several tasks have come
            moved = (
                mean and load[i] > mean * (1 + self.even) and (self._move(i) or self._swap(i, load))
            )
            self.rent = self.objective.rent
            if not moved:
                break
            total = self.total()
            if total < best - _BETTER * abs(best):
                best, kept = total, self.at.copy()
        self.restore(kept)

    def _move(self, i: int) -> bool:
        """The best move of one task off a worker; whether there was one."""
        best: tuple[float, int, int] | None = None
        for t in self.on(i)[:_TASKS]:
            fits = self.eased(t, i)
            self.take(t)
            fits[i] = True
            cost = self.costs(t, fits)
            self.put(t, i)
            here, cost[i] = cost[i], np.inf
            j = int(cost.argmin())
            gain = here - cost[j]
            if gain > _BETTER * abs(here) and (best is None or gain > best[0] * (1 + _BETTER)):
                best = gain, t, j
        if best is not None:
            self.take(best[1])
            self.put(best[1], best[2])
        return best is not None

    def _swap(self, i: int, load: Numbers) -> bool:
        """The first exchange with a lighter task that pays; whether there was one."""
        order = np.argsort(load, kind="stable").tolist()
        low = [j for j in order if np.isfinite(load[j]) and j != i and self.open[j]][:_RECEIVERS]
        mine = self.on(i)[:_TASKS]
        for j in low:
            theirs = self.on(j)[: -_TASKS - 1 : -1]
            for t in mine:
                for u in theirs:
                    less = self.cpu[t] - self.cpu[u]
                    highest = max(load[i] - less / self.speed[i], load[j] + less / self.speed[j])
                    if less <= 0:
                        break
                    if highest < load[i] * (1 - _BETTER) and self._exchange(t, u):
                        return True
        return False

    def _exchange(self, t: int, u: int) -> bool:
        """Swap two tasks if it pays and both have room; whether it does."""
        i, j = int(self.at[t]), int(self.at[u])
        if self.banned[t, j] or self.banned[u, i]:
            return False
        before = self.shared() + self.own(t)[i] + self.own(u)[j]
        worst = self.free[i, 1] / self.limit[i]
        self.take(t)
        self.take(u)
        gets, keeps = self.free[j] - self.need[t], self.free[i] - self.need[u]
        fits = (gets[[0, 2, 3]] >= 0).all() and (keeps[[0, 2, 3]] >= 0).all()
        # Above its limit of CPU a worker may stay if it becomes lighter.
        fits = fits and (gets[1] >= 0 or gets[1] / self.limit[j] > worst)
        fits = fits and (keeps[1] >= 0 or keeps[1] / self.limit[i] > worst)
        if fits:
            self.put(t, j)
            self.put(u, i)
            if self.shared() + self.own(t)[j] + self.own(u)[i] < before - _BETTER * abs(before):
                return True
            self.take(t)
            self.take(u)
        self.put(t, i)
        self.put(u, j)
        return False

    def choose(self, draw: random.Random, times: int) -> None:
        """Try sets of few workers, the cheapest first, as long as their rent alone is less."""
        if not times or not self.rent or self.workers > _FEW:
            return
        best, kept = self.total(), self.at.copy()
        self.restore(np.full(self.tasks, -1))
        sets = (np.arange(1, 2**self.workers)[:, None] >> np.arange(self.workers)) & 1 == 1
        rents = self.objective.horizon_s * self.rent * (sets @ self.price)
        room = sets @ self.free
        enough = np.flatnonzero((room >= self.need.sum(axis=0)).all(axis=1) & (rents < best))
        alike = np.column_stack([rents, room])[enough].round(6)  # sets of workers of the same kinds
        order = enough[np.sort(np.unique(alike, axis=0, return_index=True)[1])]
        effort = max(1, _EFFORT * times // max(1, self.tasks))
        order = order[np.argsort(rents[order], kind="stable")][: max(1, effort // 5)]
        more = max(1, effort // max(1, len(order)) - 2)
        sizes = [np.argsort(-self.need[:, k], kind="stable").tolist() for k in (1, 2)]
        for s in order.tolist():
            if rents[s] >= best - _BETTER * abs(best):
                break
            self.shut = ~sets[s]
            for tasks in (
                *sizes,
                *(draw.sample(range(self.tasks), self.tasks) for _ in range(more)),
            ):
                self.insert(tasks, ordered=False)
                self.nearer()
                total = self.total()
                if total < best - _BETTER * abs(best):
                    best, kept = total, self.at.copy()
                self.restore(np.full(self.tasks, -1))
        self.shut = np.zeros(self.workers, bool)
        self.restore(kept)

    def shake(self, draw: random.Random, times: int) -> None:
        """Ruin and recreate: take tasks out, put them back at other prices in another order.

        What is a little dearer than the best is kept for a while (record-to-record travel; G.
        Dueck, 1993), ever less of it.
        """
        best, kept = self.total(), self.at.copy()
        dearer = _DEARER if times >= _MANY else 0.0
        for k in range(times):
            mark = self.at.copy()
            self._ruin(draw, k)
            self.taste = self.price * np.array([draw.uniform(-1.0, 1.0) for _ in self.price])
            missing = np.flatnonzero(self.at < 0).tolist()
            draw.shuffle(missing)
            self.insert(missing, ordered=k % 2 == 0)
            self.taste = np.zeros(self.workers)
            self.level()
            total = self.total()
            if total < best - _BETTER * abs(best):
                best, kept = total, self.at.copy()
            elif total > best + abs(best) * dearer * (1 - k / times):
                self.restore(mark)
        self.restore(kept)

    def _ruin(self, draw: random.Random, k: int) -> None:
        """Take some tasks out: those of one or two workers, or a few."""
        used = np.flatnonzero(self.count).tolist()
        if k % 3 == 2 or len(used) < 2:
            out = draw.sample(range(self.tasks), min(self.tasks, 1 + draw.randrange(4)))
        else:
            gone = draw.sample(used, min(len(used), 1 + k % 2))
            out = np.flatnonzero(np.isin(self.at, gone)).tolist()
        for t in out:
            if self.at[t] >= 0:
                self.take(t)
