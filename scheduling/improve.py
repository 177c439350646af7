"""Local search under the objective, from a given placement: optional, behind any policy.

The effort is counted in steps, never in time, and what is random has a seed: the same arguments
give the same placement anywhere. A worker above its limit of CPU, as one with hot partitions is,
may give a task away, or exchange it for a lighter one, to whoever stays less above its own limit.
"""

import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from scheduling.objective import LEAST_CORES, Indices, Numbers, Pricing
from scheduling.search_state import BETTER, CPU, Best, Cost, SearchState, less

_ANY: Cost = (0, np.inf)
_EVEN = 1e-3  # a load so little above the mean is level, as a share
_ROUNDS, _LITTLE = 3, 1e-3  # of all steps, while they gain so much
_PATIENCE = 5  # steps that gain less than that together end the levelling of many workers
_HIGHEST = 4  # workers that are tried for one that is relieved
_ALONE, _OF = 32, 8  # of more workers than that one of so many is relieved at once
_TASKS = 64  # of theirs that are tried
_RECEIVERS, _LIGHTEST = 8, 64  # workers, and of their tasks, for an exchange
_DONORS = 16  # whose task makes room for another
_FAILURES, _FEWER = 24, 8  # workers in a row that could not be emptied; in later rounds
_TALKING = 128  # tasks that move nearer to others in one round
_SETS = 2
_EFFORT = 30  # tasks that are inserted into sets of workers for each shake
_FEW = 12  # workers of which all sets are looked at


def improve(
    start: Mapping[str, str],
    pricing: Pricing,
    *,
    forbidden: Collection[tuple[str, str]] = (),
    tolerance: float = 0.0,
    shakes: int = 0,
    seed: int = 0,
) -> dict[str, str]:
    """A placement that costs no more than the ``start``, and leaves no more tasks out.

    Tasks that the start lacks are inserted; ``forbidden`` pairs of task and worker are not tried. A
    load is level up to ``tolerance`` (a share) above the mean. ``shakes`` are rounds of ruin and
    recreate, ``seed`` is of what is random in them.

    Complexity: O(steps x (workers + tasks of a worker)), some steps for each task that moves.
    """
    if not pricing.workers or not pricing.tasks:
        return {}
    search = _Search(pricing, start, forbidden, max(_EVEN, tolerance))
    begun, before = search.at.copy(), search.total()
    search.descend()
    draw = random.Random(seed)
    if shakes:
        search.choose(draw, shakes)
        search.shake(draw, shakes)
    if search.total() > before:
        search.restore(begun)
    names, at = list(pricing.position), zip(pricing.number, search.at.tolist(), strict=True)
    return {task: names[i] for task, i in at if i >= 0}


