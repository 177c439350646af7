"""What ``where=`` and ``indicator=`` cost where all candidates pass: the same join without them."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.engine.bulk import one_table
from benchmarks.engine.chain import STEP
from benchmarks.engine.full_cache import COLUMNS, JVM, PYTHON
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, in_runtime, persisted
from benchmarks.harness.timing import check_joins, ratio, time_joins

_PASSES = "amount >= 0 AND id >= 0"
_RUNTIMES = {JVM: "jvm", PYTHON: "python"}
_WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "where": {"where": _PASSES},
    "indicator": {"indicator": "found"},
}
_ROUNDS = {JVM: 15, PYTHON: 9}  # the effect is as large as the spread of a few
_BOUNDS = {
    ("where", JVM): 1.1,
    ("where", PYTHON): 1.1,
    ("indicator", JVM): 1.05,
    ("indicator", PYTHON): 1.05,
}
_NOTE = (
    f"All rows at once, by one integer key. The condition is {_PASSES}, of the table and of the "
    "stream, and all candidates pass."
)


def run(context: Context) -> Outcome:
    """Seconds of an inner and of a left join; quick: a twentieth of the rows."""
    part = context.pick(20, 1)
    rows, size = 10_000_000 // part, 1_000_000 // part
    case = one_table(context, rows, size, STEP)
    stream = persisted(context.spark.read.parquet(str(case.stream)))
    figures: list[Figure] = []
    lines, measured = [], {}
    for how in ("inner", "left"):
        for runtime, setting in _RUNTIMES.items():
            ways = {
                name: in_runtime(setting, _join(case.indexed[0], how, more))
                for name, more in _WAYS.items()
            }
            check_joins({n: partial(way, stream) for n, way in ways.items()}, list(COLUMNS))
            label = f"{how}, {runtime}"
            times = time_joins(context, label, ways, stream, context.pick(3, _ROUNDS[runtime]))
            measured[label] = times
            for name in ("where", "indicator"):
                bound = context.pick(None, _BOUNDS.get((name, runtime)))
                what = f"{name} / without, {label}, {rows:,} x {size:,}"
                figures.append(
                    ratio(what, times[name], times["alone"], bound, at_most=True, by_round=True)
                )
            lines += [
                {"join": label, "with": name, "seconds": statistics.median(seconds)}
                for name, seconds in times.items()
            ]
    stream.unpersist(blocking=True)
    table = Table.of("The rest of a condition, and an indicator", lines, _NOTE)
    drawn = table.drawn("bars", "join", "seconds", by="with", ylabel="seconds")
    return Outcome(figures, [drawn], measured=measured)


def _join(table: bsjoin.BatchTable, how: Any, more: dict[str, Any]) -> Join:
    def joined(stream: DataFrame) -> DataFrame:
        return table.join(stream, "k", how, **more)

    return joined
