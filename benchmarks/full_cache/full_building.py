"""Building a table, compared with sorting and writing the same rows as Parquet."""

from __future__ import annotations

import statistics
import tempfile

import bsjoin
from benchmarks.data.tables import table
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.timing import alternate, ratio, seconds_of

OURS, PARQUET = "bsjoin", "Spark sort and Parquet"


def run(context: Context) -> Outcome:
    """Measure; quick: 500,000 rows instead of 10^7."""
    rows, rounds = context.pick((500_000, 2), (10_000_000, 3))
    df = table(context.spark, rows, context.data)

    def build() -> float:
        with tempfile.TemporaryDirectory() as out:
            return seconds_of(lambda: bsjoin.BatchTable.build(df, on="k", path=f"{out}/table"))

    def sort() -> float:
        with tempfile.TemporaryDirectory() as out:
            return seconds_of(lambda: df.sort("k").write.parquet(f"{out}/parquet"))

    times = alternate({OURS: build, PARQUET: sort}, rounds)
    name = f"building / Spark's sort and Parquet, {rows:,} rows"
    figure = ratio(name, times[OURS], times[PARQUET], 2.0, at_most=True, by_round=True)
    lines = [
        {"way": way, "s": statistics.median(s), "least": min(s), "most": max(s)}
        for way, s in times.items()
    ]
    shown = Table.of(f"Building a table of {rows:,} rows", lines)
    return Outcome([figure], [shown], measured=times)
