"""Local search under the objective, from a given placement: optional, behind any policy.

Tasks without a worker are inserted. Then, while it pays, workers are emptied, tasks that talk or
read move nearer, and the highest loads are lowered by moves and exchanges. Small jobs are shaken:
tasks are taken out and put back in another way (ruin and recreate). The effort is counted in steps,
never in time, and what is random has a seed: the same arguments give the same placement anywhere.

A worker that is above its limit of CPU, as one with hot partitions is, may give a task away, or
exchange it for a lighter one, to whoever stays less above its own limit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.cost import LEAST_CORES
from scheduling.model import JobGraph, Snapshot
from scheduling.objective import Indices, Mask, Numbers, Objective, Pricing
from scheduling.room import room_of

__all__ = ["improve"]

_BETTER = 1e-9  # less is no gain, as a share
_EVEN = 1e-3  # a load so little above the mean is level, as a share
_ROUNDS, _LITTLE = 3, 1e-3  # of all steps, while they gain so much
_HIGHEST = 4  # workers that are tried for one that is relieved
_ALONE, _OF = 32, 8  # of more workers than that one of so many is relieved at once
_TASKS = 64  # of theirs that are tried
_RECEIVERS, _LIGHTEST = 8, 64  # workers, and of their tasks, for an exchange
_DONORS = 16  # whose task makes room for another
_FAILURES = 24  # workers in a row that could not be emptied
_TALKING = 128  # tasks that move nearer to others in one round
_EFFORT = 30  # tasks that are inserted into sets of workers for each shake
_FEW = 12  # workers of which all sets are looked at
_SETS = 2  # sets that are packed at least
_MANY = 100  # rounds of ruin and recreate from which what is dearer is kept for a while
_DEARER = 0.1  # than the best is what is kept at first, as a share
_LEFT_OUT = 1e12  # what a task without a worker costs
_CPU = 1  # the column of what may be exceeded; 0, 2 and 3 are slots, memory and disk

Best = tuple[float, Indices]  # the cost of a placement, and the placement


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
    """A placement that costs no more than the ``start``, and leaves no more tasks out.

    Tasks that the start lacks are inserted; ``forbidden`` pairs of task and worker are not tried. A
    load is level up to ``tolerance`` (a share) above the mean. ``shakes`` are rounds of ruin and
    recreate, ``seed`` is of what is random in them; the others are arguments of :class:`Pricing`.

    Complexity: O(steps x (workers + tasks of a worker)), some steps for each task that moves.
    """
    if not snapshot.workers or not graph.tasks:
        return {}
    search = _Search(objective, graph, snapshot, present, release, loads, byte_costs)
    search.begin(start, forbidden, room_of(snapshot), graph.needs, max(_EVEN, tolerance))
    begun, before = search.at.copy(), search.total()
    search.descend()
    draw = random.Random(seed)
    if shakes:
        search.choose(draw, shakes)
        search.shake(draw, shakes)
    if search.total() > before:
        search.restore(begun)
    names = list(snapshot.by_id)
    return {t.id: names[i] for t, i in zip(graph.tasks, search.at.tolist(), strict=True) if i >= 0}


class _Search(Pricing):
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
        self.limit = np.maximum(self.free[:, _CPU], LEAST_CORES)
        self.used, self.count = np.zeros(self.workers), np.zeros(self.workers, int)
        self.load, self.placed = np.zeros(self.workers), 0.0
        self.at = np.full(self.tasks, -1)
        self.may = np.ones((self.tasks + 1, self.workers), bool)
        number, position = self.number, self.position
        for name, worker in forbidden:
            if name in number and worker in position:
                self.may[number[name], position[worker]] = False
        # What each task costs on each worker by its move, by what it reads, and by its streams
        # with the tasks that are placed; what these cost together.
        alone = self.moves(np.arange(self.tasks)[:, None], np.arange(self.workers)) + self.reads
        self.alone, self.own_sum = np.vstack([alone, np.zeros(self.workers)]), 0.0
        self.own = self.alone.copy()
        self._streams()
        self.enter()
        at = self.indices(start)
        stays, full = at == self.present, room.copy()
        np.subtract.at(full, at[at >= 0], needs[at >= 0])
        if (full[at[(at >= 0) & ~stays]] >= 0).all():
            self.put_all(at)
            return
        for t in [number[name] for name in start if name in number]:
            if at[t] >= 0 and (stays[t] or (self.free[at[t]] >= self.need[t]).all()):
                self.put(t, int(at[t]))

    def _streams(self) -> None:
        """Of each task the others that it talks to, and what that costs by its worker."""
        one, other = self.ends[:, self.ends[0] != self.ends[1]]
        size = self.bytes_per_s[self.ends[0] != self.ends[1]]
        pairs = np.concatenate([one * self.tasks + other, other * self.tasks + one])
        pairs, which = np.unique(pairs, return_inverse=True)
        both = np.zeros((len(pairs), 2))
        np.add.at(both, (which, np.repeat([0, 1], len(one))), np.tile(size, 2))
        self.pairs = pairs // self.tasks, pairs % self.tasks, both
        cuts = np.searchsorted(self.pairs[0], np.arange(self.tasks + 1)).tolist()
        self.talks = [(self.pairs[1][a:b], both[a:b]) for a, b in itertools.pairwise(cuts)]
        byte: Numbers = np.zeros((0, 0)) if self.byte_costs is None else self.byte_costs
        self.byte = np.stack([byte, byte.T], axis=1)

    # The state

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
        (others, size), cpu = self.talks[t], float(self.cpu[t])
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
                self.own_sum += sign * float(self.own[t, i])
                if len(others):
                    self.own[others] += sign * size @ self.byte[i]
        return was

    def put_all(self, at: Indices) -> None:
        """Place all tasks at once, of which none is placed."""
        t = np.flatnonzero(at >= 0)
        i, self.at = at[t], at.copy()
        self.count = np.bincount(i, minlength=self.workers)
        self.used = np.bincount(i, self.cpu[t], self.workers).astype(float)
        self.load, self.placed = self.used / self.speed, float(self.used.sum())
        np.subtract.at(self.free, i, self.need[t])
        one, other, size = self.pairs
        there = np.flatnonzero(at[one] >= 0)
        if len(there):
            to, size = self.byte[at[one[there]]], size[there]
            np.add.at(self.own, other[there], (size[:, None] @ to)[:, 0])
        # Streams count at both ends.
        streams = (self.own[t, i] - self.alone[t, i]).sum() / 2
        self.own_sum = float(self.alone[t, i].sum() + streams)
        self.entry, self.margins = np.where(self.count > 0, self.later, self.first), None

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
        return than if than and not _less(total, than[0]) else (total, self.at.copy())

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
        i = i if stays < 0 or _less(cost[i], cost[stays]) else stays
        if cost[i] == np.inf:
            return False
        self.put(t, i)
        return True

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
        for t in sorted(tasks, key=self.rank.__getitem__) if ordered else tasks:
            if not self.place(t):
                self._eject(t)

    def _eject(self, t: int) -> None:
        """Place a task where another one makes room for it and goes elsewhere, if there is one."""
        lack = np.maximum(self.need[t] - self.free, 0.0).sum(axis=1)
        for i in np.argsort(lack, kind="stable")[:_DONORS].tolist():
            if not self.may[t, i] or self.later[i] == np.inf:
                continue
            for other in self.on(i)[:_TASKS]:
                if (self.free[i] + self.need[other] < self.need[t]).any():
                    continue
                self.put(other, -1)
                self.put(t, i)
                if self.place(other):
                    return
                self.put(t, -1)
                self.put(other, i)

    def anew(self, out: Sequence[int], *, ordered: bool = True) -> None:
        """Take tasks out and insert them anew."""
        for t in out:
            self.put(t, -1)
        self.insert(out, ordered=ordered)

    def empty(self) -> None:
        """Close workers, or replace them by cheaper ones, where that pays."""
        if not (self.objective.rent or self.release):
            return
        failures, value = 0, self.price / np.maximum(self.count, 1)
        for i in np.argsort(-value, kind="stable").tolist():
            if self.count[i] and failures < _FAILURES:
                mark, before = self.at.copy(), self.total()
                self.enter(shut=np.arange(self.workers) == i)
                self.anew(self.on(i))
                self.enter()
                failures = 0 if _less(self.total(), before) else failures + 1
                if failures:
                    self.restore(mark)

    def nearer(self) -> None:
        """Move tasks that talk, or read, to where that costs less."""
        there = np.flatnonzero(self.at >= 0)
        if not self.objective.communication or not len(there):
            return
        gains = self.own[there, self.at[there]] - self.own[there].min(axis=1)
        order = np.argsort(-gains, kind="stable")[:_TALKING]
        for t in there[order[gains[order] > 0]].tolist():
            self.place(t, self.put(t, -1))

    def level(self) -> None:
        """Lower the highest loads step by step; the best prefix is kept, as one step may not pay.

        Rent counts in what is kept, not in a step: a worker pays only when several tasks have come.
        """
        if not self.objective.imbalance:
            return
        best = self.better()
        for _ in range(4 * self.workers + self.tasks):
            counted = self.compared(self.count)
            load = np.where(counted, self.load, -np.inf)
            limit = self.used.sum() / max(self.speed[counted].sum(), LEAST_CORES) * (1 + self.even)
            highest = np.argsort(-load)[: max(_HIGHEST, (self.workers - _ALONE) // _OF)]
            if not self._relieve(highest[load[highest] > limit], load):
                break
            best = self.better(best)
        self.restore(best[1])

    def _relieve(self, givers: Indices, load: Numbers) -> bool:
        """Make of each giver the move, or the exchange for a lighter task, that gains most, if any.

        All pairs are judged at once: rows are the givers' tasks, columns what these are exchanged
        for. A worker takes part in one of them, so that the gains of all hold.
        """
        speed, price, nothing = self.speed, self.price, self.tasks
        mine = np.flatnonzero(np.isin(self.at, givers))
        mine = mine[np.argsort(-self.cpu[mine], kind="stable")][:_TASKS, None]
        low = np.zeros(self.workers + 1, bool)  # the last: nowhere
        order = np.argsort(load, kind="stable")
        low[order[self.count[order] > 0][:_RECEIVERS]] = True
        theirs = np.flatnonzero(low[self.at])
        theirs = theirs[np.argsort(self.cpu[theirs], kind="stable")][:_LIGHTEST]
        other = np.concatenate([np.full(self.workers, nothing), theirs])
        i, to = self.at[mine], np.concatenate([np.arange(self.workers), self.at[theirs]])
        less, alone = self.cpu[mine] - self.cpu[other], other == nothing
        here, there = (self.used[i] - less) / speed[i], (self.used[to] + less) / speed[to]
        fits = np.maximum(here, there) < load[i] * (1 - self.even)
        fits &= to != i
        if not self.may.all():
            fits &= _of(self.may, mine, to) & _of(self.may, other, i).T
        worst = self.free[i, _CPU] / self.limit[i]
        for kind in np.flatnonzero(self.need.any(axis=0)).tolist():
            more = self.need[mine, kind] - self.need[other, kind]
            for on, after, ever in ((to, -more, False), (i, more, alone)):
                left = self.free[on, kind] + after
                # Of CPU a worker may lack a smaller share than the giver.
                eased = left / self.limit[on] > worst if kind == _CPU else False
                fits &= (left >= 0) | eased | ever
        if not fits.any():
            return False
        leaves = self.release & alone & (self.count[i] == 1)
        enters = ~self.compared(self.count)[to]
        load, squares, (cores, paid, _, _) = self.load, self.used @ self.load, self.paid_for()
        before = self.objective.horizon_s * self.uneven()
        second, first = np.sort(np.append(load, 0.0))[-2:]
        highest = np.maximum(np.maximum(here, there), np.where(load[i] < first, first, second))
        squares = squares + speed[i] * (here**2 - load[i] ** 2)
        squares = squares + speed[to] * (there**2 - load[to] ** 2)
        cores = cores + speed[to] * enters - speed[i] * leaves
        paid = paid + price[to] * enters - price[i] * leaves
        after = self.objective.waiting(highest, squares, self.placed, cores, paid)
        gains = before - self.objective.horizon_s * after
        gains += self.own[mine, i] + self.own[other, to]
        gains -= _of(self.own, mine, to) + _of(self.own, other, i).T
        gains = np.where(fits, gains, -np.inf)
        least, left = _BETTER * abs(before), max(1, (self.workers - _ALONE) // _OF)
        busy = np.zeros(self.workers, bool)
        for giver in givers.tolist():
            rows = np.flatnonzero((i[:, 0] == giver) & ~busy[giver])
            best = np.where(busy[to], -np.inf, gains[rows])
            if best.max(initial=-np.inf) > least and left:
                row, column = divmod(int(best.argmax()), len(to))
                t, left = int(mine[rows[row], 0]), left - 1
                self.put(t, -1)
                if not alone[column]:
                    self.put(int(other[column]), giver)
                self.put(t, int(to[column]))
                busy[[giver, to[column]]] = True
        return bool(busy.any())

    # For small jobs

    def choose(self, draw: random.Random, times: int) -> None:
        """Pack sets of workers, the cheapest first, as long as their rent alone is less."""
        if not self.objective.rent:
            return
        best = self.better()
        self.restore(np.full(self.tasks, -1))
        sets = self._sets()
        rents = self.objective.horizon_s * self.objective.rent * (sets @ self.price)
        room = sets @ self.free
        enough = np.flatnonzero((room >= self.need.sum(axis=0)).all(axis=1) & (rents < best[0]))
        alike = np.column_stack([rents, room])[enough].round(6)  # sets of workers of the same kinds
        order = enough[np.sort(np.unique(alike, axis=0, return_index=True)[1])]
        effort = max(1, _EFFORT * times // self.tasks)
        order = order[np.argsort(rents[order], kind="stable")][: max(_SETS, effort // 5)]
        more = max(0, effort // max(1, len(order)) - 2)
        scarce = -self.need.sum(axis=0) / np.maximum(self.free.sum(axis=0), _BETTER)
        kinds = sorted((1, 2), key=lambda kind: scarce[kind])[: 2 if effort > 1 else 1]
        sizes = [np.argsort(-self.need[:-1, kind], kind="stable").tolist() for kind in kinds]
        # In a set all is paid for; large tasks go where there are many cores for each slot.
        taste = -_BETTER * self.limit / np.maximum(self.free[:, 0], 1.0)
        for s in order.tolist():
            if not _less(rents[s], best[0]):
                break
            drawn = (draw.sample(range(self.tasks), self.tasks) for _ in range(more))
            for tasks in (*sizes, *drawn):
                self.enter(0.0, taste, shut=~sets[s])
                self.anew(tasks, ordered=False)
                self.enter(0.0, taste)
                self.nearer()
                best = self.better(best)
        self.enter()
        self.restore(best[1])

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
        best = self.better()
        dearer = _DEARER if times >= _MANY else 0.0
        for k in range(times):
            mark, used = self.at.copy(), np.flatnonzero(self.count).tolist()
            if k % 3 == 2 or len(used) < 2:  # a few tasks, else those of one or two workers
                out = draw.sample(range(self.tasks), min(self.tasks, 1 + draw.randrange(4)))
            else:
                gone = draw.sample(used, min(len(used), 1 + k % 2))
                out = np.flatnonzero(np.isin(self.at, gone)).tolist()
            missing = sorted({*out, *np.flatnonzero(self.at < 0).tolist()})
            self.enter(taste=self.price * np.array([draw.uniform(-1.0, 1.0) for _ in self.price]))
            draw.shuffle(missing)
            self.anew(missing, ordered=k % 2 == 0)
            self.enter()
            self.level()
            best = self.better(best)
            if self.total() > best[0] + abs(best[0]) * dearer * (1 - k / times):
                self.restore(mark)
        self.restore(best[1])


def _of(table: Any, rows: Indices, columns: Indices) -> Any:
    return table.take(rows.ravel(), 0).take(columns.ravel(), 1)


def _less(one: float, other: float) -> bool:
    return one < other - _BETTER * abs(other)
