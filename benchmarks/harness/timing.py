"""Times alternatives alternately, and turns their times into ratios."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import psutil
from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Context, Figure
from benchmarks.harness.spark import Join, consume, fingerprint


def seconds_of(action: Callable[..., object], *arguments: Any) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - started


def cpu_s() -> float:
    """Seconds of CPU that this process and all that it has started have used so far."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def alternate(
    ways: Mapping[str, Callable[[], float]],
    rounds: int,
    warm: Iterable[str] = (),
    slow_s: float = math.inf,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, list[float]]:
    """Run all alternatives in each round, so that a change of the machine's speed affects all.

    Args:
        ways: each runs once and returns its seconds.
        rounds: how often each is timed.
        warm: ways that need no warm-up; the others run once uncounted.
        slow_s: what takes longer is timed at most twice.
        say: prints the times of each way.

    Returns:
        The seconds of every way, by round.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for name in set(ways) - set(warm):
        ways[name]()
    for _ in range(rounds):
        for name, way in ways.items():
            if len(times[name]) < 2 or max(times[name]) < slow_s:
                times[name].append(way())
    for name, seconds in times.items():
        middle, least, most = (f(seconds) * 1e3 for f in (statistics.median, min, max))
        say(f"{name:<28} {middle:9,.1f} ms  ({least:,.1f} to {most:,.1f})")
    return times


def check_joins(answers: Mapping[str, Callable[[], DataFrame]], columns: list[str]) -> int:
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
) -> dict[str, list[float]]:  # fmt: skip
    """Seconds in which each join of a batch DataFrame runs into a sink, by way and round.

    A time begins with the call that makes the joined DataFrame. The results must have been compared
    before. ``label`` is printed; ``more`` are other arguments of :func:`alternate`.
    """
    runs = {
        name: partial(seconds_of, lambda join=join: consume(join(stream)))  # type: ignore[misc]
        for name, join in joins.items()
    }
    return alternate(runs, rounds, say=lambda line: context.say(f"  {label}  {line}"), **more)


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
    spread = (min(ratios), max(ratios)) if count > 1 else None
    return Figure(name, value, bound, at_most, spread, **more)


def _over(above: float, below: float) -> float:
    """A ratio, which is infinite or no number over 0: one cell less, and not the whole record."""
    if below:
        return above / below
    return math.copysign(math.inf, above) if above else math.nan


def check_equal(answers: dict[str, Any]) -> Any:
    """The answer that all give.

    Raises:
        AssertionError: some differ from the first.
    """
    first, right = next(iter(answers.items()))
    wrong = [name for name, answer in answers.items() if answer != right]
    if wrong:
        raise AssertionError(f"{', '.join(wrong)} differ from {first}: {str(answers)[:2_000]}")
    return right
