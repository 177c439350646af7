"""All of the skew benchmarks: figures, a picture, and tables beside what the paper says."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.harness.outcome import Figure
from benchmarks.hotspot import caches as hotspot_caches
from benchmarks.hotspot import live as hotspot_spark
from benchmarks.hotspot import skews as hotspot
from benchmarks.hotspot.picture import draw

__all__ = ["run"]


def run(spark: SparkSession, folder: Path, *, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Measure, print and draw.

    Args:
        spark: the session.
        folder: where ``hotspot.png`` and the data go.
        quick: smaller sizes, about two minutes.

    Returns:
        What was measured, and the figures to reach.
    """
    measured = hotspot.measure(quick=quick)
    _say_skews(measured)
    keys, rows = (300_000, 100_000) if quick else (1_000_000, 1_000_000)
    caches = hotspot_caches.measure(keys, rows, 8, 6, 0.05)
    print("Six hosts with a cache of 5 % of the keys each (simulated; Fig. 11)")
    for way, one in caches.items():
        print(
            f"  {way:<12} hit rate {one['hit_rate']:.1%}   remote look-ups {one['remote']:>9,}   "
            f"cached {one['cached']:>9,}, distinct {one['distinct']:>9,}   "
            f"busiest host / mean {one['busiest']:.2f}"
        )
    live = hotspot_spark.measure(spark, folder / "data", keys, rows, 6 if quick else 12, 6)
    print(f"A Spark stream, micro-batches of {rows:,} rows, full cache, on this host alone")
    for way, one in live.items():
        skews = [f"{skew:.3f}" for skew in one["skews"] if skew is not None]
        print(
            f"  {way:<15} {statistics.median(one['ms']):7,.0f} ms   "
            f"{one['rows_per_s']:>9,.0f} rows/s   DS {' '.join(skews) or 'not counted'}"
        )
    out = {"pure": measured, "caches": caches, "live": live}
    draw(measured, caches, live, folder / "hotspot.png")
    cycle_s = statistics.median(live[hotspot_spark.HOTSPOT]["ms"]) / 1e3
    cycle_s *= measured["rows"] / rows
    return out, hotspot.figures(measured, cycle_s)


def _say_skews(measured: dict[str, Any]) -> None:
    print(f"DS of the first adapted cycle ({measured['rows']:,} rows, {measured['keys']:,} keys)")
    for z, by_partitions in measured["skews"].items():
        for n, ways in by_partitions.items():
            shown = "   ".join(f"{way} {one['skew']:.3f}" for way, one in ways.items())
            print(f"  exponent {z:<5} {n:>4} partitions   {shown}")
    print("DS cycle by cycle, other hot keys every 4 cycles")
    for n, ways in measured["recovery"].items():
        for way, cycles in ways.items():
            shown = " ".join(f"{one['skew']:6.3f}" for one in cycles)
            print(f"  {n:>4} partitions   {way:<17} {shown}")
    print("Costs: ns of a core a row, ms a cycle on the driver")
    for n, cost in measured["costs"].items():
        print(f"  {n:>4} partitions   " + "   ".join(f"{k} {v:.2f}" for k, v in cost.items()))
