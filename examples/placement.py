"""A stream of orders joined on three executors, one of them dear, placed cycle by cycle.

The executors are processes of this machine (Spark's `local-cluster`); the price table says that one
of them is dear. CETSA takes all three in turns in the first cycle, for nothing is known yet. In the
second it knows what a row costs where, and leaves the dear one. From then on the placement is kept:
the policy is asked in every cycle, and none of its answers saves a tenth of the rent.

    python examples/placement.py [--out FOLDER] [--orders ROWS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import _support
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from scheduling import CETSA, Price
from scheduling.spark import Placement

_CUSTOMERS, _CYCLES = 50_000, 6
_PRICES = [Price("*/0", 0.4), Price("*", 0.1)]  # $/s; a worker is "host/executor"


def main() -> None:
    """Make orders and customers, join them, show where the tasks ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/placement"))
    parser.add_argument("--orders", type=_support.positive, default=300_000)
    options = parser.parse_args()
    out = _support.fresh_folder(options.out)
    draw = np.random.default_rng(1)
    customers = pd.DataFrame({"customer": np.arange(_CUSTOMERS)})
    customers["city"] = np.array(["Graz", "Lyon", "Porto"])[customers.customer % 3]
    orders = pd.DataFrame({"customer": draw.integers(0, _CUSTOMERS + 500, options.orders)})
    orders["order"] = np.arange(options.orders)
    _support.write_parquet(customers, out / "customers")
    _support.write_parquet(orders, out / "orders", -(-len(orders) // _CYCLES))
    print(f"{len(orders):,} orders. Starting Spark with three executors …")
    spark = start_spark()
    try:
        steered = bsjoin.cycles(
            spark.read.parquet(str(out / "customers")),
            on="customer",
            partition=bsjoin.Hash(3),
            placement=Placement(policy=CETSA(), prices=_PRICES, cooldown_s=0, delta=1.0),
            sink=lambda rows, number: rows.write.mode("overwrite").parquet(
                str(out / "result" / f"batch={number}")
            ),
        )
        query = (
            read(spark, out / "orders")
            .writeStream.foreachBatch(steered)
            .option("checkpointLocation", str(out / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        show(steered)
        rows = spark.read.parquet(str(out / "result")).count()
    finally:
        _support.stop(spark)
    expected = int((orders.customer < _CUSTOMERS).sum())
    print(f"\n{rows:,} joined rows, {expected:,} expected. Result: {out / 'result'}")
    sys.exit(0 if rows == expected else 1)


def start_spark() -> SparkSession:
    """A session with three executors of two cores on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local-cluster[3,2,1024]")
        .appName("placement")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The orders as a stream, a file a micro-batch."""
    schema = "customer long, order long"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def show(steered: bsjoin.Cycles) -> None:
    """Cycle by cycle: what was decided, and where the tasks ran."""
    print(f"\n{'cycle':>5}  {'tasks':>5}  {'landed':>8}  {'tasks by executor':<28}  decision")
    for cycle in bsjoin.progress(steered):
        placed = cycle.placement
        if placed is None:
            continue
        by_executor = ", ".join(
            f"{name.rpartition('/')[2]}: {count}" for name, count in placed.workers
        )
        landed = "unknown" if placed.landed is None else f"{placed.landed}/{placed.requested}"
        print(
            f"{cycle.batch_id:>5}  {placed.partitions:>5}  {landed:>8}  {by_executor:<28}  "
            f"{placed.action}: {placed.reason}"
        )
    used = [
        str(cycle.batch_id)
        for cycle in bsjoin.progress(steered)
        if cycle.placement and any(name.endswith("/0") for name, _ in cycle.placement.workers)
    ]
    print(f"\nExecutor 0, the dear one, had tasks in these cycles: {', '.join(used) or 'none'}")


if __name__ == "__main__":
    _support.program(main)