class _Search(SearchState):
    """The steps by which a placement is changed."""

    def descend(self) -> None:
        """All steps, while they gain."""
        self.anew(np.flatnonzero(self.at < 0).tolist())
        for k in range(_ROUNDS):
            before, failures = self.total(), _FEWER if k else _FAILURES
            if self.release:
                self.empty(failures)
            self.nearer()
            self.level()
            if not self.release:  # few workers can be closed once all are level
                self.empty(failures)
            if not less(self.total(), before, _LITTLE):
                return

    def anew(self, tasks: Sequence[int], *, ordered: bool = True, below: Cost = _ANY) -> None:
        """Place tasks where they cost least, the largest first; others may have to make room.

        It ends where the rent alone is not ``below`` the cost of all tasks.
        """
        for t in tasks:
            self.put(t, -1)
        for t in sorted(tasks, key=self.rank.__getitem__) if ordered else tasks:
            if not self.place(t):
                self._eject(t)
            rent = self.objective.horizon_s * self.objective.rent * self.rent_s
            if not below[0] and rent >= below[1]:
                return

    def _eject(self, t: int) -> None:
        """Place a task where another one makes room for it and goes elsewhere, if one does."""
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

    def empty(self, most: int) -> None:
        """Close workers, or replace them by cheaper ones, until ``most`` in a row did not pay."""
        if not (self.objective.rent or self.release):
            return
        failures, value = 0, self.price / np.maximum(self.count, 1)
        before = self.total()
        for i in np.argsort(-value, kind="stable").tolist():
            if self.count[i] and failures < most:
                mark = self.at.copy()
                self.enter(shut=np.arange(self.workers) == i)
                self.anew(self.on(i), below=before)
                self.enter()
                if less(self.total(), before):
                    failures, before = 0, self.total()
                else:
                    failures += 1
                    self.restore(mark)

    def nearer(self) -> None:
        """Move tasks that talk, or read, to where that costs less."""
        there = np.flatnonzero(self.at >= 0)
        if not self.objective.communication or not len(there):
            return
        own = self.own[there]
        gains = own[range(len(there)), self.at[there]] - own.min(axis=1)
        order = np.argsort(-gains, kind="stable")[:_TALKING]
        for t in there[order[gains[order] > 0]].tolist():
            self.place(t, self.put(t, -1))

    def level(self) -> None:
        """Lower the highest loads step by step; the best prefix is kept, as one step may not pay.

        Rent counts in what is kept, not in a step: a worker pays only when several tasks have come.
        """
        if not self.objective.imbalance:
            return
        best, totals = self._shed(), deque([float("inf")], maxlen=_PATIENCE)
        for _ in range(4 * self.workers + self.tasks):
            counted = self.compared(self.count)
            load = np.where(counted, self.load, -np.inf)
            limit = self.placed / max(self.paid_for()[0], LEAST_CORES) * (1 + self.even)
            highest = np.argsort(-load)[: max(_HIGHEST, (self.workers - _ALONE) // _OF)]
            if not self._relieve(highest[load[highest] > limit], load):
                break
            best = self.better(best)
            totals.append(self.total()[1])
            if self.workers > _ALONE and abs(totals[0] - totals[-1]) < _LITTLE * abs(totals[-1]):
                break
        self.restore(best[1])

    def _shed(self) -> Best:
        """Place anew what many workers have above the mean, where that pays; what is best then."""
        best, mean, out = self.better(), self.placed / max(self.paid_for()[0], LEAST_CORES), []
        for i in np.flatnonzero(self.load > mean * (1 + self.even)).tolist():
            excess = float(self.used[i] - mean * self.speed[i])
            for t in self.on(i):
                if self.cpu[t] <= excess:
                    excess -= float(self.cpu[t])
                    out.append(t)
        if len(out) > _TASKS:
            self.enter(0.0)
            self.anew(out)
            self.enter()
            best = self.better(best)
            self.restore(best[1])
        return best

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
        rows, columns = np.arange(len(mine))[:, None], np.arange(len(other))
        i, to = self.at[mine], np.concatenate([np.arange(self.workers), self.at[theirs]])
        less, alone = self.cpu[mine] - self.cpu[other], other == nothing
        here, there = (self.used[i] - less) / speed[i], (self.used[to] + less) / speed[to]
        fits = np.maximum(here, there) < load[i] * (1 - self.even)
        fits &= to != i
        if not self.may.all():
            fits &= self.may[mine, to] & self.may[other, i]
        worst = self.free[i, CPU] / self.limit[i]
        for kind in np.flatnonzero(self.need.any(axis=0)).tolist():
            more = self.need[mine, kind] - self.need[other, kind]
            for on, after, ever in ((to, -more, False), (i, more, alone)):
                left = self.free[on, kind] + after
                # Of CPU a worker may lack a smaller share than the giver.
                eased = left / self.limit[on] > worst if kind == CPU else False
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
        own, others = self.own[mine[:, 0]], self.own[other]
        gains += own[rows, i] + others[columns, to]
        gains -= own.take(to, 1) + others.take(i[:, 0], 1).T
        gains = np.where(fits, gains, -np.inf)
        least, left = BETTER * abs(before), max(1, (self.workers - _ALONE) // _OF)
        busy = np.zeros(self.workers, bool)
        for giver in givers.tolist():
            its = np.flatnonzero((i[:, 0] == giver) & ~busy[giver])
            best = np.where(busy[to], -np.inf, gains[its])
            if best.max(initial=-np.inf) > least and left:
                row, column = divmod(int(best.argmax()), len(to))
                t, left = int(mine[its[row], 0]), left - 1
                self.put(t, -1)
                if not alone[column]:
                    self.put(int(other[column]), giver)
                self.put(t, int(to[column]))
                busy[[giver, to[column]]] = True
        return bool(busy.any())

    def choose(self, draw: random.Random, times: int) -> None:
        """Pack sets of workers, the cheapest first, as long as their rent alone is less."""
        if not self.objective.rent:
            return
        best, per_set = self.better(), max(1, _EFFORT * times // self.tasks)
        self.restore(np.full(self.tasks, -1))
        needed = np.maximum(self.need.sum(axis=0), BETTER)
        # Of what there is no limit of, as unlimited disk, all that is needed: 0 x inf is none.
        one, free = np.arange(self.workers), np.nan_to_num(self.free, posinf=float(needed.max()))
        table = np.column_stack([self.price, free])
        if self.workers <= _FEW:  # all sets; of many workers those cheapest for their size, and one
            first, every = (np.arange(1, 2**self.workers)[:, None] >> one) & 1 == 1, 1
            sums = first.astype(float) @ table
        else:
            size = np.maximum((free / needed).min(axis=1), BETTER)
            first = np.argsort(np.argsort(self.price / size, kind="stable")) < one[:, None]
            every, more = self.workers, np.where(first[:, :, None], 0.0, table)
            sums = ((first.astype(float) @ table)[:, None] + more).reshape(-1, table.shape[1])
        sums[:, 0] *= self.objective.horizon_s * self.objective.rent
        rents, most = sums[:, 0], np.inf if best[0][0] else best[0][1]
        enough = np.flatnonzero((sums[:, 1:] >= self.need.sum(axis=0)).all(axis=1) & (rents < most))
        # Workers of the same kinds, whatever the units of their prices and sizes are.
        alike = (sums[enough] / np.abs(sums).max(axis=0, initial=1e-300)).round(9)
        order = enough[np.unique(alike, axis=0, return_index=True)[1]][: max(_SETS, per_set // 5)]
        by_size = sorted(range(self.tasks), key=self.rank.__getitem__)
        # In a set all is paid for; large tasks go where there are many cores for each slot.
        taste = -BETTER * self.limit / np.maximum(self.free[:, 0], 1.0)
        for s in order.tolist():
            if not less((0, rents[s]), best[0]):
                break
            drawn = range(per_set // len(order) - 1)
            shut = ~(first[s // every] | (one == s % every) & (every > 1))
            for tasks in (by_size, *(draw.sample(by_size, self.tasks) for _ in drawn)):
                self.enter(0.0, taste, shut=shut)
                self.anew(tasks, ordered=False)
                self.enter(0.0, taste)
                self.nearer()
                best = self.better(best)
        self.enter()
        self.restore(best[1])

    def shake(self, draw: random.Random, times: int) -> None:
        """Ruin and recreate: take tasks out, put them back at other prices in another order."""
        best = self.better()
        for k in range(times):
            used = np.flatnonzero(self.count).tolist()
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
            self.restore(best[1])
