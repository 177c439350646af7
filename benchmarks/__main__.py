"""``python -m benchmarks``: the figures of the full cache, as numbers, JSON and a picture."""

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
from typing import Any

from benchmarks import building, latency, memory, throughput
from benchmarks.picture import draw
from benchmarks.report import figures, printed
from benchmarks.session import spark_session

PARTS = ("latency", "throughput", "memory", "building")


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
    machine = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "pyarrow", "numpy", "bsjoin")},
    }
    results = figures(measured, sizes, rows)
    record = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m benchmarks " + " ".join(sys.argv[1:]),
        "seconds": round(time.monotonic() - started),
        "machine": machine,
        "figures": [figure.to_json() for figure in results],
        "measured": measured,
    }
    (options.out / "full_cache.json").write_text(json.dumps(record, indent=1))
    if "latency" in measured:
        medians = {
            way: {size: statistics.median(ms) for size, ms in by_size.items()}
            for way, by_size in measured["latency"].items()
        }
        draw(medians, options.out / "full_cache.png")
    print(printed(results, options.out))
    return 0 if all(figure.reached for figure in results) else 1


if __name__ == "__main__":
    sys.exit(main())
