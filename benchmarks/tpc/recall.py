"""Product recall on TPC-H: every way to join a stream of customers with three tables in turn."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.compare import AQE_OFF, FULL_HOT, INCREMENTAL_HOT, MERGE, Plan
from benchmarks.rivals.every_way import every_way
from benchmarks.rivals.runs import Batches
from benchmarks.tpc.job import JOB

__all__ = ["FULL", "QUICK", "run"]

QUICK = Plan(
    size=0.02,
    batches=Batches(small=10_000, smalls=3, large=30_000, larges=1, warm=1),
    kinds=("zipf",),
    rounds=1,
    sample=500,
    records=200,
    skipped=(AQE_OFF, MERGE, FULL_HOT, INCREMENTAL_HOT),
)
FULL = Plan(
    size=1.0,
    batches=Batches(small=10_000, smalls=6, large=100_000, larges=2),
    kinds=("zipf", "uniform", "shifting"),
    rounds=1,
    sample=5_000,
    records=2_000,
)

_PAPER = "1.85 to 5.07 times Flink without a cache (Table 1)"


def run(context: Context) -> Outcome:
    """Run the job every way: checked first, then in turns."""
    title = "Product recall on TPC-H, three joins in turn"
    plan = QUICK if context.quick else FULL
    return every_way(context, JOB, plan, name="tpc-recall", title=title, paper=_PAPER)
