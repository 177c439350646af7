"""Compares a run with a baseline, ratio by ratio, never in seconds.

Both sides of a ratio were measured alternately on one machine, so it can be compared with the same
ratio of another day or machine; a time cannot. A figure is worse when its whole spread lies on the
wrong side of the baseline's whole spread *and* the values differ by more than :data:`NOISE`. A
figure without a spread gets one of :data:`TOLERANCE` to either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, size_of
from benchmarks.harness.text import verdict

TOLERANCE = 0.15
"""The spread, as a share of the value, of a figure that was measured once."""

NOISE = 0.05
"""A difference that is never significant, as a share of the baseline's value: rounds can be few."""


class SizeError(Exception):
    """Runs of different sizes, whose figures mean different things."""


@dataclass
class Comparison:
    """What got worse or better, notes on what only one side has, and how many figures are alike."""

    worse: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: int = 0

    def lines(self) -> list[str]:
        """Lines to print, the worst last."""
        marked = {"note": self.notes, "better": self.better, "WORSE": self.worse}
        return [
            *(f"{mark}: {line}" for mark, lines in marked.items() for line in lines),
            f"{len(self.worse)} worse, {len(self.better)} better, {self.same} as before "
            "(beyond the spread of both sides; without a spread 15 %; never below 5 %)",
        ]


def compare(before: Sequence[Record], after: Sequence[Record]) -> Comparison:
    """Compare a run with a baseline, figure by figure, by name.

    Figures with a unit are no ratios and are left out.

    Raises:
        SizeError: one side is quick and the other full.
    """
    refuse_other_sizes((one.quick for one in before), (one.quick for one in after))
    found = Comparison()
    environment: set[str] = set()
    for name, old, new in _pairs(found, "", before, after):
        was, now = ({**one.machine, **one.versions, "the seed": one.seed} for one in (old, new))
        environment |= {
            f"{key} was {was.get(key)}, is {now.get(key)}"
            for key in was.keys() | now.keys()
            if was.get(key) != now.get(key)
        }
        if old.error:
            found.notes.append(f"{name}: it failed in the baseline, nothing to compare with")
        elif new.error:
            found.worse.append(f"{name}: it fails now ({verdict(new).removeprefix('FAILED: ')})")
        else:
            for title, was, now in _pairs(found, f"{name}: ", old.figures, new.figures):
                if not (was.unit or now.unit):
                    change = _change(was, now)
                    line = f"{title}: was {_shown(was)}, is {_shown(now)}"
                    (found.worse if change < 0 else found.better).extend([line] * abs(change))
                    found.same += not change
    found.notes[:0] = sorted(environment)
    return found


def refuse_other_sizes(*sides: Iterator[bool]) -> None:
    """Refuse to compare quick runs with full ones; a side has whether each record is quick.

    Raises:
        SizeError: the sizes differ, or one side has both.
    """
    sizes = [set(map(size_of, side)) for side in sides]
    if len(set().union(*sizes)) > 1:
        shown = [" and ".join(sorted(side)) or "empty" for side in sizes]
        raise SizeError(
            f"the baseline is {shown[0]} and the run is {shown[1]}: ratios of different sizes are "
            "different figures; run with the size of the baseline"
        )


def _pairs(
    found: Comparison, where: str, before: Sequence[Any], after: Sequence[Any]
) -> Iterator[tuple[str, Any, Any]]:
    """What both sides have, by name; the rest is noted."""
    old, new = ({one.name: one for one in side} for side in (before, after))
    what = " this figure" if where else " it"
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            found.notes.append(f"{where}{name}: only the baseline has{what}")
        elif name not in old:
            found.notes.append(f"{where}{name}: the baseline does not have{what}")
        else:
            yield f"{where}{name}", old[name], new[name]


def _change(old: Figure, new: Figure) -> int:
    """-1 for worse, 1 for better, 0 if the two could be the same."""
    if abs(new.value - old.value) <= NOISE * abs(old.value):
        return 0
    (old_low, old_high), (new_low, new_high) = _ends(old), _ends(new)
    more = (new_low > old_high) - (new_high < old_low)
    return -more if new.at_most else more


def _ends(figure: Figure) -> tuple[float, float]:
    """From least to most; the median of all rounds may lie outside of the rounds' ratios."""
    if figure.spread is None:
        width = TOLERANCE * abs(figure.value)
        return figure.value - width, figure.value + width
    return min(*figure.spread, figure.value), max(*figure.spread, figure.value)


def _shown(figure: Figure) -> str:
    spread = f" ({figure.spread[0]:.4g} to {figure.spread[1]:.4g})" if figure.spread else ""
    return f"{figure.value:.4g}{spread}"
