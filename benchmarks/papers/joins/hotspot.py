"""Skewed streams: DS under every rule, its costs, hosts with caches, and a Spark stream."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import ratio
from benchmarks.papers.joins import live, skews
from benchmarks.papers.joins.hosts import ANYWHERE, HOSTS, Routed, simulate
from benchmarks.papers.joins.skews import HASH, PARTITIONS, SPLIT, WAYS

_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    seed = context.seed
    pure = skews.measure(quick=context.quick, seed=seed)
    for n, cost in pure["costs"].items():
        context.say(f"  {n:>4} partitions " + "   ".join(f"{k} {v:.2f}" for k, v in cost.items()))
    keys, rows = context.pick((300_000, 100_000), (1_000_000, 1_000_000))
    stream = Shifting(keys, 1.16, rows, every=4, seed=seed + 4)
    cycles = [stream.cycle(index) for index in range(8)]
    hosts = {
        name: simulate(way, cycles, keys, round(keys * 0.05), seed + 5)
        for name, way in ((ANYWHERE, ANYWHERE), (HASH, HASH), (live.HOTSPOT, SPLIT))
    }
    count, rows = context.pick((6, 50_000), (12, rows))
    streamed = live.measure(context, keys, rows, count, seed + 6)
    cycles_s = [ms / 1e3 * pure["rows"] / rows for ms in streamed[live.HOTSPOT]["ms"]]
    measured = {"pure": pure, "caches": {way: vars(one) for way, one in hosts.items()}}
    figures, shown = _figures(pure, hosts, streamed, cycles_s), _tables(pure, hosts, streamed)
    return Outcome(figures, shown, measured=measured | {"live": streamed})


def _figures(
    pure: dict[str, Any], hosts: dict[str, Routed], streamed: dict[str, Any], cycles_s: list[float]
) -> list[Figure]:
    """DS of bsjoin's rule, the cost of detection over a cycle, and statements of the paper."""
    found = []
    for n in (6, 128):
        skew = pure["skews"][1.16][n][SPLIT]["skew"]
        name = f"DS of the first adapted cycle, z 1.16, {n} partitions"
        found.append(Figure(name, skew, 0.05, True, paper=_FIG_11))
    for n, cost in pure["costs"].items():
        spent = (cost["count_ns"] + cost["sample_ns"]) * pure["rows"] / 1e9
        spent += (cost["add_ms"] + cost["observe_ms"]) / 1e3
        name = f"detection and sampling / a cycle, {n} partitions"
        found.append(ratio(name, [spent] * len(cycles_s), cycles_s, 0.05, at_most=True))
    routed, anywhere, by_hash = (hosts[way] for way in (live.HOTSPOT, ANYWHERE, HASH))
    one = streamed[live.HOTSPOT]
    counted = zip(one["skews"], one["versions"], strict=True)
    ruled = [skew for skew, version in counted if version] or one["skews"]
    rows = (
        (f"remote look-ups, HotSpot / no routing, {HOSTS} hosts", routed.remote / anywhere.remote,
         "caches stay small, no needless copies of rows, Fig. 11(b)", True),
        (f"rows of the busiest host / mean, HotSpot / hash, {HOSTS} hosts",
         routed.busiest / by_hash.busiest,
         "every TaskManager gets its share, by hash some get more, Fig. 12", True),
        ("DS in a Spark stream, under a rule / by hash",  # by hash: the first micro-batch
         statistics.median(ruled) / one["skews"][0],
         "far below that of hash at every exponent, Fig. 11(a)", False),
    )  # fmt: skip
    ms = {way: one["ms"] for way, one in streamed.items()}
    for way, below, bound in (
        (live.HOTSPOT, live.NONE, 1.3),
        (live.HOTSPOT, live.HASH, None),
        (live.PYTHON, live.HOTSPOT, None),
    ):
        name = f"addBatch in a Spark stream, {way} / {below}"
        found.append(ratio(name, ms[way], ms[below], bound, at_most=True))
    return found + [
        Figure(name, value, at_most=True, paper=said, simulated=simulated)
        for name, value, said, simulated in rows
    ]


def _tables(
    pure: dict[str, Any], hosts: dict[str, Routed], streamed: dict[str, Any]
) -> list[Table]:
    first = [
        {"exponent": f"{z:g}", "partitions": n} | {w: by[n][w]["skew"] for w in WAYS}
        for n in PARTITIONS
        for z, by in pure["skews"].items()
    ]
    recovery = [
        {"partitions": n, "rule": way}
        | {f"cycle {at}": one["skew"] for at, one in enumerate(ways[way], 1)}
        for n, ways in pure["recovery"].items()
        for way in WAYS
    ]
    cached = [
        {
            "rows go": way,
            "remote look-ups": one.remote,
            "hit rate": one.hit_rate,
            "cached keys": one.cached[-1],
            "distinct ones": one.distinct,
            "busiest host / mean": one.busiest,
        }
        for way, one in hosts.items()
    ]
    batches = [
        {
            "partition": way,
            "ms": statistics.median(one["ms"]),
            "thousand rows/s": one["rows_per_s"] / 1e3,
            "rows / mean, last micro-batch (Fig. 12)": _shares((one["loads"] or [[]])[-1]),
        }
        for way, one in streamed.items()
    ]
    return [
        Table.of(
            "DS of the first adapted cycle (Fig. 11(a))",
            first,
            f"{pure['rows']:,} rows over {pure['keys']:,} keys a cycle. Chance alone leaves about "
            "the root of partitions over rows.",
        ).drawn("bars", ("exponent", "partitions"), *WAYS, yscale="log", ylabel="DS"),
        Table.of(
            "DS cycle by cycle, exponent 1.16", recovery, "Every four cycles other keys become hot."
        ).drawn("lines", "rule", "cycle", across=True, where={"partitions": 16}, yscale="log"),
        Table.of(
            f"{HOSTS} hosts with a cache of 5 % of the keys each (Fig. 11(b))",
            cached,
            "Simulated: on one host bsjoin's workers share a cache, and routing changes nothing.",
        ).drawn("bars", "rows go", "busiest", "hit rate"),
        Table.of(
            "A Spark stream with a full cache, exponent 1.16",
            batches,
            "On one host routing is only a cost, for nothing heavy follows the join.",
        ),
    ]


def _shares(loads: list[int]) -> str:
    return " ".join(f"{rows / statistics.mean(loads):.2f}" for rows in loads) or "not counted"
