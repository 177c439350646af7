"""Times alternatives in turns, and turns their times into figures."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import truediv
from typing import Any, TypeVar

import numpy as np
from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Context, Figure
from benchmarks.harness.spark import Join, consume, fingerprint

T = TypeVar("T")
Times = dict[str, list[float]]
"""Seconds by way and round."""

_IDLE_S = 30


def timed(action: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Seconds that a call takes, and its result."""
    started = time.perf_counter()
    result = action(*arguments)
    return time.perf_counter() - started, result


def seconds_of(action: Callable[..., object], *arguments: Any) -> float:
    """Seconds that a call takes."""
    return timed(action, *arguments)[0]


def alternate(
    ways: Mapping[str, Callable[[], float]],
    rounds: int,
    warm: Iterable[str] = (),
    slow_s: float = math.inf,
    say: Callable[[str], None] = lambda _: None,
) -> Times:
    """Run all alternatives in each round, so that a change of the machine's speed affects all.

    Each round begins with another way, so that none always runs after the same one. A quick way
    that waited for half a minute runs once uncounted before: Spark ends Python workers that idle
    for a minute, with the table that they have open, and those of a stream do not idle.

    Args:
        ways: each runs once and returns its seconds.
        rounds: how often each is timed.
        warm: ways that need no warm-up; the others run once uncounted.
        slow_s: what takes longer is timed at most twice.
        say: prints the times of each way.

    Returns:
        The seconds of every way, by round.
    """
    times: Times = {name: [] for name in ways}
    ended: dict[str, float] = {}
    for name in set(ways).difference(warm):
        ways[name]()
    for turn in range(rounds):
        for name in rotated(ways, turn):
            is_quick = max(times[name], default=0.0) < slow_s
            if not is_quick and len(times[name]) >= 2:
                continue
            if is_quick and time.monotonic() - ended.get(name, math.inf) > _IDLE_S:
                ways[name]()
            times[name].append(ways[name]())
            ended[name] = time.monotonic()
    for name, seconds in times.items():
        middle, least, most = (f(seconds) * 1e3 for f in (statistics.median, min, max))
        say(f"{name:<28} {middle:9,.1f} ms  ({least:,.1f} to {most:,.1f})")
    return times


def rotated(ways: Iterable[str], turn: int) -> list[str]:
    """The ways of a turn: each turn begins with another one."""
    names = list(ways)
    first = turn % len(names)
    return names[first:] + names[:first]


def check_joins(answers: Mapping[str, Callable[[], DataFrame]], columns: Sequence[str]) -> int:
    """The number of rows that all ways answer; they must be the same rows.

    Raises:
        AssertionError: an answer differs from the first, or all are empty.
    """
    right = check_equal({name: fingerprint(answer(), columns) for name, answer in answers.items()})
    if not right[0]:
        raise AssertionError(f"{', '.join(answers)} find nothing: the check would be empty")
    return int(right[0])


def time_joins(
    context: Context, label: str, joins: Mapping[str, Join], stream: DataFrame, rounds: int,
    **more: Any,
) -> Times:  # fmt: skip
    """Seconds in which each join of a batch DataFrame runs into a sink, by way and round.

    A time begins with the call that makes the joined DataFrame. The results must have been compared
    before. ``label`` is printed; ``more`` are other arguments of :func:`alternate`.
    """
    runs = {name: partial(seconds_of, _run, join, stream) for name, join in joins.items()}
    return alternate(runs, rounds, say=lambda line: context.say(f"  {label}  {line}"), **more)


def compare_joins(
    context: Context, label: str, joins: Mapping[str, Join], stream: DataFrame,
    columns: Sequence[str], rounds: int, warm_ups: int = 0, **more: Any,
) -> tuple[int, Times]:  # fmt: skip
    """Check joins of a batch DataFrame, warm them up, and time them as :func:`time_joins` does.

    Returns:
        The number of rows that all answer, and the seconds.
    """
    rows = check_joins({name: partial(join, stream) for name, join in joins.items()}, columns)
    for join in list(joins.values()) * warm_ups:
        _run(join, stream)
    return rows, time_joins(context, label, joins, stream, rounds, **more)


def _run(join: Join, stream: DataFrame) -> None:
    consume(join(stream))


def ratio(
    name: str,
    above: list[float],
    below: list[float],
    bound: float | None = None,
    *,
    at_most: bool = False,
    by_round: bool = False,
    **more: Any,
) -> Figure:
    """The ratio of the medians, with the spread of the ratios of the rounds.

    Args:
        name: of the figure.
        above: the numerator, by round.
        below: the denominator, by round; only the rounds that both have count.
        bound: of the figure.
        at_most: whether the bound is an upper one.
        by_round: take the median of the rounds' ratios instead.
        more: other fields of the figure.
    """
    count = min(len(above), len(below))
    ratios = [_over(a, b) for a, b in zip(above[:count], below[:count], strict=True)]
    value = _over(statistics.median(above[:count]), statistics.median(below[:count]))
    value = statistics.median(ratios) if by_round else value
    return Figure(name, value, bound, at_most, spread_of(ratios), **more)


def median_of(
    name: str, values: Sequence[float], bound: float | None = None, **more: Any
) -> Figure:
    """The median of numbers of which less is better, with their spread; ``more``: other fields."""
    return Figure(name, statistics.median(values), bound, True, spread_of(values), **more)


def quantile(parts: Sequence[Sequence[float]], share: float) -> float:
    """Of the numbers of all parts together."""
    return float(np.quantile(np.hstack(parts), share))


def quantiles(
    above: Sequence[Sequence[float]], below: Sequence[Sequence[float]], share: float,
    compared: Callable[[float, float], float] = truediv,
) -> tuple[float, tuple[float, float] | None]:  # fmt: skip
    """A quantile of some numbers over that of others: the median of their parts, and the spread."""
    pairs = zip(above, below, strict=True)
    each = [compared(quantile([a], share), quantile([b], share)) for a, b in pairs]
    return statistics.median(each), spread_of(each)


def spread_of(values: Sequence[float]) -> tuple[float, float] | None:
    """The least and the most of several values; None of one."""
    return (min(values), max(values)) if len(values) > 1 else None


def rows_by_way(times: Mapping[str, Sequence[float]], unit: str = "s") -> list[dict[str, Any]]:
    """Rows of a table: the median of each way, the least and the most."""
    return [
        {"way": way, unit: statistics.median(some), "least": min(some), "most": max(some)}
        for way, some in times.items()
    ]


def _over(above: float, below: float) -> float:
    """A ratio, which is infinite or no number over 0: one cell less, and not the whole record."""
    if below:
        return above / below
    return math.copysign(math.inf, above) if above else math.nan


def check_equal(answers: Mapping[str, Any]) -> Any:
    """The answer that all give.

    Raises:
        AssertionError: some differ from the first.
    """
    first, right = next(iter(answers.items()))
    wrong = [name for name, answer in answers.items() if answer != right]
    if wrong:
        raise AssertionError(f"{', '.join(wrong)} differ from {first}: {str(answers)[:2_000]}")
    return right
