"""Road traffic: every way to join live events with six tables of a road network in turn."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.compare import VARIANTS, Plan
from benchmarks.rivals.every_way import every_way
from benchmarks.rivals.runs import Batches
from benchmarks.traffic.job import JOB

__all__ = ["FULL", "QUICK", "run"]

QUICK = Plan(
    size=4,
    batches=Batches(small=10_000, smalls=3, large=50_000, larges=1, warm=1),
    kinds=("centre",),
    rounds=1,
    sample=500,
    records=200,
    skipped=VARIANTS,
)
FULL = Plan(
    size=14,
    batches=Batches(small=10_000, smalls=6, large=300_000, larges=2),
    kinds=("centre", "uniform"),
    rounds=1,
    sample=5_000,
    records=2_000,
)

_PAPER = "1.03 to 6.20 times Flink 1.12.2 without a cache (Table 3)"


def run(context: Context) -> Outcome:
    """Run the job every way: checked first, then in turns."""
    title = "Road traffic, six joins in turn"
    plan = QUICK if context.quick else FULL
    return every_way(context, JOB, plan, name="traffic", title=title, paper=_PAPER)
