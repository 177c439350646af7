"""Twister2's streaming schedulers: what its text says of them, computed from plans."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.papers.scheduling.claims import Row
from benchmarks.papers.scheduling.flink import JOBS
from benchmarks.papers.scheduling.operators import demands
from benchmarks.papers.scheduling.published import table_4
from scheduling import (
    DataLocality,
    FirstFit,
    JobGraph,
    Resources,
    RoundRobin,
    Snapshot,
    Task,
    Worker,
)

PAPER = "Twister2"
NOTE = "The text makes statements without numbers. The originals' plans are golden tests."
_HOLDERS = ("l4", "xl4")  # the hosts that hold the input
_INPUT_BYTES = 2e9


def _agree() -> int:
    """How many instances of the text's example are where it says: 2 containers, 2 tasks of 2."""
    tasks = [
        Task(f"{name}-{at}", name, at, Resources(0.5, 256.0)) for name in "ab" for at in range(2)
    ]
    two = tuple(Worker(name, Resources(4.0, 4096.0), 4) for name in ("1", "2"))
    plan = RoundRobin(restart=True).plan(JobGraph(tuple(tasks)), Snapshot(0.0, two))
    return sum(
        plan.placement[task] == at
        for task, at in {"a-0": "1", "b-0": "1", "a-1": "2", "b-1": "2"}.items()
    )


def rows() -> list[Row]:
    """The statements."""
    graph, snapshot = demands(JOBS["Wordcount"](), 20_000.0), Snapshot(0.0, table_4())
    tasks = tuple(
        replace(task, preferred=_HOLDERS, input_bytes=_INPUT_BYTES)
        if task.operator == "read"
        else task
        for task in graph.tasks
    )
    graph, near = JobGraph(tasks, graph.edges), DataLocality()
    plans = [one.plan(graph, snapshot) for one in (RoundRobin(restart=True), FirstFit(), near)]
    places = {worker.id: place for place, worker in enumerate(snapshot.workers)}
    seconds = near.transfer_s(snapshot)
    slowest = [
        max(seconds(task)[places[plan.placement[task.id]]] for task in tasks) for plan in plans
    ]
    turns, first, _ = (len(plan.by_worker) for plan in plans)

    def row(place: str, what: str, says: float | None, ours: float) -> Row:
        return Row(PAPER, place, what, says, ours, "computed")

    return [
        row("round robin", "instances of the text's example where it says, of 4", 4.0, _agree()),
        row("first fit", "workers that it uses fewer than round robin does", None, turns - first),
        row("data locality", "seconds that the slowest reader waits less than under round robin",
            None, slowest[0] - slowest[2]),
    ]  # fmt: skip
