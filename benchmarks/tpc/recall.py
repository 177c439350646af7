"""Product recall on TPC-H: every way to join a stream of customers with three tables in turn."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.compare import Plan, compare
from benchmarks.rivals.picture import draw_ways
from benchmarks.rivals.report import figures, tables
from benchmarks.rivals.runs import Batches
from benchmarks.tpc.job import JOB

__all__ = ["FULL", "QUICK", "run"]

QUICK = Plan(
    size=0.02,
    batches=Batches(small=10_000, smalls=3, large=30_000, larges=1, warm=1),
    kinds=("zipf",),
    rounds=1,
    sample=1_000,
    records=200,
)
FULL = Plan(
    size=1.0,
    batches=Batches(small=10_000, smalls=6, large=200_000, larges=2),
    kinds=("zipf", "uniform", "shifting"),
    rounds=2,
    sample=5_000,
    records=2_000,
)

_PAPER = "1.85 to 5.07 times Flink without a cache (Table 1)"


def run(context: Context) -> Outcome:
    """Run the job every way: checked first, then in turns."""
    measured = compare(context, JOB, QUICK if context.quick else FULL)
    picture = context.out / "tpc-recall.png"
    draw_ways(measured, "Product recall on TPC-H: three joins in turn", picture)
    return Outcome(
        figures=figures(measured, _PAPER),
        tables=tables(measured, "Product recall on TPC-H, every way", "Scale factor"),
        pictures=[picture],
        measured=measured,
    )
