"""Road traffic against workers: the paper's Tables 3 and 4 and Fig. 10."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.runs import Batches
from benchmarks.rivals.workers import measure, outcome
from benchmarks.traffic.job import JOB

__all__ = ["run"]


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    quick = context.quick
    measured = measure(
        context,
        JOB,
        "benchmarks.traffic.job",
        "centre",
        [3] if quick else [10, 14, 20],
        Batches(10_000, 3, 50_000, 1, 1) if quick else Batches(10_000, 5, 500_000, 2),
        rounds=1 if quick else 2,
        records=100 if quick else 1_000,
        cluster=not quick,
    )
    return outcome(context, JOB, measured, (3, 4, 10))
