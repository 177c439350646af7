"""Product recall against workers: the paper's Tables 1 and 2 and Fig. 9."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.runs import Batches
from benchmarks.rivals.workers import by_workers

__all__ = ["run"]

QUICK = [0.02], Batches(10_000, 3, 20_000, 1)
FULL = [0.25, 0.5, 1.0], Batches(10_000, 6, 100_000, 2)


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    sizes, batches = QUICK if context.quick else FULL
    return by_workers(context, "benchmarks.tpc.job", "zipf", sizes, batches, (1, 2, 9))
