"""The outcome of range joins, ours and the alternatives, case by case."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.harness.outcome import Figure, Outcome, Table
from benchmarks.harness.timing import seconds_of

T = TypeVar("T")

_WARM_UP = 5  # until the JVM has compiled what a case runs often
_FIRST_WARM_UP = 30  # until it has compiled Spark's planner, which all cases run
Found = dict[str, dict[str, Any]]
"""By case: ``size``, ``pairs``, ``build_s`` (of ours) and ``seconds``, by way."""


def warm_ups(case: int, *, quick: bool) -> int:
    """How often each way runs before a case, by its number, is measured."""
    if quick:
        return 0
    return _WARM_UP if case else _FIRST_WARM_UP


def best_rival(one: dict[str, Any], *ours: str) -> list[float]:
    """The seconds of the fastest alternative to our ways."""
    rivals = [seconds for way, seconds in one["seconds"].items() if way not in ours]
    return min(rivals, key=statistics.median)


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes, and its result."""
    results: list[T] = []
    return seconds_of(lambda: results.append(action())), results[0]


def compared(
    found: Found, ours: str, figures: list[Figure], title: str, head: str, note: str
) -> Outcome:
    """A table, ``head``, with cases as rows and ways as columns; ``title`` is its picture's."""
    ways = dict.fromkeys(way for one in found.values() for way in one["seconds"])
    rows = []
    for case, one in found.items():
        ms = {way: statistics.median(seconds) * 1e3 for way, seconds in one["seconds"].items()}
        faster = ", ".join(way for way in ms if ms[way] < ms[ours])
        rows.append(
            {"case": f"{case}, {one['size']}", "matches": one["pairs"], "build, s": one["build_s"]}
            | {f"{way}, ms": ms.get(way) for way in ways}
            | {"faster than ours": faster or "none"}
        )
    rivals, label = ("Spark", "DuckDB", "Polars"), "times as long as bsjoin"
    table = Table.of(head, rows, note).drawn(
        "dots", "case", *rivals, over=f"{ours}, ms", title=title, xscale="log", xlabel=label
    )
    return Outcome(figures, [table], measured=found)
