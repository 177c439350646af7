"""All of the range benchmarks: figures, a picture, tables as the paper has them, and losses."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.data.ranges import cases
from benchmarks.harness.outcome import Figure
from benchmarks.ranges import joins as ranges
from benchmarks.ranges import kernels as range_kernels
from benchmarks.ranges import skiplists
from benchmarks.ranges import streams as range_streams
from benchmarks.ranges import tables as range_tables
from benchmarks.ranges.picture import draw

__all__ = ["run"]

_QUICK = ("key, band", "key, as-of", "narrow band", "within", "overlaps, nearly all pairs match")


def run(spark: SparkSession, folder: Path, *, quick: bool) -> tuple[dict[str, Any], list[Figure]]:
    """Measure, print and draw.

    Args:
        spark: the session.
        folder: where ``ranges.png`` and the data go.
        quick: smaller sizes, about two minutes.

    Returns:
        What was measured, and the figures to reach.
    """
    data = folder / "data"
    listed = cases(200_000, 10_000, 300) if quick else cases(2_000_000, 100_000, 1_000)
    if quick:
        listed = [case for case in listed if case.name in _QUICK]
    rounds = 3 if quick else 5
    exponents = (16, 18) if quick else range(18, 24)
    measured: dict[str, Any] = {}
    print("Reads of a search in skip lists (Fig. 13)", flush=True)
    sizes = [1 << exponent for exponent in exponents]
    measured["skip lists"] = skiplists.measure(sizes, searches=10_000, builds=10)
    print("The index alone, on one core, against DuckDB and Polars", flush=True)
    backward = [case for case in listed if case.direction == "backward"]
    measured["index"] = range_kernels.measure(backward, rounds)
    print("A ready table in Spark against Spark's own ways", flush=True)
    measured["joins"] = ranges.measure(spark, listed, data, rounds)
    print(f"{range_streams.BATCHES} micro-batches, build counted", flush=True)
    measured["streams"] = range_streams.measure(
        spark, listed[0], [1_000] if quick else [5_000, 100_000], data, rounds=1 if quick else 2
    )
    print("Ways to search, by workers and table size (Tables 6 to 8)", flush=True)
    measured["tables"] = range_tables.measure(
        spark,
        sizes[:1] if quick else sizes[-3:],
        [2] if quick else [1, 2],
        data,
        batch=10_000 if quick else 50_000,
        small=5_000,
        batches=4 if quick else 6,
    )
    _say_tables(measured["tables"])
    draw(measured, folder / "ranges.png")
    results = [
        *skiplists.figures(measured["skip lists"]),
        *ranges.figures(measured["joins"]),
        *range_streams.figures(measured["streams"]),
        *range_kernels.figures(measured["index"]),
        *range_tables.figures(measured["tables"]),
    ]
    _say_losses(measured)
    return measured, results


def _say_tables(tables: dict[str, dict[int, dict[int, Any]]]) -> None:
    """Throughput and latency, a table a way."""
    for way, by_size in tables.items():
        print(f"  {way}\n    {'rows':>10}  workers  thousand rows/s  latency (ms)")
        for size, by_workers in by_size.items():
            for workers, one in by_workers.items():
                print(
                    f"    {size:>10,}  {workers:>7}  {one['rate'] / 1e3:>15.1f}  "
                    f"{one['latency_ms']:>12.1f}"
                )


def _say_losses(measured: dict[str, Any]) -> None:
    """Every case and rival in which bsjoin takes longer."""
    print("Where bsjoin is slower")
    lost = False
    for part, ours in (("joins", ranges.OURS), ("index", range_kernels.OURS)):
        for name, one in measured[part].items():
            mine = statistics.median(one["seconds"][ours])
            for way, seconds in one["seconds"].items():
                theirs = statistics.median(seconds)
                if theirs < mine:
                    lost = True
                    print(
                        f"  {name}, {one['size']}: {way} {theirs * 1e3:,.1f} ms, "
                        f"{ours} {mine * 1e3:,.1f} ms"
                    )
    if not lost:
        print("  nowhere")
