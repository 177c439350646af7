"""Local search under the objective, from a given placement.

Four kinds of step, in this order: tasks without a worker are placed; workers are closed, or
replaced by cheaper ones, where that saves rent; tasks go to where their data is; loads are
levelled. Each step is kept only if it lowers the total cost, which includes the moves from the
present placement, so a search that begins there changes no more than pays. The effort is counted
in steps and never in time: the same arguments give the same placement on any machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from scheduling.search.levelling import level
from scheduling.search.state import PlacementState

__all__ = ["improve"]

_SMALL_JOB = 64  # tasks of a job in which tasks that talk are placed anew together
_SHAKES = 40
_BETTER = 1e-9  # share of the total cost that counts as less
_FAILURES = 8  # workers in a row that are not worth closing or replacing
_LOOKS = 256  # tasks whose other workers are looked at, at least
_LOOKS_SHARE = 0.2  # and this share of all tasks, if that is more
_ROUNDS = 3  # over all kinds of step
_GAIN = 1e-3  # share of the total cost that another round must have gained
_LEVELS = 32  # steps of levelling after a worker is closed
_NOT_WORTH = 3  # failures that one counts as which was tried to the end
_LEVELLED = 1.5  # what levelling may gain, over what the highest load costs above the mean
_EJECTIONS = 16  # workers on which room is made for a task


def improve(state: PlacementState) -> None:
    """Lower the total cost by local steps; place tasks that have no worker.

    Complexity: O((tasks + workers) x (workers + tasks of a worker)) at most.
    """
    insert(state, state.unplaced)
    tasks = len(state.tasks)
    looks = max(_LOOKS, round(_LOOKS_SHARE * tasks))
    for _ in range(_ROUNDS):
        before = state.value
        if state.release:
            _close(state)
            _replace(state)
        looks = _nearer(state, looks)
        level(state, 4 * len(state.workers) + tasks)
        if state.value >= before * (1 - _GAIN) or not state.release:
            break
    if tasks <= _SMALL_JOB:
        _shake(state)


def insert(state: PlacementState, tasks: Sequence[int]) -> None:
    """Place tasks without a worker, the largest first, each where it costs least.

    Of workers that cost the same, the least loaded. A task without room takes the place of a task
    that has room elsewhere; it stays unplaced if there is none.
    """
    for t in state.sorted_tasks(tasks):
        cost = state.changes(t)
        least = float(cost.min(initial=np.inf))
        if np.isfinite(least):
            load = state.load() + state.cpu[t] / state.speed
            near = cost <= least + _BETTER * max(1.0, abs(least))
            state.move(t, int(np.where(near, load, np.inf).argmin()))
        elif not state.fixed.all():
            _eject(state, t)


def _eject(state: PlacementState, t: int) -> None:
    """Make room for a task by moving one other task."""
    lacking = np.maximum(state.demand[t] - state.free, 0.0).sum(axis=1)
    for i in np.argsort(lacking, kind="stable")[:_EJECTIONS].tolist():
        if not state.may(t, i):
            continue
        for other in sorted(state.on[i], key=lambda one: (state.cpu[one], one)):
            if state.fixed[other] or (state.free[i] + state.demand[other] < state.demand[t]).any():
                continue
            cost = state.changes(other)
            if np.isfinite(cost.min(initial=np.inf)):
                state.move(other, int(cost.argmin()))
                state.move(t, i)
                return


def _close(state: PlacementState) -> None:
    """Empty workers whose rent is more than what their tasks cost elsewhere."""
    used = [i for i, tasks in enumerate(state.on) if tasks]
    horizon, saved = state.objective.horizon_s, {}
    for i in used:
        elsewhere = state.extras(sorted(state.on[i]), np.delete(np.array(used), used.index(i)))
        saved[i] = horizon * state.price[i] - float(elsewhere.min(axis=1, initial=np.inf).sum())
    used.sort(key=lambda i: (-saved[i], i))
    failures = 0
    for i in used:
        if not state.on[i] or any(state.fixed[t] for t in state.on[i]):
            continue
        mark, before = len(state.log), state.value
        if not _emptied(state, i):
            state.undo(mark)
            failures += 1
        elif _pays(state, before):
            failures = 0
        else:
            state.undo(mark)
            failures += _NOT_WORTH
        if failures >= _FAILURES:
            break


def _emptied(state: PlacementState, i: int) -> bool:
    """Move all tasks of a worker to others in use; False if one has no room."""
    worth = state.per_load(state.mean)
    for t in state.sorted_tasks(list(state.on[i])):
        room = state.room(t) & state.counted()
        room[i] = False
        if not room.any():
            return False
        extra = state.extra(t)
        load = state.load() + state.cpu[t] / state.speed
        state.move(t, int(np.where(room, extra + worth * load, np.inf).argmin()))
    return True


def _pays(state: PlacementState, before: float) -> bool:
    """Whether the placement costs less than before, if necessary after levelling it."""
    if state.value < before - _BETTER * abs(before):
        return True
    mean = state.mean
    above = float(state.load().max(initial=0.0)) - mean
    if state.value - before < _LEVELLED * state.per_load(mean) * above:
        level(state, _LEVELS)
    return state.value < before - _BETTER * abs(before)


def _replace(state: PlacementState) -> None:
    """Move all tasks of a worker to a cheaper one that is idle."""
    used = [i for i, tasks in enumerate(state.on) if tasks]
    failures = 0
    for i in sorted(used, key=lambda i: (-state.price[i], i)):
        if failures == _FAILURES:
            break
        tasks = sorted(state.on[i])
        if not tasks or any(state.fixed[t] for t in tasks):
            continue
        need = state.demand[tasks].sum(axis=0)
        fits = ~state.busy & (state.free >= need).all(axis=1) & (state.price < state.price[i])
        for j in np.flatnonzero(fits)[np.argsort(state.price[fits], kind="stable")][:2].tolist():
            mark, before = len(state.log), state.value
            if all(state.may(t, j) for t in tasks):
                for t in tasks:
                    state.move(t, j)
                if _pays(state, before):
                    failures = 0
                    break
            state.undo(mark)
            failures += 1


def _nearer(state: PlacementState, looks: int) -> int:
    """Move tasks that talk to others, or read from preferred hosts, to where they cost less.

    Those that pay most for it first. Returns how many of ``looks`` are left.
    """
    talks = [t for t in sorted(state.streams.talking) if state.at[t] >= 0 and not state.fixed[t]]
    paid = state.streams.paid()[1].tolist() if talks and looks else [0.0] * len(state.tasks)
    chosen = sorted((t for t in talks if paid[t] > 0), key=lambda t: (-paid[t], t))
    for _ in range(_ROUNDS):
        moved = False
        for t in chosen:
            if looks <= 0:
                return 0
            looks -= 1
            cost = state.changes(t)
            if cost.min(initial=0.0) < -_BETTER * abs(state.value):
                state.move(t, int(cost.argmin()))
                moved = True
        if not moved:
            break
    return looks


def _shake(state: PlacementState) -> None:
    """Take out a task that talks and its partners, and place them anew; keep what is better."""
    draw = random.Random(0)
    talks = [t for t in sorted(state.streams.talking) if not state.fixed[t]]
    free = np.flatnonzero(~state.fixed).tolist()
    for _ in range(_SHAKES if talks else 0):
        mark, before = len(state.log), state.value
        t = draw.choice(talks)
        out = [t, *(other for other in state.streams.partners(t) if not state.fixed[other])][:8]
        out += [one for one in draw.sample(free, min(2, len(free))) if one not in out]
        out = [one for one in out if state.at[one] >= 0]
        draw.shuffle(out)
        for one in out:
            state.remove(one)
        for one in out:
            cost = state.changes(one)
            if not np.isfinite(cost.min(initial=np.inf)):
                break
            state.move(one, int(cost.argmin()))
        else:
            level(state, _LEVELS)
            if state.value < before - _BETTER * abs(before):
                continue
        state.undo(mark)
