"""All of the skew benchmarks: figures, a picture, and tables beside what the paper says."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.hotspot import caches, live, skews
from benchmarks.hotspot.picture import draw

__all__ = ["run"]

_HOSTS = 6


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    quick, seed, say = context.quick, context.seed, context.say
    say("Skew without Spark: DS under every rule, recovery, costs")
    pure = skews.measure(quick=quick, seed=seed)
    _say_skews(context, pure)
    keys, rows = (300_000, 100_000) if quick else (1_000_000, 1_000_000)
    say(f"{_HOSTS} hosts with a cache of 5 % of the keys each (simulated; Fig. 11)")
    apart = caches.measure(keys, rows, 8, _HOSTS, 0.05, seed=seed + 4)
    for way, one in apart.items():
        say(
            f"  {way:<12} hit rate {one['hit_rate']:.1%}   remote look-ups {one['remote']:>9,}   "
            f"cached {one['cached']:>9,}, distinct {one['distinct']:>9,}   "
            f"busiest host / mean {one['busiest']:.2f}"
        )
    cycles, rows = (6, 50_000) if quick else (12, rows)
    say(f"A Spark stream, micro-batches of {rows:,} rows, full cache, on this host alone")
    spark = context.spark
    routed = live.measure(spark, context.data, keys, rows, cycles, _HOSTS, seed=seed + 6)
    for way, one in routed.items():
        shown = [f"{skew:.3f}" for skew in one["skews"] if skew is not None]
        say(
            f"  {way:<15} {statistics.median(one['ms']):7,.0f} ms   "
            f"{one['rows_per_s']:>9,.0f} rows/s   DS {' '.join(shown) or 'not counted'}"
        )
    picture = context.out / "hotspot.png"
    draw(pure, apart, routed, picture)
    cycles_s = [ms / 1e3 * pure["rows"] / rows for ms in routed[live.HOTSPOT]["ms"]]
    figures = [*skews.figures(pure, cycles_s), *_figures_of_caches(apart), _evenness(routed)]
    tables = [_skews(pure), _recovery(pure), _caches(apart), _live(routed)]
    measured = {"pure": pure, "caches": apart, "live": routed}
    return Outcome(figures, tables, [picture], measured)


def _figures_of_caches(apart: dict[str, dict[str, Any]]) -> list[Figure]:
    """What the paper's Fig. 11(b) promises, of the simulated hosts; nothing was promised here."""
    routed, anywhere, hashed = (apart[w] for w in (caches.HOTSPOT, caches.ANYWHERE, caches.HASH))
    return [
        Figure(
            f"remote look-ups, HotSpot / no routing, {_HOSTS} hosts",
            routed["remote"] / anywhere["remote"],
            at_most=True,
            paper="caches stay small, no needless copies of rows, Fig. 11(b)",
            simulated=True,
        ),
        Figure(
            f"rows of the busiest host / mean, HotSpot / hash, {_HOSTS} hosts",
            routed["busiest"] / hashed["busiest"],
            at_most=True,
            paper="every TaskManager gets its share, by hash some get more, Fig. 12",
            simulated=True,
        ),
    ]


def _evenness(routed: dict[str, dict[str, Any]]) -> Figure:
    """DS in the stream, under the rules that were made, over that of its first, by hash."""
    one = routed[live.HOTSPOT]
    counted = list(zip(one["skews"], one["versions"], strict=True))
    ruled = [skew for skew, version in counted if version] or one["skews"]
    return Figure(
        "DS in a Spark stream, under a rule / by hash",
        statistics.median(ruled) / one["skews"][0],
        at_most=True,
        paper="far below that of hash at every exponent, Fig. 11(a)",
    )


def _skews(pure: dict[str, Any]) -> Table:
    rows = tuple(
        (f"{z:g}", n, *(ways[way]["skew"] for way in skews.WAYS))
        for n in skews.PARTITIONS
        for z, by_partitions in pure["skews"].items()
        for ways in (by_partitions[n],)
    )
    return Table(
        "DS of the first adapted cycle (Fig. 11(a))",
        ("exponent", "partitions", *skews.WAYS),
        rows,
        f"{pure['rows']:,} rows over {pure['keys']:,} keys a cycle. Chance alone leaves about the "
        "root of partitions over rows.",
    )


def _recovery(pure: dict[str, Any]) -> Table:
    by_partitions = pure["recovery"]
    cycles = range(len(next(iter(by_partitions.values()))[skews.HASH]))
    rows = tuple(
        (n, way, *(one["skew"] for one in ways[way]))
        for n, ways in by_partitions.items()
        for way in skews.WAYS
    )
    columns = ("partitions", "rule", *(f"cycle {number + 1}" for number in cycles))
    note = "Every four cycles other keys become hot."
    return Table("DS cycle by cycle, exponent 1.16", columns, rows, note)


def _caches(apart: dict[str, dict[str, Any]]) -> Table:
    what = ("remote", "hit_rate", "cached", "distinct", "busiest")
    heads = ("remote look-ups", "hit rate", "cached keys", "distinct ones", "busiest host / mean")
    rows = tuple((way, *(one[name] for name in what)) for way, one in apart.items())
    note = "Simulated: on one host bsjoin's workers share a cache, and routing changes nothing."
    title = f"{_HOSTS} hosts with a cache of 5 % of the keys each (Fig. 11(b))"
    return Table(title, ("rows go", *heads), rows, note)


def _live(routed: dict[str, dict[str, Any]]) -> Table:
    def loads(one: dict[str, Any]) -> str:
        if not one["loads"] or not one["loads"][-1]:
            return "not counted"
        mean = statistics.mean(one["loads"][-1])
        return " ".join(f"{rows / mean:.2f}" for rows in one["loads"][-1])

    rows = tuple(
        (way, statistics.median(one["ms"]), one["rows_per_s"] / 1e3, loads(one))
        for way, one in routed.items()
    )
    columns = ("partition", "ms", "thousand rows/s", "rows / mean, last micro-batch (Fig. 12)")
    note = "On one host routing is only a cost, for nothing heavy follows the join."
    return Table("A Spark stream with a full cache, exponent 1.16", columns, rows, note)


def _say_skews(context: Context, pure: dict[str, Any]) -> None:
    say = context.say
    say(f"DS of the first adapted cycle ({pure['rows']:,} rows, {pure['keys']:,} keys)")
    for z, by_partitions in pure["skews"].items():
        for n, ways in by_partitions.items():
            shown = "   ".join(f"{way} {one['skew']:.3f}" for way, one in ways.items())
            say(f"  exponent {z:<5} {n:>4} partitions   {shown}")
    say("Costs: ns of a core a row, ms a cycle on the driver")
    for n, cost in pure["costs"].items():
        say(f"  {n:>4} partitions   " + "   ".join(f"{k} {v:.2f}" for k, v in cost.items()))
