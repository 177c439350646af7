"""From Spark's event log and the workers' records to the parts of a micro-batch, which add up.

A micro-batch is a sequence of phases: the driver works alone until a job begins; in a stage all
cores work or wait. So the parts inside of tasks are the times of all tasks over the number of
cores, and the rest of a stage is cores without work.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.profile.event_log import Batch

OFFSETS, PLANNING, DRIVER = "offsets, logs, commits", "planning", "driver, around the job"
SCHEDULING, IDLE = "scheduling", "cores without work"
ENDS, EXCHANGE = "source and sink", "rows to Arrow and back"
JVM = "JVM in tasks"
WORKER = "Spark's Python worker"
UNEXPLAINED = "unexplained"

# By label of the workers' clocks.
_OURS = {
    "find": "find keys",
    "gather": "gather rows",
    "source": "query the source",
    "keep": "keep rows",
    "route": "route rows",
    "other": "notes and the rest",
}
_LABELS = {"set up": WORKER, "spark": WORKER, "send": EXCHANGE, **_OURS}

OURS = tuple(_OURS.values())
PARTS = (OFFSETS, PLANNING, DRIVER, SCHEDULING, IDLE, ENDS, EXCHANGE, WORKER, *OURS, UNEXPLAINED)

TOLERANCE = 0.05
"""The share of a micro-batch that may stay unexplained."""


def parts(batch: Batch, records: Iterable[Mapping[str, Any]], cores: int) -> dict[str, float]:
    """Milliseconds of each part of one micro-batch; they add up to all of it.

    Args:
        batch: from Spark's event log.
        records: of the tasks of this micro-batch, from the workers.
        cores: how many tasks run at once.

    Returns:
        The parts of :data:`PARTS`, with the JVM's time in tasks in one piece: the time of a task
        outside of the worker's code, and while the worker waited.
    """
    times = dict(batch.durations)
    whole, planning = times.pop("triggerExecution"), times.pop("queryPlanning", 0.0)
    times.pop("addBatch")
    working = _covered(stage.span for stage in batch.stages)
    jobs = _covered(batch.jobs)
    tasks = sum(stage.tasks_ms for stage in batch.stages)
    overhead = sum(stage.tasks_ms - stage.run_ms for stage in batch.stages)
    found = dict.fromkeys((*PARTS, JVM), 0.0)
    inside = 0.0
    for record in records:
        for label, ns in record["ns"].items():
            if label in _LABELS:
                found[_LABELS[label]] += ns / 1e6 / cores
                inside += ns / 1e6
    found[OFFSETS] = sum(times.values())
    found[PLANNING] = planning
    found[DRIVER] = batch.execution[1] - batch.execution[0] - jobs
    found[SCHEDULING] = jobs - working + overhead / cores
    found[IDLE] = working - tasks / cores
    found[JVM] = (tasks - overhead - inside) / cores
    found[UNEXPLAINED] = whole - sum(found.values())
    return found


def split(found: Mapping[str, float], ends: float) -> dict[str, float]:
    """Part the JVM's time in tasks in two.

    Args:
        found: of :func:`parts`.
        ends: milliseconds of the source and the sink: the JVM's time in the tasks of the same
            stream without a join. The rest is inferred by difference.
    """
    one = dict(found)
    rest = one.pop(JVM)
    one[ENDS] = min(ends, rest)
    one[EXCHANGE] += rest - one[ENDS]
    return {name: one[name] for name in PARTS}


def medians(batches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each part, scaled to add up to the median micro-batch."""
    whole = statistics.median(sum(one.values()) for one in batches)
    middle = {name: statistics.median(one[name] for one in batches) for name in batches[0]}
    total = sum(middle.values())
    return {name: value * whole / total for name, value in middle.items()}


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The time that any of the spans covers."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
