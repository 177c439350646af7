"""The kernels as one benchmark: nanoseconds of each, and ratios to a plain way to do the same.

Nanoseconds differ from machine to machine. So each kernel is compared with ``np.searchsorted``, a
dict, cachetools' ``LRUCache`` or a sorted list in the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.kernels import cache, hotspot, index, planner
from benchmarks.kernels.timing import FULL, KERNELS, QUICK, timed

_MODULES = (cache, hotspot, index, planner)  # they register their kernels
_HEADS = {"least": "min", "lower quartile": "q1", "median": "median", "upper quartile": "q3"}


def run(context: Context) -> Outcome:
    """Check and time all kernels; a wrong answer fails the benchmark."""
    measured, data = [], context.pick(QUICK, FULL)
    for (group, name), (prepare, unit, over) in sorted(KERNELS.items()):
        one = {"group": group, "name": name, "unit": unit, "reference": over}
        measured.append(one | timed(prepare(data), data))
    return outcome(measured)


def outcome(measured: Sequence[dict[str, Any]]) -> Outcome:
    """A table of nanoseconds and, for each kernel with a reference, the ratio of the two.

    It is the ratio of the shortest rounds, since everything else on a machine only makes rounds
    longer. The two are not measured alternately, so a busy machine may slow down one alone: the
    spread is from the least of one over the upper quartile of the other to the reverse.
    """
    kernels = {(one["group"], one["name"]): one for one in measured}
    figures, rows = [], []
    for (group, name), one in sorted(kernels.items()):
        reference = kernels.get((group, one["reference"]))
        row = {"group": group, "kernel": name, "for a": one["unit"]}
        row |= {head: round(one[what], 1) for head, what in _HEADS.items()}
        row |= {"rounds": one["rounds"], "over": None, "ratio of the least": None}
        if reference is not None:
            value = one["min"] / reference["min"]
            spread = (one["min"] / reference["q3"], one["q3"] / reference["min"])
            what = f"{group}: {name} / {one['reference']}"
            figures.append(Figure(what, value, at_most=True, spread=spread))
            row |= {"over": one["reference"], "ratio of the least": round(value, 4)}
        rows.append(row)
    note = (
        "On one core, in whole batches; the plain ways with one key at a time (dict, LRUCache, "
        "sorted list, loop) in one process, not shared with others."
    )
    table = Table.of("Kernels, nanoseconds for one", rows, note)
    return Outcome(figures, [table], measured=list(measured))
