"""Levelling: moves and swaps that bring the highest load down.

The imbalance depends on the highest load only, so a single move may show no gain while several
workers are equally loaded. Steps are therefore made one after the other, and the best prefix of
them is kept: as many as pay for the moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.search.state import PlacementState

__all__ = ["level"]

_TARGETS = 8  # the least loaded workers that a step looks at
_CHOICES = 64  # tasks of the most loaded worker that a step looks at
_PAIRS = 48  # exchanges that a step looks at, those that lower the load most
_BETTER = 1e-9

Int64s = NDArray[np.int64]
Step = list[tuple[int, int]]


def level(state: PlacementState, steps: int) -> None:
    """Make steps while the highest load falls, and keep those that pay.

    Args:
        state: the placement to change.
        steps: the maximum number of steps.

    Complexity: O(steps x (workers + tasks of a worker)).
    """
    best, kept = state.value, len(state.log)
    for _ in range(steps):
        counted, load = state.counted(), state.load()
        mean = state.mean
        if not mean:
            break
        load[~counted] = -np.inf
        high = int(load.argmax())
        if load[high] <= mean * (1 + state.tolerance):
            break
        step = _step(state, high, load, mean)
        if step is None:
            break
        for t, i in step:
            state.move(t, i)
        value = state.value
        if value < best - _BETTER * abs(best):
            best, kept = value, len(state.log)
    state.undo(kept)


def _step(state: PlacementState, high: int, load: NDArray[np.float64], mean: float) -> Step | None:
    """The moves of the best step that lowers the load of one worker; None if there is none."""
    tasks = [t for t in state.movable(high) if state.cpu[t] > 0]
    if not tasks:
        return None
    if len(tasks) > _CHOICES:
        surplus = (load[high] - mean) * state.speed[high]
        tasks.sort(key=lambda t: abs(state.cpu[t] - surplus))
        tasks = tasks[:_CHOICES]
    tasks.sort()
    others = np.flatnonzero(np.isfinite(load) & (load < load[high]) & state.open)
    if not len(others):
        return None
    near = others
    if len(others) > _TARGETS:
        near = others[np.argpartition(load[others], _TARGETS)[:_TARGETS]]
    near = np.sort(near)
    step = _Choice(state, high, tasks, load, state.tolerance * mean, state.per_load(mean))
    # In a cluster that is nearly full most workers have room for none of the tasks.
    roomy = others[(state.free[others] >= state.demand[tasks].min(axis=0)).all(axis=1)]
    first = near[np.isin(near, roomy)] if len(roomy) else roomy
    found = step.move(first) if len(first) else None
    if found is None and len(first) < len(roomy):
        roomy = roomy[np.argsort(load[roomy], kind="stable")[:_CHOICES]]
        found = step.move(roomy)
    return found or step.swap(near)


@dataclass(frozen=True)
class _Choice:
    """What a step chooses from: tasks of one worker that could run on others.

    Args:
        state: the placement.
        high: the worker.
        tasks: its tasks that may move.
        load: of each worker.
        least: by how much the load has to fall.
        worth: of a fall by one.
    """

    state: PlacementState
    high: int
    tasks: list[int]
    load: NDArray[np.float64]
    least: float
    worth: float

    def move(self, targets: Int64s) -> Step | None:
        """The best move of one task."""
        state, high, tasks, load = self.state, self.high, self.tasks, self.load
        speed, cpu = state.speed, state.cpu[tasks]
        left = load[high] - cpu / speed[high]
        there = load[targets] + cpu[:, None] / speed[targets]
        fall = load[high] - np.maximum(left[:, None], there)
        fits = (state.free[targets][None] >= state.demand[tasks][:, None]).all(axis=2)
        possible = fits & (fall > self.least)
        rows = np.flatnonzero(possible.any(axis=1))
        if not len(rows):
            return None
        extra = state.extras([tasks[row] for row in rows.tolist()], np.append(targets, high))
        score = self.worth * fall[rows] - (extra[:, :-1] - extra[:, -1:])
        score[~possible[rows]] = -np.inf
        while True:
            row, column = np.unravel_index(int(score.argmax()), score.shape)
            best, t, i = float(score[row, column]), tasks[rows[row]], int(targets[column])
            if best <= 0:
                return None
            if state.may(t, i):
                return [(t, i)]
            score[row, column] = -np.inf

    def swap(self, targets: Int64s) -> Step | None:
        """The best exchange of a task with a lighter one."""
        state, high, tasks, load = self.state, self.high, self.tasks, self.load
        found = [
            (u, column)
            for column, i in enumerate(targets.tolist())
            for u in sorted(state.movable(i))[:_CHOICES]
        ]
        if not found:
            return None
        others, columns = (np.array(part) for part in zip(*found, strict=True))
        own, speed = targets[columns], state.speed
        less = state.cpu[tasks][:, None] - state.cpu[others]
        fall = load[high] - np.maximum(
            load[high] - less / speed[high], load[own] + less / speed[own]
        )
        rows, places = np.nonzero(fall > self.least)
        mine, theirs = state.demand[tasks][rows], state.demand[others][places]
        fits = (state.free[own[places]] + theirs >= mine).all(axis=1)
        fits &= (state.free[high] + mine >= theirs).all(axis=1)
        rows, places = rows[fits], places[fits]
        if not len(rows):
            return None
        if len(rows) > _PAIRS:
            most = np.sort(np.argpartition(-fall[rows, places], _PAIRS)[:_PAIRS])
            rows, places = rows[most], places[most]
        all_columns = np.append(targets, high)
        lent, leaving = _numbered(rows, len(tasks))
        back, coming = _numbered(places, len(others))
        out = state.extras([tasks[row] for row in lent.tolist()], all_columns)
        into = state.extras(others[back].tolist(), all_columns)
        there = columns[places]
        cost = out[leaving, there] - out[leaving, -1] + into[coming, -1] - into[coming, there]
        score = self.worth * fall[rows, places] - cost
        for k in np.argsort(-score, kind="stable").tolist():
            if score[k] <= 0:
                break
            t, u, i = tasks[rows[k]], int(others[places[k]]), int(own[places[k]])
            if state.may(t, i) and state.may(u, high):
                return [(t, i), (u, high)]
        return None


def _numbered(values: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """The different values below ``size`` in their order, and for each value which of them it is.

    >>> [part.tolist() for part in _numbered(np.array([5, 2, 5]), 6)]
    [[2, 5], [1, 0, 1]]
    """
    there = np.zeros(size, np.bool_)
    there[values] = True
    different: Int64s = np.flatnonzero(there)
    return different, (np.cumsum(there) - 1)[values]
