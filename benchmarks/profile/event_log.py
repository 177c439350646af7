"""What Spark's event log says about a query's micro-batches: executions, jobs, stages, tasks.

All times are milliseconds; begins and ends are those of the machine's clock.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Span = tuple[float, float]

_PREFIX = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
_WAIT_S = 10.0


@dataclass
class Batch:
    """One micro-batch.

    Args:
        durations: Spark's ``durationMs``.
        executions: begin and end of its SQL executions, by Spark's number.
        jobs: submission and end of its jobs, by Spark's number.
        stages: launch and end of the tasks of each stage that ran.
        run_ms: the execution of all tasks, added up.
        metrics: Spark's SQL metrics by name, all tasks added up.
        lookup_ms: of :func:`bsjoin.progress`, all tasks added up.
        asked: keys that an incremental cache looked up in its source; None without one.
    """

    durations: dict[str, float] = field(default_factory=dict)
    executions: dict[int, Span] = field(default_factory=dict)
    jobs: dict[int, Span] = field(default_factory=dict)
    stages: dict[int, list[Span]] = field(default_factory=dict)
    run_ms: float = 0.0
    metrics: dict[str, float] = field(default_factory=Counter)
    lookup_ms: float = 0.0
    asked: int | None = None

    @property
    def complete(self) -> bool:
        """Whether the log has the ends of all that began."""
        spans = [*self.executions.values(), *self.jobs.values()]
        return bool(self.durations and spans) and all(end < math.inf for _, end in spans)


def read(folder: Path, query: Any, first: int, count: int) -> list[Batch]:
    """Some micro-batches of a query.

    Args:
        folder: the ``spark.eventLog.dir`` of the session.
        query: a ``StreamingQuery``, which may have been stopped.
        first: the number of the first to read.
        count: how many to read.

    Raises:
        RuntimeError: the log does not have them.
    """
    wanted = range(first, first + count)
    durations = {p.batchId: dict(p.durationMs) for p in query.recentProgress if p.numInputRows}
    until = time.monotonic() + _WAIT_S
    while True:  # the log is written asynchronously
        found = {number: Batch(durations.get(number, {})) for number in wanted}
        _fill(found, folder, str(query.id))
        missing = [number for number, batch in found.items() if not batch.complete]
        if not missing:
            return list(found.values())
        if time.monotonic() > until:
            raise RuntimeError(
                f"Spark's event log has no micro-batches {missing} of the query {query.id}: "
                "raise spark.sql.streaming.numRecentProgressUpdates, or read fewer"
            )
        time.sleep(0.2)


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may not be written yet
                    yield json.loads(line)


def _fill(found: dict[int, Batch], folder: Path, query: str) -> None:
    """Add what the log has about the micro-batches; what has not ended ends at infinity."""
    begins: dict[int, float] = {}
    of_execution: dict[int, Batch] = {}
    of_job: dict[int, Batch] = {}
    of_stage: dict[int, Batch] = {}
    for event in _events(folder):
        properties, kind = event.get("Properties") or {}, event["Event"].removeprefix(_PREFIX)
        if kind == "Start":
            begins[event["executionId"]] = event["time"]
        elif kind == "End" and (batch := of_execution.get(number := event["executionId"])):
            batch.executions[number] = begins[number], event["time"]
        elif properties.get("sql.streaming.queryId") == query and kind == "SparkListenerJobStart":
            if batch := found.get(int(properties["streaming.sql.batchId"])):
                number = int(properties["spark.sql.execution.id"])
                of_execution[number] = of_job[event["Job ID"]] = batch
                of_stage |= dict.fromkeys(event["Stage IDs"], batch)
                batch.executions[number] = begins[number], math.inf
                batch.jobs[event["Job ID"]] = event["Submission Time"], math.inf
        elif kind == "SparkListenerJobEnd" and (batch := of_job.get(number := event["Job ID"])):
            batch.jobs[number] = batch.jobs[number][0], event["Completion Time"]
        elif kind == "SparkListenerTaskEnd" and (batch := of_stage.get(event["Stage ID"])):
            info = event["Task Info"]
            span = info["Launch Time"], info["Finish Time"]
            batch.stages.setdefault(event["Stage ID"], []).append(span)
            batch.run_ms += event["Task Metrics"]["Executor Run Time"]
            for one in info["Accumulables"]:
                if one.get("Metadata") == "sql" and "Update" in one:
                    batch.metrics[one["Name"]] += float(one["Update"])
