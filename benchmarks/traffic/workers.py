"""Road traffic against workers: the paper's Tables 3 and 4 and Fig. 10."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.runs import Batches
from benchmarks.rivals.workers import by_workers

__all__ = ["run"]

QUICK = [3], Batches(10_000, 3, 30_000, 1)
FULL = [6, 10, 14], Batches(10_000, 6, 300_000, 2)


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    sizes, batches = QUICK if context.quick else FULL
    return by_workers(context, "benchmarks.traffic.job", "centre", sizes, batches, (3, 4, 10))
