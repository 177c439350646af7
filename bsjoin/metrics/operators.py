"""The joins of a micro-batch, of what the operators in the JVM have counted."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bsjoin.metrics.join_metrics import JoinLabel, JoinMetrics, OperatorMetrics
from bsjoin.metrics.numbers import new_number

_REMEMBERED = 10_000

Found = tuple[JoinLabel, OperatorMetrics]


def joins_of(query: str, operators: Sequence[OperatorMetrics]) -> list[Found]:
    """The joins of one micro-batch.

    Several actions may use the rows of one join. Where their plans have the same joins, those of
    the action count that has looked most rows up: another one may have failed, or shown the first
    rows only. What actions with other joins have looked up comes in addition. A plain join has one
    number in all micro-batches of the query.
    """
    found: dict[str, Found] = {}
    for action in _actions(operators):
        for name, operator in action:
            metrics = JoinMetrics()
            metrics.add(operator.metrics)
            if name in found:
                metrics.add(found[name][1].metrics)
            label = operator.label or _plain(query, name, operator.on)
            found[name] = label, replace(operator, metrics=metrics)
    return list(found.values())


def _actions(operators: Sequence[OperatorMetrics]) -> Iterator[list[tuple[str, OperatorMetrics]]]:
    """The joins of each action that counts, each with what identifies it."""
    actions: dict[str | None, list[tuple[str, OperatorMetrics]]] = {}
    numbers: Counter[tuple[str | None, str]] = Counter()
    for operator in operators:
        execution = operator.execution
        if operator.label is not None:
            name = operator.label.label
        else:  # equal ones differ in their place
            name = json.dumps([operator.table, operator.on, operator.kind, operator.inner])
            numbers[execution, name] += 1
            name = f"{name}{numbers[execution, name]}"
        actions.setdefault(execution, []).append((name, operator))
    most: dict[object, list[tuple[str, OperatorMetrics]]] = {}
    for action in actions.values():
        # The plan of a stream itself runs beside those of its function for foreachBatch.
        key = action[0][1].inner, *(name for name, _ in action)
        if key not in most or _rows(action) > _rows(most[key]):
            most[key] = action
    yield from most.values()


def _rows(action: Sequence[tuple[str, OperatorMetrics]]) -> int:
    return sum(operator.metrics.rows_in for _, operator in action)


@functools.lru_cache(_REMEMBERED)
def _plain(query: str, name: str, on: tuple[str, ...]) -> JoinLabel:
    """Return the label of a plain join, with a number of its own."""
    label = f"{new_number()}:{json.dumps(on)}"
    return JoinLabel(label=label, mode="full", partitioned="none", runtime="jvm")
