"""The joins of a micro-batch, of what the operators in the JVM have counted."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bsjoin.metrics.foreach_batch import new_number

__all__ = ["OperatorFigures", "joins_of"]

_REMEMBERED = 10_000

Operator = dict[str, Any]
"""One that was executed; see ``Figures.java``."""


@dataclass(frozen=True)
class OperatorFigures:
    """One join of a micro-batch.

    Args:
        join: what :func:`bsjoin.metrics.observed.label_of` says of it.
        table: what the query calls the table; None for a join by ``bsjoin.join``.
        path: of the table.
        figures: what was counted.
    """

    join: dict[str, str]
    table: str | None
    path: str
    figures: dict[str, Any]


def joins_of(query: str, operators: Sequence[Operator]) -> list[OperatorFigures]:
    """The joins of one micro-batch.

    Several actions may use the rows of one join. Where their plans have the same joins, those of
    the action count that has looked most rows up: another one may have failed, or shown the first
    rows only. What actions with other joins have looked up comes in addition.

    Args:
        query: what is the same for the query's micro-batches; a plain join of all of them has one
            number.
        operators: those that were executed.
    """
    found: dict[str, OperatorFigures] = {}
    for action in _actions(operators):
        for name, operator in action:
            before = found.get(name)
            found[name] = _join(query, name, operator, None if before is None else before.figures)
    return list(found.values())


def _actions(operators: Sequence[Operator]) -> Iterator[list[tuple[str, Operator]]]:
    """The joins of each action that counts, each with what identifies it."""
    actions: dict[Any, list[tuple[str, Operator]]] = {}
    numbers: Counter[tuple[Any, str]] = Counter()
    for operator in operators:
        execution = operator["execution"]
        name = _name(operator)
        if operator["label"] is None:  # equal ones are told apart by their place
            numbers[execution, name] += 1
            name = f"{name}{numbers[execution, name]}"
        actions.setdefault(execution, []).append((name, operator))
    most: dict[Any, list[tuple[str, Operator]]] = {}
    for action in actions.values():
        # The plan of a stream itself runs beside those of its function for foreachBatch.
        key = action[0][1]["inner"], *(name for name, _ in action)
        if key not in most or _rows(action) > _rows(most[key]):
            most[key] = action
    yield from most.values()


def _name(operator: Operator) -> str:
    if operator["label"] is not None:
        return str(operator["label"]["label"])
    named = [operator[name] for name in ("table", "on", "kind", "inner")]
    return json.dumps(named)


def _rows(action: Sequence[tuple[str, Operator]]) -> int:
    return sum(int(operator["rowsIn"]) for _, operator in action)


def _join(
    query: str, name: str, operator: Operator, before: dict[str, Any] | None
) -> OperatorFigures:
    rows_in, hits, rows_out = (int(operator[n]) for n in ("rowsIn", "matchedRows", "rowsOut"))
    misses = rows_in - hits
    figures = {
        "rows_in": rows_in,
        "hits": hits,
        "matches": {"INNER": rows_out, "OUTER": rows_out - misses}.get(operator["kind"], hits),
        "rows_out": rows_out,
        "open_ns": int(operator["openTime"]),
    }
    if before is not None:
        figures = {name: value + before[name] for name, value in figures.items()}
    figures["version"] = operator["version"]
    is_plain = operator["label"] is None
    join = _plain(query, name, tuple(operator["on"])) if is_plain else operator["label"]
    table = operator["table"] if is_plain else None
    return OperatorFigures(join, table, operator["path"], figures)


@functools.lru_cache(_REMEMBERED)
def _plain(query: str, name: str, on: tuple[str, ...]) -> dict[str, str]:
    """What is said of a plain join, with a number of its own."""
    return {
        "label": f"{new_number()}:{json.dumps(on)}",
        "mode": "full",
        "partitioned": "none",
        "runtime": "jvm",
        "reason": "",
    }
