"""Ways to do the same, timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping

from benchmarks.harness.outcome import Figure

__all__ = ["in_turns", "over", "paired", "shown"]

_SLOW_S = 3.0


def in_turns(
    ways: Mapping[str, Callable[[], float]], rounds: int, warm: Iterable[str] = ()
) -> dict[str, list[float]]:
    """Carry all ways out in turns, so that a change of the machine's speed meets all.

    Args:
        ways: each carries itself out and returns the seconds that it took.
        rounds: how often each is timed; twice at most where it takes seconds.
        warm: ways that need no turn to warm up. The others have one that is not counted.

    Returns:
        The seconds of every way, by round.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for name in set(ways) - set(warm):
        ways[name]()
    for _ in range(rounds):
        for name, way in ways.items():
            if len(times[name]) < 2 or max(times[name]) < _SLOW_S:
                times[name].append(way())
    return times


def over(
    name: str, theirs: list[float], ours: list[float], bound: float | None, paper: str = ""
) -> Figure:
    """How many times as long as ours a rival takes: of the medians, and round by round.

    Args:
        name: of the figure.
        theirs: the rival's seconds.
        ours: the same of ours; only as many rounds count as the rival has.
        bound: how many times it is to be; None where nothing was promised.
        paper: what the paper says of it.
    """
    ours = ours[: len(theirs)]
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    value = statistics.median(theirs) / statistics.median(ours)
    spread = (min(ratios), max(ratios)) if len(ratios) > 1 else None
    return Figure(name, value, bound, False, spread, paper)


def paired(
    name: str,
    above: list[float],
    below: list[float],
    bound: float | None,
    *,
    at_most: bool = False,
    paper: str = "",
) -> Figure:
    """The median over rounds of the ratio inside a round, and from the least to the most.

    Args:
        name: of the figure.
        above: what is divided, by round.
        below: by what, by round.
        bound: what it is to be; None where nothing was promised.
        at_most: whether it must stay below the bound.
        paper: what the paper says of it.
    """
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    spread = (min(ratios), max(ratios)) if len(ratios) > 1 else None
    return Figure(name, statistics.median(ratios), bound, at_most, spread, paper)


def shown(seconds: list[float]) -> str:
    """The median and the spread, in print, in milliseconds."""
    least, most = min(seconds) * 1e3, max(seconds) * 1e3
    return f"{statistics.median(seconds) * 1e3:9,.1f} ms  ({least:,.1f} to {most:,.1f})"
