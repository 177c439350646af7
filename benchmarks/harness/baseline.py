"""Compares a run with a baseline, ratio by ratio, never in seconds.

Both sides of a ratio were measured alternately on one machine, so it can be compared with the same
ratio of another day or machine; a time cannot. A figure is worse when its whole spread lies on the
wrong side of the baseline's whole spread *and* the values differ by more than :data:`NOISE`. A
figure without a spread gets one of :data:`TOLERANCE` to either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, figures_of, size_of

TOLERANCE = 0.15
"""The spread, as a share of the value, of a figure that was measured once."""

NOISE = 0.05
"""A difference that is never significant, as a share of the baseline's value: rounds can be few."""


class SizeError(Exception):
    """Runs of different sizes, whose figures mean different things."""


@dataclass
class Comparison:
    """The differences between a baseline and a run.

    Args:
        worse: figures that got worse, and benchmarks that fail now.
        better: figures that got better.
        notes: what only one side has; differences of machine, versions and seed.
        same: how many figures are neither worse nor better.
    """

    worse: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: int = 0

    def lines(self) -> list[str]:
        """Lines to print, the worst last."""
        return [
            *(f"note: {note}" for note in self.notes),
            *(f"better: {line}" for line in self.better),
            *(f"WORSE: {line}" for line in self.worse),
            f"{len(self.worse)} worse, {len(self.better)} better, {self.same} as before "
            "(beyond the spread of both sides; without a spread 15 %; never below 5 %)",
        ]


def compare(before: Sequence[Record], after: Sequence[Record]) -> Comparison:
    """Compare a run with a baseline, figure by figure, by name.

    Figures with a unit are no ratios and are left out.

    Raises:
        SizeError: one side is quick and the other full.

    Complexity: O(figures).
    """
    refuse_other_sizes(before, after)
    old = {record["name"]: record for record in before}
    new = {record["name"]: record for record in after}
    found = Comparison(notes=_environment_notes(old, new))
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            found.notes.append(f"{name}: only the baseline has it")
        elif name not in old:
            found.notes.append(f"{name}: the baseline does not have it")
        elif old[name]["error"]:
            found.notes.append(f"{name}: it failed in the baseline, nothing to compare with")
        elif new[name]["error"]:
            reason = new[name]["error"].strip().splitlines()[-1]
            found.worse.append(f"{name}: it fails now ({reason[:120]})")
        else:
            _compare_figures(found, name, figures_of(old[name]), figures_of(new[name]))
    return found


def refuse_other_sizes(before: Sequence[Record], after: Sequence[Record]) -> None:
    """Refuse to compare quick runs with full ones.

    Raises:
        SizeError: the sizes differ, or one side has both.
    """
    sizes = [{size_of(record["quick"]) for record in side} for side in (before, after)]
    if len(sizes[0] | sizes[1]) > 1:
        shown = [" and ".join(sorted(side)) or "empty" for side in sizes]
        raise SizeError(
            f"the baseline is {shown[0]} and the run is {shown[1]}: ratios of different sizes are "
            "different figures; run with the size of the baseline"
        )


def _environment_notes(old: dict[str, Record], new: dict[str, Record]) -> list[str]:
    notes: set[str] = set()
    for name in old.keys() & new.keys():
        for what in ("machine", "versions"):
            before, after = old[name].get(what) or {}, new[name].get(what) or {}
            notes |= {
                f"{key} was {before.get(key)}, is {after.get(key)}"
                for key in before.keys() | after.keys()
                if before.get(key) != after.get(key)
            }
        if old[name]["seed"] != new[name]["seed"]:
            notes.add(f"the seed was {old[name]['seed']}, is {new[name]['seed']}")
    return sorted(notes)


def _compare_figures(found: Comparison, name: str, old: list[Figure], new: list[Figure]) -> None:
    before = {figure.name: figure for figure in old}
    after = {figure.name: figure for figure in new}
    for title in dict.fromkeys([*before, *after]):
        if title not in after:
            found.notes.append(f"{name}: {title}: only the baseline has this figure")
        elif title not in before:
            found.notes.append(f"{name}: {title}: the baseline does not have this figure")
        elif not (before[title].unit or after[title].unit):
            change = _change(before[title], after[title])
            line = f"{name}: {title}: was {_shown(before[title])}, is {_shown(after[title])}"
            found.same += not change
            if change:
                (found.worse if change < 0 else found.better).append(line)


def _change(old: Figure, new: Figure) -> int:
    """-1 for worse, 1 for better, 0 if the two could be the same."""
    if abs(new.value - old.value) <= NOISE * abs(old.value):
        return 0
    (old_low, old_high), (new_low, new_high) = _spread(old), _spread(new)
    if new_low > old_high:
        return -1 if new.at_most else 1
    if new_high < old_low:
        return 1 if new.at_most else -1
    return 0


def _spread(figure: Figure) -> tuple[float, float]:
    """From least to most; the median of all rounds may lie outside of the rounds' ratios."""
    if figure.spread is None:
        width = TOLERANCE * abs(figure.value)
        return figure.value - width, figure.value + width
    return min(*figure.spread, figure.value), max(*figure.spread, figure.value)


def _shown(figure: Figure) -> str:
    spread = f" ({figure.spread[0]:.4g} to {figure.spread[1]:.4g})" if figure.spread else ""
    return f"{figure.value:.4g}{spread}"
