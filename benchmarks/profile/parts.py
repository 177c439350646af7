"""From Spark's books and the workers' records to the parts of a micro-batch, which add up.

A micro-batch is a row of phases: the driver works alone until a job begins; in a stage all cores
work, or wait. So the parts inside of tasks are what all tasks spent, shared out to the cores, and
what a stage took beyond that is cores without work.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.profile.books import Batch

__all__ = ["OURS", "PARTS", "TOLERANCE", "medians", "parts", "split"]

OFFSETS, PLANNING, DRIVER = "offsets, logs, commits", "planning", "driver, around the job"
SCHEDULING, IDLE = "scheduling", "cores without work"
ENDS, EXCHANGE = "source and sink", "rows to Arrow and back"
JVM = "JVM in tasks"
WORKER = "Spark's Python worker"
FIND, GATHER, SOURCE, KEEP, ROUTE, OTHER = (
    "find keys", "gather rows", "ask the source", "keep rows", "route rows", "notes and the rest",
)  # fmt: skip
UNEXPLAINED = "unexplained"

OURS = (FIND, GATHER, SOURCE, KEEP, ROUTE, OTHER)
PARTS = (
    OFFSETS, PLANNING, DRIVER, SCHEDULING, IDLE, ENDS, EXCHANGE, WORKER, *OURS, UNEXPLAINED,
)  # fmt: skip

TOLERANCE = 0.05
"""How much of a micro-batch may stay unexplained."""

_LABELS = {
    "set up": WORKER,
    "spark": WORKER,
    "send": EXCHANGE,
    "find": FIND,
    "gather": GATHER,
    "source": SOURCE,
    "keep": KEEP,
    "route": ROUTE,
    "other": OTHER,
}
_PLANNED = "queryPlanning"
_WHOLE, _ADDED = "triggerExecution", "addBatch"


def parts(batch: Batch, records: Iterable[Mapping[str, Any]], cores: int) -> dict[str, float]:
    """Milliseconds of each part of one micro-batch; they add up to all of it.

    Args:
        batch: from Spark's books.
        records: of the tasks of this micro-batch, from the workers.
        cores: how many tasks run at once.

    Returns:
        The parts of :data:`PARTS`, but for the JVM's time in tasks in one piece: what a task
        spent outside of the worker's code, and while the worker waited.
    """
    times = batch.durations
    execution = batch.execution[1] - batch.execution[0]
    working = sum(end - begin for begin, end in _merged((s.begun, s.ended) for s in batch.stages))
    jobs = sum(end - begin for begin, end in _merged(batch.jobs))
    tasks = sum(stage.tasks_ms for stage in batch.stages)
    unpacked = sum(stage.tasks_ms - stage.run_ms for stage in batch.stages)
    found = dict.fromkeys((*PARTS, JVM), 0.0)
    inside = 0.0
    for record in records:
        for label, ns in record["ns"].items():
            if label in _LABELS:
                found[_LABELS[label]] += ns / 1e6 / cores
                inside += ns / 1e6
    listed = (_WHOLE, _ADDED, _PLANNED)
    found[OFFSETS] = sum(ms for name, ms in times.items() if name not in listed)
    found[PLANNING] = times.get(_PLANNED, 0.0)
    found[DRIVER] = execution - jobs
    found[SCHEDULING] = jobs - working + unpacked / cores
    found[IDLE] = working - tasks / cores
    found[JVM] = (tasks - unpacked - inside) / cores
    found[UNEXPLAINED] = times[_WHOLE] - sum(found.values())
    return found


def split(found: Mapping[str, float], ends: float) -> dict[str, float]:
    """Part the JVM's time in tasks in two.

    Args:
        found: of :func:`parts`.
        ends: milliseconds that the source and the sink take: the JVM's time in the tasks of the
            same stream without a join. So the rest is inferred by difference.

    Returns:
        The parts of :data:`PARTS`.
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


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times that any of the spans covers."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
