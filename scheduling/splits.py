"""Moves of parts of tasks, whose rows go to other tasks of the same operator on the target."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from scheduling.history import LoadEstimate
from scheduling.model import JobGraph, Move, Plan


def _receivers(move: Move, placement: Mapping[str, str], operators: Mapping[str, str]) -> list[str]:
    """The tasks of the same operator on the target of a move; ``operators``: of each task."""
    own, there = operators.get(move.task), [n for n, at in placement.items() if at == move.target]
    return [name for name in there if name != move.task and operators.get(name, "") == own]


def spreadable(moves: Sequence[Move], placement: Mapping[str, str], graph: JobGraph) -> list[Move]:
    """The moves whose target has tasks that can take a part."""
    operators = {task.id: task.operator for task in graph.tasks}
    return [one for one in moves if _receivers(one, placement, operators)]


def take_parts(plan: Plan, graph: JobGraph, estimate: LoadEstimate) -> None:
    """Move the estimated load of split tasks."""
    operators = {task.id: task.operator for task in graph.tasks}
    for move in plan.moves:
        if move.part < 1:
            estimate.split(move.task, move.part, _receivers(move, plan.placement, operators))


def indices(
    moves: Sequence[Move], placement: Mapping[str, str], operator: str
) -> dict[int, dict[int, float]]:
    """By index of a split task, the share of its load for the index of each receiver, evenly."""
    operators = {name: name.rpartition("-")[0] for name in placement}
    found: dict[int, dict[int, float]] = {}
    for move in moves:
        to = _receivers(move, placement, operators)
        if move.part < 1 and to and operators.get(move.task) == operator:
            parts = found.setdefault(_index(move.task), {})
            amount = (1 - sum(parts.values())) * move.part  # of what earlier moves have left
            for name in to:
                parts[_index(name)] = parts.get(_index(name), 0.0) + amount / len(to)
    return found


def dropped_shares(moves: Iterable[Move]) -> dict[int, float]:
    """By index of a task, the share of its load that the moves would have taken away."""
    found = defaultdict[int, float](float)
    for move in moves:
        found[_index(move.task)] += (1 - found[_index(move.task)]) * move.part
    return dict(found)


def split_names(moves: Iterable[Move]) -> str:
    """The tasks of which parts move, in words: three of them, and the number of the others."""
    tasks = sorted({one.task for one in moves if one.part < 1})
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return ", ".join(tasks[:3]) + more


def _index(task: str) -> int:
    return int(task.rpartition("-")[2])
