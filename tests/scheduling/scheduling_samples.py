"""Clusters and jobs that the scheduling tests share: the papers', and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from benchmarks.papers.scheduling import published
from benchmarks.papers.scheduling.published import PRIORITY
from scheduling import (
    Edge,
    JobGraph,
    Load,
    Plan,
    Policy,
    Reserved,
    Resources,
    Snapshot,
    Task,
    Worker,
)
from scheduling.protocols import weights_of


def table_4(names: tuple[str, ...] = tuple(sorted(PRIORITY))) -> tuple[Worker, ...]:
    """The 11 task managers, by name, 4 slots each."""
    every = {worker.id: worker for worker in published.table_4()}
    return tuple(every[name] for name in names)


def table_3() -> Snapshot:
    """The cluster after ten million records, its costs per tuple in the order of Table 3."""
    return Snapshot(
        0.0,
        table_4(),
        tuples=dict.fromkeys(PRIORITY, 1e6),
        cost={name: 0.1 + 0.01 * rank for rank, name in enumerate(PRIORITY)},
    )


def tasks(
    count: int, operator: str = "map", *, cpu_cores: float = 0.5, memory_mb: float = 512
) -> tuple[Task, ...]:
    """Tasks that are alike."""
    demand = Resources(cpu_cores, memory_mb)
    return tuple(Task(f"{operator}-{i}", operator, i, demand) for i in range(count))


@st.composite
def clusters(draw: st.DrawFn, most: int = 8) -> Snapshot:
    """Workers of a few sizes and prices, with or without history; others take parts of some."""
    workers = tuple(
        Worker(
            f"w{i}",
            Resources(draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([2048, 4096, 16384]))),
            draw(st.integers(0, 4)),
            price_per_s=draw(st.sampled_from([0.0, 0.1, 0.25, 0.7])),
            host=f"h{draw(st.integers(0, 3))}",
            tier=draw(st.sampled_from(["", "a", "b"])),
            delta=draw(st.sampled_from([0.8, 0.5, 1.0])),
        )
        for i in range(draw(st.integers(0, most)))
    )
    seen = [worker.id for worker in workers if draw(st.booleans())]
    taken = [worker.id for worker in workers if draw(st.integers(0, 4)) == 0]
    cores, memory_mb = st.sampled_from([0, 0.5, 3]), st.sampled_from([0, 1024, 1e6])
    return Snapshot(
        0.0,
        workers,
        tuples={name: draw(st.sampled_from([0, 10, 500])) for name in seen},
        cost={name: draw(st.floats(0, 9)) for name in seen},
        busyness={name: draw(st.floats(0, 1)) for name in seen},
        reserved={
            name: Reserved(draw(st.integers(0, 5)), Resources(draw(cores), draw(memory_mb)))
            for name in taken
        },
    )


@st.composite
def graphs(draw: st.DrawFn, most: int = 12) -> JobGraph:
    """Tasks of up to three operators that fit the larger workers, and streams between them."""
    every = tuple(
        Task(
            f"t{i}",
            draw(st.sampled_from(["source", "join", "sink"])),
            i,
            Resources(
                draw(st.sampled_from([0, 0.25, 0.5, 1, 2.5])),
                draw(st.sampled_from([0, 256, 1000, 3000])),
            ),
            state_bytes=draw(st.sampled_from([0, 1e6])),
            preferred=draw(st.sampled_from([(), ("h0",), ("w1", "h2"), ("elsewhere",)])),
            input_bytes=draw(st.sampled_from([0, 1e9])),
            input_bytes_per_s=draw(st.sampled_from([0, 20.0])),
            cached=draw(st.sampled_from([{}, {"h0": 3e8}, {"h1": 2e8, "h2": 1e8, "gone": 5e7}])),
        )
        for i in range(draw(st.integers(0, most)))
    )
    names = [task.id for task in every]
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names)) if names else st.nothing()
    edges = draw(st.lists(pairs, max_size=10)) if names else []
    return JobGraph(
        every, tuple(Edge(a, b, draw(st.sampled_from([0, 1.5, 100]))) for a, b in edges)
    )


class Wants:
    """A scaler that wants what a test says, and keeps the loads that it was told."""

    name = "wants"

    def __init__(self, cores: float) -> None:
        self.answer, self.loads = cores, list[Load]()

    def cores(self, load: Load) -> float:
        self.loads.append(load)
        return self.answer


class Asked:
    """A policy whose answers are remembered, and whether it was asked with what was seen."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name, self.weights = policy, policy.name, weights_of(policy)
        self.answers, self.history = list[Plan](), list[bool]()

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        self.answers.append(self.policy.plan(graph, snapshot, previous))
        self.history.append(any(snapshot.tuples.values()))
        return self.answers[-1]
