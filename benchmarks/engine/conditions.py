"""What ``where=`` and ``indicator=`` cost where all candidates pass: the same join without them."""

from __future__ import annotations

from functools import partial
from typing import Any

import bsjoin
from benchmarks.engine.bulk import one_table
from benchmarks.engine.chain import STEP
from benchmarks.engine.full_cache import COLUMNS
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.spark import JVM, PYTHON, in_memory, in_runtime
from benchmarks.harness.timing import compare_joins, ratio, rows_by_way

_PASSES = "amount >= 0 AND id >= 0"
_WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "where": {"where": _PASSES},
    "indicator": {"indicator": "found"},
}
_BOUNDS = {"where": 1.1, "indicator": 1.05}
_RUNTIMES = {JVM: ("jvm", 15), PYTHON: ("python", 9)}
"""With rounds of full runs: the effect is as large as the spread of a few."""
_NOTE = (
    f"All rows at once, by one integer key. The condition is {_PASSES}, of the table and of the "
    "stream, and all candidates pass."
)


def run(context: Context) -> Outcome:
    """Seconds of an inner and of a left join; quick: a twentieth of the rows."""
    part = context.pick(20, 1)
    rows, size = 10_000_000 // part, 1_000_000 // part
    case = one_table(context, rows, size, STEP)
    join = partial(bsjoin.BatchTable.join, case.indexed[0], on="k")
    figures, lines, measured = [], [], {}
    with in_memory(context.spark.read.parquet(str(case.stream))) as (stream,):
        for how in ("inner", "left"):
            for runtime, (setting, rounds) in _RUNTIMES.items():
                ways = {
                    name: in_runtime(setting, partial(join, how=how, **more))
                    for name, more in _WAYS.items()
                }
                label, count = f"{how}, {runtime}", context.pick(3, rounds)
                _, times = compare_joins(context, label, ways, stream, COLUMNS, count)
                measured[label] = times
                for name, bound in _BOUNDS.items():
                    what = f"{name} / without, {label}, {rows:,} x {size:,}"
                    sides = times[name], times["alone"]
                    figures.append(ratio(what, *sides, bound, at_most=True, by_round=True))
                lines += [{"join": label, **one} for one in rows_by_way(times)]
    table = Table.of("The rest of a condition, and an indicator", lines, _NOTE)
    return Outcome(figures, [table.drawn("bars", "join", "s", by="way")], measured=measured)
