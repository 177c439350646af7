"""Times alternatives in turns, and turns their times into figures and a table."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, collect_garbage, consume, fingerprint

T = TypeVar("T")
Times = dict[str, list[float]]
"""Seconds by way and round."""

_IDLE_S, _SHORT = 30, 10


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
    warm: Mapping[str, float] | None = None,
    slow_s: float = math.inf,
    say: Callable[[str], None] = lambda _: None,
) -> Times:
    """Run all alternatives in each round, so that a change of the machine's speed affects all.

    Each round begins with another way, so that none always runs after the same one. A way that
    waited for more than ten times what it takes runs once uncounted before: others have left their
    rows in the caches and their garbage in the heap meanwhile, of which longer ways notice nothing.
    So does one that waited for half a minute: Spark ends Python workers that idle for a minute,
    with the table that they have open, and those of a stream do not idle.

    Each of the ``ways`` runs once and returns its seconds. ``warm``: the seconds of those that have
    just run; others run once uncounted. What takes longer than ``slow_s`` is timed at most twice,
    and never uncounted between.
    """
    times: Times = {name: [] for name in ways}
    last = dict(warm or {})
    for name in set(ways).difference(last):
        last[name] = ways[name]()
    ended = dict.fromkeys(ways, time.monotonic())
    for turn in range(rounds):
        for name in rotated(ways, turn):
            is_quick = max([last[name], *times[name]]) < slow_s
            if not is_quick and len(times[name]) >= 2:
                continue
            waited = time.monotonic() - ended[name]
            if is_quick and waited > min(_IDLE_S, _SHORT * last[name]):
                collect_garbage()
                ways[name]()
            last[name] = ways[name]()
            times[name].append(last[name])
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


def compare(
    context: Context, label: str, answers: Mapping[str, Callable[[], Any]],
    runs: Mapping[str, Callable[[], object]], rounds: int, warm_ups: int | None = None,
    slow_s: float = math.inf,
) -> tuple[Any, Times]:  # fmt: skip
    """Check that the ``answers`` of ways are equal, then time the ``runs`` alternately.

    Between, each runs so often as ``warm_ups`` says: by default once, at quick sizes never. What
    takes longer than ``slow_s`` to answer is not warmed up, and timed at most twice.

    Returns:
        What all answer, and the seconds by way.
    """
    first = {name: timed(answer) for name, answer in answers.items()}
    right = check_equal({name: answer for name, (_, answer) in first.items()})
    warm = {name: seconds for name, (seconds, _) in first.items() if name in runs}
    quick = [name for name in runs if warm.get(name, 0.0) <= slow_s]
    for name in quick * (context.pick(0, 1) if warm_ups is None else warm_ups):
        warm[name] = seconds_of(runs[name])
    say = lambda line: context.say(f"  {label}  {line}")  # noqa: E731
    timers = {name: partial(seconds_of, run) for name, run in runs.items()}
    return right, alternate(timers, rounds, warm=warm, slow_s=slow_s, say=say)


def compare_joins(
    context: Context, label: str, joins: Mapping[str, Join], stream: DataFrame,
    columns: Sequence[str], rounds: int, **more: Any,
) -> tuple[int, Times]:  # fmt: skip
    """:func:`compare` of joins of a batch DataFrame, which run into a sink from their call on."""
    answers = {name: partial(_answer, join, stream, columns) for name, join in joins.items()}
    runs = {name: partial(_run, join, stream) for name, join in joins.items()}
    found, times = compare(context, label, answers, runs, rounds, **more)
    return _not_empty(found, joins), times


def check_joins(answers: Mapping[str, Callable[[], DataFrame]], columns: Sequence[str]) -> int:
    """The number of rows that all ways answer; they must be the same rows."""
    found = {name: fingerprint(answer(), columns) for name, answer in answers.items()}
    return _not_empty(check_equal(found), answers)


def _answer(join: Join, stream: DataFrame, columns: Sequence[str]) -> tuple[int, int]:
    return fingerprint(join(stream), columns)


def _run(join: Join, stream: DataFrame) -> None:
    consume(join(stream))


def _not_empty(found: tuple[int, int], ways: Iterable[str]) -> int:
    if not found[0]:
        raise AssertionError(f"{', '.join(ways)} find nothing: the check would be empty")
    return found[0]


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
    """The ratio of the medians, with the spread of the ratios of the rounds that both have.

    ``by_round``: the median of the rounds' ratios instead. ``more``: other fields of the figure.
    """
    count = min(len(above), len(below))
    ratios = [_over(a, b) for a, b in zip(above[:count], below[:count], strict=True)]
    value = _over(statistics.median(above[:count]), statistics.median(below[:count]))
    value = statistics.median(ratios) if by_round else value
    return Figure(name, value, bound, at_most, spread_of(ratios), **more)


def over_first(
    times: Mapping[str, Times], bounds: Mapping[str, float] | None = None, **more: Any
) -> list[Figure]:
    """In each case, how much of the first way's time each other one takes; ``bounds``: by way."""
    return [
        ratio(f"{label}: {way} / {first}", by[way], by[first], (bounds or {}).get(way),
              at_most=True, **more)
        for label, by in times.items()
        for first, *others in [by]
        for way in others
    ]  # fmt: skip


def median_of(
    name: str, values: Sequence[float], bound: float | None = None, **more: Any
) -> Figure:
    """The median of numbers of which less is better, with their spread; ``more``: other fields."""
    return Figure(name, statistics.median(values), bound, True, spread_of(values), **more)


def spread_of(values: Sequence[float]) -> tuple[float, float] | None:
    """The least and the most of several values; None of one."""
    return (min(values), max(values)) if len(values) > 1 else None


def outcome(
    title: str,
    times: Mapping[str, Mapping[str, Sequence[float]]],
    figures: Iterable[Figure],
    note: str = "",
    unit: str = "s",
) -> Outcome:
    """Figures, and a table of what they come from: times by case and way, drawn as bars."""
    rows: list[dict[str, Cell]] = [
        {"case": case, "way": way, unit: statistics.median(some), "least": min(some),
         "most": max(some)}
        for case, by_way in times.items()
        for way, some in by_way.items()
    ]  # fmt: skip
    table = Table.of(title, rows, note).drawn("bar", "case", unit, by="way", logy=True)
    return Outcome(list(figures), [table], measured=times)


def _over(above: float, below: float) -> float:
    """A ratio, which is infinite or no number over 0: one cell less, and not the whole record."""
    if below:
        return above / below
    return math.copysign(math.inf, above) if above else math.nan


def check_equal(answers: Mapping[str, Any]) -> Any:
    """The answer that all give; it must be the same."""
    first, right = next(iter(answers.items()), ("", None))
    wrong = [name for name, answer in answers.items() if answer != right]
    if wrong:
        raise AssertionError(f"{', '.join(wrong)} differ from {first}: {str(answers)[:2_000]}")
    return right
