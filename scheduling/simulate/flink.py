"""CETSA and LBA-CE against Flink's default, round robin and GS-BFD, on the cluster of Table 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.cost import CostModel, Costs
from scheduling.load import CPU_WEIGHT
from scheduling.model import JobGraph, Plan, Resources, Snapshot, Worker
from scheduling.policies import Timed
from scheduling.protocols import Clock, Policy
from scheduling.simulate import published
from scheduling.simulate.clusters import table_4
from scheduling.simulate.engine import Simulation
from scheduling.simulate.flow import Physics
from scheduling.simulate.jobs import Job, demands
from scheduling.simulate.published import CETSA, DEFAULT, GS_BFD, LBA_CE, ROUND_ROBIN
from scheduling.simulate.steering import SimMonitor
from scheduling.simulate.streams import constant

__all__ = ["PRICE_PER_GB", "Outcome", "compare", "history", "plans", "run_placement"]

Float64s = NDArray[np.float64]
Make = Callable[..., Policy]

PRICE_PER_GB = 0.01
"""$ for a GB between hosts (P_f of Eq. 10): the cloud price between zones; the paper has none."""

_SLA_S = 5.0  # a record is late when it waits longer; the paper does not say where it sets it
_DEPLOY_S = 7.0  # what the first million of Table 5 takes beyond the later ones
_WARM_S = 60.0
_SETTLE_S = 30.0
_UNKNOWN = Resources(0.0, 0.0)


@dataclass(frozen=True)
class Outcome:
    """A run of a job under one way of scheduling; of several seeds the mean.

    ``millions_s`` has the seconds for each million of records; ``cpu`` and ``memory`` are the
    mean shares of the workers in use; ``deviation`` is S over all workers, its mean over time;
    ``planned_share`` the largest share of a worker's CPU in the plan, ``hottest`` the
    largest that was measured, with what the host's services and the network take; ``costs`` are
    RC, CC, SC and WEC of Eqs. 6-15.
    """

    placement: dict[str, str]
    cost: float
    costs: Costs
    communication_gb: float
    deviation: float
    cpu: float
    memory: float
    late_share: float
    throughput: float
    workers: float
    planned_share: float
    hottest: float
    unplaced: float
    millions_s: Float64s
    time_s: Float64s
    rate_over_time: Float64s
    cpu_over_time: Float64s
    deviation_over_time: Float64s


def history(job: Job, workers: Sequence[Worker], records_per_s: float) -> Snapshot:
    """What is known after a minute of round robin: the runtime information of Algorithm 1."""
    graph = demands(job, records_per_s)
    placement = {task.id: workers[at % len(workers)].id for at, task in enumerate(graph.tasks)}
    simulation = Simulation(job, workers, constant(records_per_s), placement)
    monitor = SimMonitor(simulation)
    simulation.run(_WARM_S)
    return monitor.snapshot()


def plans(
    job: Job,
    workers: Sequence[Worker],
    records_per_s: float,
    make: Make,
    seeds: int,
    first: int = 0,
) -> dict[str, list[Plan]]:
    """The plan of each way; of Flink's default one a seed.

    The default and round robin know of slots only, so their tasks demand nothing; GS-BFD fills a
    worker to the brim, so its delta is 1. CETSA and LBA-CE know what tasks demand, and keep to
    delta.
    """
    snapshot = history(job, workers, records_per_s)
    graph = demands(job, records_per_s)
    blind = JobGraph(tuple(replace(task, demand=_UNKNOWN) for task in graph.tasks), graph.edges)
    empty = Snapshot(0.0, tuple(workers))
    brim = replace(snapshot, workers=tuple(replace(worker, delta=1.0) for worker in workers))
    return {
        DEFAULT: [
            make("random", seed=first * seeds + seed).plan(blind, empty) for seed in range(seeds)
        ],
        ROUND_ROBIN: [make("round-robin").plan(blind, empty)],
        GS_BFD: [make("gs-bfd").plan(graph, brim)],
        CETSA: [make("cetsa").plan(graph, snapshot)],
        LBA_CE: [make("lba-ce").plan(graph, snapshot)],
    }


def run_placement(
    job: Job, workers: Sequence[Worker], records_per_s: float, plan: Plan, records: float
) -> Outcome:
    """Run a job under a plan until that many records are done, and measure it."""
    placement, model = plan.placement, CostModel()
    physics = Physics(deploy_s=_DEPLOY_S)
    simulation = Simulation(job, workers, constant(records_per_s), placement, physics=physics)
    trace = simulation.run_records(records, at_most_s=60 + 3 * records / records_per_s)
    simulation._check()
    ids = [worker.id for worker in workers]
    used = sorted({ids.index(name) for name in placement.values()})
    took_s = trace.time_of(records)
    loads = CPU_WEIGHT * trace.rows("cpu") + (1 - CPU_WEIGHT) * trace.rows("memory")
    steady = trace.between(_SETTLE_S, max(took_s, _SETTLE_S + 1))
    tasks = demands(job, records_per_s).by_id
    requested = {worker.id: 0.0 for worker in workers}
    for task, worker in placement.items():
        requested[worker] += tasks[task].demand.cpu_cores
    rent = sum(workers[at].price_per_s for at in used)
    sent_gb = float(trace.rows("network_bytes").sum() / 1e9)
    parts = (rent * took_s, PRICE_PER_GB * sent_gb, rent * plan.scheduling_time_s)
    wec = sum(weight * part for weight, part in zip(model.weights, parts, strict=True))
    return Outcome(
        placement=placement,
        cost=parts[0],
        costs=Costs(*parts, wec),
        communication_gb=sent_gb,
        deviation=float(loads.std(axis=1)[steady].mean()),
        cpu=float(trace.rows("cpu")[steady][:, used].mean()),
        memory=float(trace.rows("memory")[steady][:, used].mean()),
        late_share=trace.late_share(_SLA_S),
        throughput=records / took_s,
        workers=float(len(used)),
        planned_share=max(requested[one.id] / one.capacity.cpu_cores for one in workers),
        hottest=float(trace.rows("cpu")[steady].mean(axis=0).max()),
        unplaced=float(len(plan.unplaced)),
        millions_s=np.array([trace.time_of(records * at / 10) for at in range(1, 11)]),
        time_s=trace.rows("time_s"),
        rate_over_time=trace.throughput(),
        cpu_over_time=trace.rows("cpu")[:, used].mean(axis=1),
        deviation_over_time=loads.std(axis=1),
    )


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    steps = min(len(one.time_s) for one in outcomes)
    found: dict[str, object] = {"placement": outcomes[0].placement}
    costs = np.mean([[one.costs.rc, one.costs.cc, one.costs.sc] for one in outcomes], axis=0)
    wec = float(np.mean([one.costs.wec for one in outcomes]))
    found["costs"] = Costs(float(costs[0]), float(costs[1]), float(costs[2]), wec)
    for name in Outcome.__dataclass_fields__:
        if name in found:
            continue
        values = [getattr(one, name) for one in outcomes]
        if np.ndim(values[0]):
            found[name] = np.mean([value[:steps] for value in values], axis=0)
        else:
            found[name] = float(np.mean(values))
    found["planned_share"] = max(one.planned_share for one in outcomes)
    return Outcome(**found)  # type: ignore[arg-type]  # every field is named above


def compare(
    job: Job,
    records_per_s: float,
    make: Make,
    *,
    seeds: int = 20,
    hashes: int = 4,
    records: float = 10e6,
    clock: Clock | None = None,
) -> dict[str, Outcome]:
    """Run a job under each of the five ways on the cluster of Table 4.

    Args:
        job: the job.
        records_per_s: the generator's rate.
        make: makes a policy by its name, as ``scheduling.policies.make``.
        seeds: how often the default is drawn, for each hash.
        hashes: how many hashes of the keys are tried; every figure is the mean over them.
        records: how many are processed.
        clock: what planning is timed with (SC of Eq. 13); without it planning takes no time.
    """
    workers = table_4()

    def timed(name: str, **options: Any) -> Policy:
        return make(name, **options) if clock is None else Timed(make(name, **options), clock)

    found: dict[str, list[Outcome]] = {way: [] for way in published.WAYS}
    for number in range(hashes):
        hashed = replace(job, seed=job.seed + number)
        for way, made in plans(hashed, workers, records_per_s, timed, seeds, number).items():
            found[way] += [
                run_placement(hashed, workers, records_per_s, plan, records) for plan in made
            ]
    return {way: _mean(outcomes) for way, outcomes in found.items()}
