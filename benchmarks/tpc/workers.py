"""Product recall against workers: the paper's Tables 1 and 2 and Fig. 9."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.runs import Batches
from benchmarks.rivals.workers import measure, outcome
from benchmarks.tpc.job import JOB

__all__ = ["run"]


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    quick = context.quick
    measured = measure(
        context,
        JOB,
        "benchmarks.tpc.job",
        "zipf",
        [0.02] if quick else [0.25, 0.5, 1.0],
        Batches(10_000, 3, 30_000, 1, 1) if quick else Batches(10_000, 5, 100_000, 2),
        rounds=1 if quick else 2,
        records=100 if quick else 1_000,
        cluster=not quick,
    )
    return outcome(context, JOB, measured, (1, 2, 9))
