"""From Spark's event log to the parts of a micro-batch, which add up.

A micro-batch is a sequence of phases: the driver works alone until a job begins; in a stage all
cores work or wait. So the parts inside of tasks are the times of all tasks over the number of
cores, and the rest of a stage is cores without work.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.profile.event_log import Batch, Span

OFFSETS, PLANNING, DRIVER = "offsets, logs, commits", "planning", "driver, around the job"
SCHEDULING, IDLE = "scheduling", "cores without work"
ENDS, SET_UP = "source and sink", "start of Python tasks"
EXCHANGE = "Spark's Python worker, rows to Arrow and back"
OURS, UNEXPLAINED = "our code: find keys, gather rows", "unexplained"

PARTS = (OFFSETS, PLANNING, DRIVER, SCHEDULING, IDLE, ENDS, SET_UP, EXCHANGE, OURS, UNEXPLAINED)

RUN, EXECUTE = "time to run Python workers", "time to execute Python code"
"""Two of Spark's SQL metrics; the first begins before the functions are unpickled."""

TOLERANCE = 0.05
"""The share of a micro-batch that may stay unexplained."""


def parts(batch: Batch, cores: int, ends: float = math.inf) -> dict[str, float]:
    """Milliseconds of each part of one micro-batch; they add up to all of it.

    Args:
        batch: from Spark's event log.
        cores: how many tasks run at once.
        ends: milliseconds of the source and the sink, which the same stream without a join takes;
            by default all that the tasks take besides the measured parts.
    """
    times = dict(batch.durations)
    whole, planning = times.pop("triggerExecution"), times.pop("queryPlanning", 0.0)
    times.pop("addBatch")
    stages = batch.stages.values()
    tasks = sum(end - begin for stage in stages for begin, end in stage)
    working = _covered((min(b for b, _ in stage), max(e for _, e in stage)) for stage in stages)
    jobs = _covered(batch.jobs.values())
    ours = batch.lookup_ms / cores
    set_up = (batch.metrics.get(RUN, 0.0) - batch.metrics.get(EXECUTE, 0.0)) / cores
    rest = batch.run_ms / cores - ours - set_up
    found = {
        OFFSETS: sum(times.values()),
        PLANNING: planning,
        DRIVER: max(e for _, e in batch.executions.values())
        - min(b for b, _ in batch.executions.values())
        - jobs,
        SCHEDULING: jobs - working + (tasks - batch.run_ms) / cores,
        IDLE: working - tasks / cores,
        ENDS: min(ends, rest),
        SET_UP: set_up,
        EXCHANGE: rest - min(ends, rest),
        OURS: ours,
    }
    return {**found, UNEXPLAINED: whole - sum(found.values())}


def medians(batches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each part, scaled to add up to the median micro-batch."""
    whole = statistics.median(sum(one.values()) for one in batches)
    middle = {name: statistics.median(one[name] for one in batches) for name in batches[0]}
    total = sum(middle.values())
    return {name: value * whole / total for name, value in middle.items()}


def _covered(spans: Iterable[Span]) -> float:
    """The time that any of the spans covers."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
