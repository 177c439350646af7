"""Skewed streams: DS and shares under every rule (Figs. 11(a) and 12), and in a Spark stream."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import ratio
from benchmarks.papers.joins import live, skews
from benchmarks.papers.joins.skews import HASH, PAPER, PARTITIONS, SPLIT, WAYS

_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"
_SIX = 6  # TaskManagers of the paper's figures


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    pure = skews.measure(quick=context.quick, seed=context.seed)
    for z, by in pure["skews"].items():
        told = "   ".join(f"{way} {one['skew']:.3f}" for way, one in by[_SIX].items())
        context.say(f"  Zipf {z:g}, {_SIX} partitions: DS   {told}")
    count, keys, rows = context.pick((6, 300_000, 50_000), (12, 1_000_000, 1_000_000))
    streamed = live.measure(context, keys, rows, count, context.seed + 6)
    found = [*figures(pure), *_live_figures(streamed)]
    return Outcome(found, _tables(pure, streamed), measured={"pure": pure, "live": streamed})


def figures(pure: dict[str, Any]) -> list[Figure]:
    """DS of bsjoin's rule, and the paper's statements."""
    by_z = {z: by[_SIX] for z, by in pure["skews"].items()}
    low, high = min(by_z), max(by_z)
    by_hash = [by[HASH]["skew"] for by in by_z.values()]
    found = [
        Figure(
            f"DS of the first adapted cycle, z 1.16, {n} partitions",
            pure["skews"][1.16][n][SPLIT]["skew"], 0.05, True, paper=_FIG_11,
        )
        for n in (_SIX, 128)
    ]  # fmt: skip
    rises = f"DS by hash, Z {high:g} / Z {low:g}"
    found.append(Figure(rises, by_hash[-1] / by_hash[0], 1.0, paper="rises with Z, Fig. 11(a)"))
    for way in (PAPER, SPLIT):
        worst = max(by[way]["skew"] / by[HASH]["skew"] for by in by_z.values())
        what, said = f"DS, {way} / hash, any Z", "far below hash for each Z, Fig. 11(a)"
        found.append(Figure(what, worst, 0.5, at_most=True, paper=said))
        share = max(by[way]["largest"] for by in by_z.values())
        what, said = f"largest share over the mean, {way}, any Z", "balanced for every Z, Fig. 12"
        found.append(Figure(what, share, 1.1 if way == SPLIT else None, True, paper=said))
    return found


def _live_figures(streamed: dict[str, Any]) -> list[Figure]:
    one = streamed[live.HOTSPOT]
    counted = zip(one["skews"], one["versions"], strict=True)
    ruled = [skew for skew, version in counted if version] or one["skews"]
    name = "DS in a Spark stream, under a rule / by hash"  # by hash: the first micro-batch
    value, said = statistics.median(ruled) / one["skews"][0], "far below that of hash, Fig. 11(a)"
    found = [Figure(name, value, at_most=True, paper=said)]
    ms = {way: each["ms"] for way, each in streamed.items()}
    for way, below, bound in (
        (live.HOTSPOT, live.NONE, 1.3),
        (live.HOTSPOT, live.HASH, None),
        (live.PYTHON, live.HOTSPOT, None),
    ):
        name = f"addBatch in a Spark stream, {way} / {below}"
        found.append(ratio(name, ms[way], ms[below], bound, at_most=True))
    return found


def _tables(pure: dict[str, Any], streamed: dict[str, Any]) -> list[Table]:
    first = [
        {"exponent": f"{z:g}", "partitions": n} | {way: by[n][way]["skew"] for way in WAYS}
        for n in PARTITIONS
        for z, by in pure["skews"].items()
    ]
    shares = [
        {"exponent": f"{z:g}", "rows go by": way}
        | {f"TM {at}": f"{share:.2f}" for at, share in enumerate(by[_SIX][way]["shares"], 1)}
        for z, by in pure["skews"].items()
        for way in WAYS
    ]
    batches = [
        {
            "partition": way,
            "ms": statistics.median(one["ms"]),
            "thousand rows/s": one["rows_per_s"] / 1e3,
        }
        for way, one in streamed.items()
    ]
    note = f"{pure['rows']:,} rows over {pure['keys']:,} keys a cycle."
    chance = "Chance alone leaves about the root of partitions over rows."
    return [
        Table.of("DS of the first adapted cycle (Fig. 11(a))", first, f"{note} {chance}").drawn(
            "bars", ("exponent", "partitions"), *WAYS, yscale="log", ylabel="DS"
        ),
        Table.of("Rows of each of six partitions over the mean (Fig. 12)", shares, note),
        Table.of(
            "A Spark stream with a full cache, exponent 1.16",
            batches,
            "On one host routing is only a cost, for nothing heavy follows the join.",
        ),
    ]
