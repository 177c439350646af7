"""Local search over placements if streams between hosts have a price.

The cost of a placement is kept as it changes: a task that goes to a worker pays for its streams to
the tasks that are elsewhere, and the rent of the worker if it is the first there. Tasks move and
swap for as long as that helps; then some are taken out and put back at random prices, which finds
sets of workers that no single move leads to.

Source: ruin and recreate (G. Schrimpf et al., "Record Breaking Optimization Results Using the Ruin
and Recreate Principle", J. Comput. Phys. 159, 2000); threshold accepting (G. Dueck and T. Scheuer,
J. Comput. Phys. 90, 1990).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random as Generator

from scheduling.cost import CostModel
from scheduling.model import JobGraph, Snapshot
from scheduling.policies.capacity import FreeCapacity, free_of

__all__ = ["LocalSearchState"]

_BETTER = 1e-12
_SWAPS = 64  # tasks up to which pairs are swapped
_ANYWHERE = 24  # workers up to which a task may go to any of them, else to its neighbours' only
_CLOSE = 0.05  # the share above the best at which pairs are swapped, too
_WARM = 0.04  # the share that a placement may be dearer than the one before, at first


class LocalSearchState(FreeCapacity):
    """A placement that changes, and what it costs in weighted $/s.

    Args:
        graph: the tasks and their streams.
        snapshot: the workers.
        cost: prices and weights of rent and network.

    ``value`` is the cost; a task that is left out costs more than all else together.
    """

    def __init__(self, graph: JobGraph, snapshot: Snapshot, cost: CostModel) -> None:
        self.tasks, self.workers = graph.tasks, snapshot.workers
        number = {task.id: t for t, task in enumerate(self.tasks)}
        paid = cost.weights[1] * cost.price_per_byte
        self._links = [
            [
                (number[other], paid * bytes_per_s)
                for other, bytes_per_s in graph.neighbours[task.id]
            ]
            for task in self.tasks
        ]
        self._price = [cost.weights[0] * worker.price_per_s for worker in self.workers]
        hosts = [worker.host for worker in self.workers]
        near = {host: [float(host != other) for other in hosts] for host in set(hosts)}
        if cost.distance:
            near = {host: [cost.far(host, other) for other in hosts] for host in near}
        self._far = [near[host] for host in hosts]
        furthest = max((max(row) for row in near.values()), default=0.0)
        streams = sum(weight for links in self._links for _, weight in links) / 2
        self._left_out = 1.0 + sum(self._price) + furthest * streams
        self._free = free_of(snapshot)
        self._linked = [t for t, links in enumerate(self._links) if links]
        self.load({})

    # The state

    def load(self, placement: Mapping[str, int]) -> None:
        """Begin again with the positions of the workers that tasks are on."""
        super().__init__(*self._free)
        self.at = [-1] * len(self.tasks)
        self.count = [0] * len(self.workers)
        self.value = self._left_out * len(self.tasks)
        for t, task in enumerate(self.tasks):
            if task.id in placement:
                self._put(t, placement[task.id])

    @property
    def placement(self) -> dict[str, int]:
        """Where the tasks are, by the positions of the workers."""
        return {task.id: i for task, i in zip(self.tasks, self.at, strict=True) if i >= 0}

    def _way(self, t: int, i: int) -> float:
        far, at = self._far[i], self.at
        total = 0.0
        for other, weight in self._links[t]:
            if at[other] >= 0:
                total += weight * far[at[other]]
        return total

    def _pays(self, t: int, i: int) -> float:
        return self._way(t, i) + (0.0 if self.count[i] else self._price[i])

    def _put(self, t: int, i: int) -> None:
        self.value += self._pays(t, i) - self._left_out
        self._book(self.tasks[t].demand, i, 1)
        self.count[i] += 1
        self.at[t] = i

    def _take(self, t: int) -> None:
        i = self.at[t]
        self.at[t] = -1
        self._book(self.tasks[t].demand, i, -1)
        self.count[i] -= 1
        self.value -= self._pays(t, i) - self._left_out

    # Steps down

    def descend(
        self, tasks: Iterable[int] | None = None, rounds: int = 20, *, swaps: bool = True
    ) -> None:
        """Move and swap tasks for as long as it helps.

        Complexity: O(rounds x tasks x workers x streams of a task), on large clusters O(rounds x
        edges x streams of a task); swaps O(tasks²) a round, for up to 64 tasks.
        """
        chosen = list(range(len(self.tasks))) if tasks is None else list(tasks)
        if len(self.workers) > _ANYWHERE:
            chosen = [t for t in chosen if self._links[t]]
        for _ in range(rounds):
            moved = [t for t in chosen if self._move(t)]
            if not moved and not (swaps and len(self.tasks) <= _SWAPS and self._swap(chosen)):
                break
            if len(self.workers) > _ANYWHERE:
                # Only what moved, and what talks to it, may be better elsewhere now.
                chosen = sorted({o for t in moved for o, _ in self._links[t]} | set(moved))

    def _targets(self, t: int) -> Iterable[int]:
        if len(self.workers) <= _ANYWHERE:
            return range(len(self.workers))
        return {self.at[other] for other, _ in self._links[t] if self.at[other] >= 0}

    def _move(self, t: int) -> bool:
        here = self.at[t]
        if here >= 0:
            self._take(t)
            best, to = self._pays(t, here) - _BETTER, here
        else:
            best, to = self._left_out, -1
        for i in self._targets(t):
            if i != here and self.fits(self.tasks[t], i):
                pays = self._pays(t, i)
                if pays < best:
                    best, to = pays, i
        if to >= 0:
            self._put(t, to)
        return to != here

    def _swap(self, tasks: Sequence[int]) -> bool:
        swapped = False
        for one in tasks:
            for other in range(len(self.tasks)):
                a, b = self.at[one], self.at[other]
                if a == b or a < 0 or b < 0 or not (self._links[one] or self._links[other]):
                    continue
                before = self.value
                self._take(one)
                self._take(other)
                if self.fits(self.tasks[one], b) and self.fits(self.tasks[other], a):
                    self._put(one, b)
                    self._put(other, a)
                    if self.value < before - _BETTER:
                        swapped = True
                        continue
                    self._take(one)
                    self._take(other)
                self._put(one, a)
                self._put(other, b)
        return swapped

    # Ruin and recreate

    def search(self, draw: Generator, rounds: int) -> None:
        """Take some tasks out and put them back, and keep the best placement that is found.

        In every second round all tasks are placed anew, on a set of workers near that in use.

        Complexity: O(rounds x tasks taken out x workers x streams of a task).
        """
        best, least = list(self.at), self.value
        for turn in range(rounds):
            before, value = list(self.at), self.value
            allowed = self._other_set(draw) if turn % 2 else range(len(self.workers))
            out = list(range(len(self.tasks))) if turn % 2 else self._ruined(draw)
            for t in out:
                if self.at[t] >= 0:
                    self._take(t)
            self._recreate(draw, out, allowed)
            self.descend(out, 3, swaps=False)
            if self.value < least * (1 + _CLOSE):
                self.descend()
            if self.value < least - _BETTER:
                best, least = list(self.at), self.value
            warm = _WARM * (1 - turn / rounds)
            if self.value > value * (1 + warm):
                self._restore(before)
        self._restore(best)

    def _ruined(self, draw: Generator) -> list[int]:
        """The tasks of one or two workers, or one with those it talks to, or any."""
        used = [i for i, count in enumerate(self.count) if count]
        missing = [t for t, i in enumerate(self.at) if i < 0]
        way = draw.randrange(4)
        if way < 2 and used:
            gone = set(draw.sample(used, min(len(used), 1 + way)))
            out = [t for t, i in enumerate(self.at) if i in gone]
        elif way == 2 and self._linked:
            t = draw.choice(self._linked)
            out = [t, *(other for other, _ in self._links[t] if other != t)][:8]
            out = [t for t in out if self.at[t] >= 0]
        else:
            there = [t for t, i in enumerate(self.at) if i >= 0]
            out = draw.sample(there, min(len(there), 2 + draw.randrange(1 + len(there) // 3)))
        return out + missing

    def _other_set(self, draw: Generator) -> list[int]:
        """The workers in use without up to two of them, and with up to two others."""
        used = [i for i, count in enumerate(self.count) if count]
        closed = [i for i, count in enumerate(self.count) if not count and self.slots[i]]
        leave = draw.sample(used, min(len(used), draw.choice((0, 1, 1, 2))))
        enter = draw.sample(closed, min(len(closed), draw.choice((0, 1, 1, 2))))
        return [i for i in used if i not in leave] + enter

    def _recreate(self, draw: Generator, out: list[int], allowed: Sequence[int]) -> None:
        # At other prices, other workers look good: what is closed may be free, or twice as dear.
        real = self._price
        bias = draw.choice((0.0, 0.5, 1.0, 1.0, 2.0))
        tie = 1e-6 * max(real)  # Where prices are nothing, the first is not better.
        noisy = [tie * draw.random() + price * bias * draw.uniform(0.2, 1.8) for price in real]
        draw.shuffle(out)
        if draw.random() < 0.5:
            out.sort(key=lambda t: -self.tasks[t].demand.cpu_cores)
        for t in out:
            self._price = noisy
            ways = [(self._pays(t, i), i) for i in allowed if self.fits(self.tasks[t], i)]
            self._price = real
            if ways:
                self._put(t, min(ways)[1])

    def _restore(self, at: Sequence[int]) -> None:
        for t, i in enumerate(self.at):
            if i != at[t] and i >= 0:
                self._take(t)
        for t, i in enumerate(at):
            if i >= 0 and self.at[t] < 0:
                self._put(t, i)
