"""What Spark's event log says about a query's micro-batches: executions, jobs, stages, tasks.

All times are milliseconds of the machine's clock, rounded to one.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Span = tuple[float, float]

_WAIT_S = 10.0


@dataclass
class Stage:
    """One stage of a micro-batch.

    Args:
        spans: from launch to end of each task.
        run_ms: the execution of its tasks, added up.
    """

    spans: list[Span] = field(default_factory=list)
    run_ms: float = 0.0

    @property
    def span(self) -> Span:
        """From the launch of its first task to the end of its last one."""
        return min(begin for begin, _ in self.spans), max(end for _, end in self.spans)

    @property
    def tasks_ms(self) -> float:
        """The tasks from launch to end, added up."""
        return sum(end - begin for begin, end in self.spans)


@dataclass
class Batch:
    """One micro-batch.

    Args:
        id: Spark's number.
        durations: Spark's ``durationMs``.
        execution: begin and end of its SQL execution.
        jobs: submission and end of each of its jobs.
        stages: those that ran.
        metrics: Spark's SQL metrics by name, all tasks added up.
    """

    id: int
    durations: dict[str, float]
    execution: Span
    jobs: list[Span]
    stages: list[Stage]
    metrics: dict[str, float]


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
    durations = {p.batchId: p.durationMs for p in query.recentProgress if p.numInputRows}
    wanted = range(first, first + count)
    begun = time.monotonic()
    while True:  # the log is written asynchronously
        found = _batches(folder, str(query.id), {n: durations.get(n) for n in wanted})
        if len(found) == count:
            return found
        if time.monotonic() - begun > _WAIT_S:
            missing = sorted(set(wanted) - {batch.id for batch in found})
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


def _batches(folder: Path, query: str, durations: dict[int, Any]) -> list[Batch]:
    begins: dict[int, float] = {}
    ends: dict[int, float] = {}
    jobs: dict[int, tuple[int, int, float]] = {}  # by job: micro-batch, execution, submission
    job_ends: dict[int, float] = {}
    stage_batch: dict[int, int] = {}
    stages: dict[int, Stage] = defaultdict(Stage)
    metrics: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for event in _events(folder):
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart":
            begins[event["executionId"]] = event["time"]
        elif kind == "SparkListenerSQLExecutionEnd":
            ends[event["executionId"]] = event["time"]
        elif kind == "SparkListenerJobStart":
            properties = event.get("Properties") or {}
            if properties.get("sql.streaming.queryId") == query:
                batch = int(properties["streaming.sql.batchId"])
                execution = int(properties["spark.sql.execution.id"])
                jobs[event["Job ID"]] = (batch, execution, event["Submission Time"])
                stage_batch |= dict.fromkeys(event["Stage IDs"], batch)
        elif kind == "SparkListenerJobEnd":
            job_ends[event["Job ID"]] = event["Completion Time"]
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stage_batch:
            info, stage = event["Task Info"], stages[event["Stage ID"]]
            stage.spans.append((info["Launch Time"], info["Finish Time"]))
            stage.run_ms += event["Task Metrics"]["Executor Run Time"]
            for one in info["Accumulables"]:
                if one.get("Metadata") == "sql" and "Update" in one:
                    of_batch = metrics[stage_batch[event["Stage ID"]]]
                    of_batch[one["Name"]] += float(one["Update"])
    found = []
    for number, times in durations.items():
        mine = {
            job: (execution, begin) for job, (n, execution, begin) in jobs.items() if n == number
        }
        executions = {execution for execution, _ in mine.values()}
        if (
            times is None
            or not mine
            or not (executions <= ends.keys() and mine.keys() <= job_ends.keys())
        ):
            continue
        span = (min(begins[one] for one in executions), max(ends[one] for one in executions))
        found.append(
            Batch(
                number,
                {name: float(ms) for name, ms in times.items()},
                span,
                sorted((begin, job_ends[job]) for job, (_, begin) in mine.items()),
                [stage for one, stage in stages.items() if stage_batch[one] == number],
                dict(metrics[number]),
            )
        )
    return found
