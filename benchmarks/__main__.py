"""``python -m benchmarks``: the figures that were promised, as numbers, JSON and pictures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.full import building, latency, memory, throughput
from benchmarks.full.picture import draw, draw_incremental
from benchmarks.harness.outcome import Figure
from benchmarks.harness.report import figures, printed
from benchmarks.harness.session import spark_session
from benchmarks.hotspot import report as hotspot_report
from benchmarks.incremental import rates as incremental
from benchmarks.ranges import report as range_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = ("latency", "throughput", "memory", "building")
PARTS = (*FULL, "incremental", "hotspot", "ranges")


def main() -> int:
    """Run the benchmarks; the exit status says whether every figure is reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = options.parts or PARTS
    sizes = [10_000, 100_000, 1_000_000] if options.quick else [100_000, 1_000_000, 10_000_000]
    rows = 1_000_000 if options.quick else 10_000_000
    rounds = 2 if options.quick else 3
    folder = options.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    spark = spark_session()
    started = time.monotonic()
    measured: dict[str, Any] = {}
    if "latency" in parts:
        print(f"Micro-batches of {latency.ROWS:,} rows: addBatch", flush=True)
        measured["latency"] = latency.measure(spark, sizes, folder, rounds=2, batches=20)
    if "throughput" in parts:
        print(f"{rows:,} stream rows in one go", flush=True)
        measured["throughput"] = throughput.measure(spark, rows, sizes[1:], folder, rounds)
    if "memory" in parts:
        print("Memory of one more worker", flush=True)
        measured["memory"] = memory.measure(spark, rows, folder, workers=3)
    if "building" in parts:
        print("Building the table", flush=True)
        measured["building"] = building.measure(spark, rows, folder, min(3, rounds))
    results = figures(measured, sizes, rows)
    if measured:
        _record(options.out / "full_cache.json", started, measured, results)
    if "latency" in measured:
        medians = {
            way: {size: statistics.median(ms) for size, ms in by_size.items()}
            for way, by_size in measured["latency"].items()
        }
        draw(medians, options.out / "full_cache.png")
    if "incremental" in parts:
        results += _incremental(spark, options.out, folder, quick=options.quick)
    if "hotspot" in parts:
        started = time.monotonic()
        measured, skews = hotspot_report.run(spark, options.out, quick=options.quick)
        _record(options.out / "hotspot.json", started, measured, skews)
        results += skews
    if "ranges" in parts:
        started = time.monotonic()
        measured, compared = range_report.run(spark, options.out, quick=options.quick)
        _record(options.out / "ranges.json", started, measured, compared)
        results += compared
    print(printed(results, options.out))
    return 0 if all(figure.reached for figure in results) else 1


def _incremental(spark: SparkSession, out: Path, folder: Path, *, quick: bool) -> list[Figure]:
    started = time.monotonic()
    keys = 100_000 if quick else 1_000_000
    print(f"Zipf streams over {keys:,} keys in PostgreSQL", flush=True)
    measured = incremental.measure(
        spark,
        folder,
        keys,
        batch=keys,
        batches=6 if quick else 10,
        small=10_000,
        rounds=1 if quick else 3,
    )
    shares = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
    rates = incremental.hit_rates(keys, keys if quick else 4 * keys, shares)
    for z, by_share in rates.items():
        shown = ", ".join(f"{share:.1%}: {rate:.1%}" for share, rate in by_share.items())
        print(f"  z {z:<6} hit rate by share of the table that fits: {shown}")
    results = incremental.figures(measured)
    _record(out / "incremental.json", started, {"rates": measured, "hit_rates": rates}, results)
    ways = measured[1.04]["ways"]
    medians = {name: statistics.median(one["rate"] for one in runs) for name, runs in ways.items()}
    medians[incremental.WARM] = statistics.median(one["warm"] for one in ways[incremental.LARGE])
    flink = {
        f"Flink, {name.removeprefix('bsjoin, ')}": rate
        for (z, name), rate in incremental.FLINK.items()
        if z == 1.04
    }
    draw_incremental(medians, {} if quick else flink, rates, out / "incremental.png")
    return results


def _record(file: Path, started: float, measured: Any, results: list[Figure]) -> None:
    """Write what was measured, where and how, as JSON."""
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "pyarrow", "numpy", "bsjoin")},
    }
    record = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m benchmarks " + " ".join(sys.argv[1:]),
        "seconds": round(time.monotonic() - started),
        "machine": machine,
        "figures": [figure.to_json() for figure in results],
        "measured": measured,
    }
    file.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    sys.exit(main())
