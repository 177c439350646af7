"""Whether a run is worse than a baseline: ratio by ratio, never in seconds.

A ratio compares two things measured in turns on one machine, so it can be held against the same
ratio of another day or machine; a time cannot. A figure has got worse when its whole spread lies
on the wrong side of the baseline's whole spread *and* the two values differ by more than
:data:`NOISE`. A figure without a spread gets one of :data:`TOLERANCE` to either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, figures_of, size_of

__all__ = ["NOISE", "TOLERANCE", "Comparison", "SizeError", "compared", "refuse_other_sizes"]

TOLERANCE = 0.15
"""The spread, as a share of the value, of a figure that was measured once."""

NOISE = 0.05
"""What two values may always differ by, as a share of the baseline's: rounds can be few."""


class SizeError(Exception):
    """Runs of different sizes, whose figures mean different things."""


@dataclass
class Comparison:
    """What differs between a baseline and a run, in lines to print.

    Args:
        worse: figures beyond both spreads on the wrong side, and benchmarks that now fail.
        better: figures beyond both spreads on the right side.
        notes: what is missing on one side; what differs about machine, versions and seed.
        alike: how many figures are neither worse nor better.
    """

    worse: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    alike: int = 0

    def lines(self) -> list[str]:
        """All of it, the worst last."""
        told = [*(f"note: {note}" for note in self.notes)]
        told += [f"better: {line}" for line in self.better]
        told += [f"WORSE: {line}" for line in self.worse]
        told.append(
            f"{len(self.worse)} worse, {len(self.better)} better, {self.alike} as before "
            "(beyond the spread of both sides; without a spread 15 %; never below 5 %)"
        )
        return told


def compared(before: Sequence[Record], after: Sequence[Record]) -> Comparison:
    """Hold a run against a baseline, benchmark by benchmark, figure by figure, by name.

    Args:
        before: the records of the baseline.
        after: the records to judge.

    Returns:
        What differs. Figures with a unit are no ratios and are left out.

    Raises:
        SizeError: one side is quick and the other full.

    Complexity: O(figures).
    """
    old = {record["name"]: record for record in before}
    new = {record["name"]: record for record in after}
    refuse_other_sizes(before, after)
    found = Comparison()
    _note_places(found, old, new)
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
            _compare(found, name, figures_of(old[name]), figures_of(new[name]))
    return found


def refuse_other_sizes(before: Sequence[Record], after: Sequence[Record]) -> None:
    """Refuse to compare quick runs with full ones.

    Raises:
        SizeError: a benchmark of the baseline has another size, or it has both.
    """
    sizes = [{size_of(record["quick"]) for record in side} for side in (before, after)]
    if len(sizes[0] | sizes[1]) > 1:
        shown = [" and ".join(sorted(side)) or "empty" for side in sizes]
        raise SizeError(
            f"the baseline is {shown[0]} and the run is {shown[1]}: ratios of different sizes are "
            "different figures; run with the size of the baseline"
        )


def _note_places(found: Comparison, old: dict[str, Record], new: dict[str, Record]) -> None:
    told: dict[str, None] = {}
    for name in old.keys() & new.keys():
        for what in ("machine", "versions"):
            one, other = old[name].get(what) or {}, new[name].get(what) or {}
            for key in sorted(one.keys() | other.keys()):
                if one.get(key) != other.get(key):
                    told[f"{key} was {one.get(key)}, is {other.get(key)}"] = None
        if old[name]["seed"] != new[name]["seed"]:
            told[f"the seed was {old[name]['seed']}, is {new[name]['seed']}"] = None
    found.notes += sorted(told)


def _compare(found: Comparison, name: str, old: list[Figure], new: list[Figure]) -> None:
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
            if change < 0:
                found.worse.append(line)
            elif change > 0:
                found.better.append(line)
            else:
                found.alike += 1


def _change(old: Figure, new: Figure) -> int:
    """-1 for worse, 1 for better, 0 when the two could be the same."""
    if abs(new.value - old.value) <= NOISE * abs(old.value):
        return 0
    (old_low, old_high), (new_low, new_high) = _spread(old), _spread(new)
    if new_low > old_high:
        return -1 if new.at_most else 1
    if new_high < old_low:
        return 1 if new.at_most else -1
    return 0


def _spread(figure: Figure) -> tuple[float, float]:
    """From the least to the most that it was; the median of all rounds may lie outside of pairs."""
    if figure.spread is None:
        width = TOLERANCE * abs(figure.value)
        return figure.value - width, figure.value + width
    return min(*figure.spread, figure.value), max(*figure.spread, figure.value)


def _shown(figure: Figure) -> str:
    spread = f" ({figure.spread[0]:.4g} to {figure.spread[1]:.4g})" if figure.spread else ""
    return f"{figure.value:.4g}{spread}"
