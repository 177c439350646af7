"""Skewed streams: DS of the first cycle under a new rule, and a Spark stream."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import ratio
from benchmarks.papers.joins import live, skews
from benchmarks.papers.joins.skews import PARTITIONS, SPLIT, WAYS

_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    keys, rows = context.pick((1_000_000, 200_000), (10_000_000, 1_000_000))
    pure = skews.measure(keys, rows, context.seed)
    keys, cycles, rows = context.pick((300_000, 6, 50_000), (1_000_000, 12, 1_000_000))
    streamed = live.measure(context, keys, rows, cycles, context.seed + 6)
    shown = [_first(pure), _streamed(streamed)]
    return Outcome(_figures(pure, streamed), shown, measured={"pure": pure, "live": streamed})


def _figures(pure: dict[float, Any], streamed: dict[str, Any]) -> list[Figure]:
    """DS of bsjoin's rule, and what routing costs a stream."""
    found = []
    for n in (6, 128):
        name = f"DS of the first adapted cycle, z 1.16, {n} partitions"
        found.append(Figure(name, pure[1.16][n][SPLIT], 0.05, True, paper=_FIG_11))
    one = streamed[live.HOTSPOT]
    counted = zip(one["skews"], one["versions"], strict=True)
    ruled = [skew for skew, version in counted if version] or one["skews"]
    name = "DS in a Spark stream, under a rule / by hash"  # by hash: the first micro-batch
    far = "far below that of hash at every exponent, Fig. 11(a)"
    value = statistics.median(ruled) / one["skews"][0]
    found.append(Figure(name, value, at_most=True, paper=far))
    ms = {way: one["ms"] for way, one in streamed.items()}
    for way, below, bound in (
        (live.HOTSPOT, live.NONE, 1.3),
        (live.HOTSPOT, live.HASH, None),
        (live.PYTHON, live.HOTSPOT, None),
    ):
        name = f"addBatch in a Spark stream, {way} / {below}"
        found.append(ratio(name, ms[way], ms[below], bound, at_most=True))
    return found


def _first(pure: dict[float, Any]) -> Table:
    rows = [{"exponent": f"{z:g}", "partitions": n} | by[n] for n in PARTITIONS
            for z, by in pure.items()]  # fmt: skip
    note = "Chance alone leaves about the root of partitions over rows."
    made = Table.of("DS of the first adapted cycle (Fig. 11(a))", rows, note)
    return made.drawn("bars", ("exponent", "partitions"), *WAYS, yscale="log", ylabel="DS")


def _streamed(streamed: dict[str, Any]) -> Table:
    rows = [
        {
            "partition": way,
            "ms": statistics.median(one["ms"]),
            "thousand rows/s": one["rows_per_s"] / 1e3,
            "rows / mean, last micro-batch (Fig. 12)": _shares((one["loads"] or [[]])[-1]),
        }
        for way, one in streamed.items()
    ]
    note = "On one host routing is only a cost, for nothing heavy follows the join."
    return Table.of("A Spark stream with a full cache, exponent 1.16", rows, note)


def _shares(loads: list[int]) -> str:
    return " ".join(f"{rows / statistics.mean(loads):.2f}" for rows in loads) or "not counted"
