"""A join under bursts and the failure of a node, with a controller and without."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.controller import Controller
from scheduling.cost import rent_per_s
from scheduling.decision import Decision
from scheduling.model import Snapshot
from scheduling.policies import policy
from scheduling.simulate.clusters import table_4
from scheduling.simulate.engine import Failure, Simulation
from scheduling.simulate.flow import Physics
from scheduling.simulate.jobs import demands
from scheduling.simulate.report import Statement
from scheduling.simulate.steering import SimActuator, SimMonitor
from scheduling.simulate.streams import Bursts
from scheduling.simulate.trace import Trace
from scheduling.simulate.workloads import join_job

__all__ = ["BURSTS", "FAILURE", "Disturbed", "compare", "run", "statements"]

BURSTS = Bursts(20_000.0, factor=3, every_s=150, lasts_s=20)
_PEAK = 40_000.0  # records/s that placements are planned for
_LOOKS_EVERY_S = 20.0
_LATE_S = 10.0
FAILURE = (260.0, 560.0)  # seconds from and until


@dataclass(frozen=True)
class Disturbed:
    """A run: its trace, what the controller did, how often the job was restarted.

    ``still_cost`` is what the workers in use cost while the job stood still, in $: the price of
    deploying, of restarts, of changes, and of a host that is gone.
    """

    trace: Trace
    decisions: tuple[Decision, ...]
    restarts: int
    done: float
    failed: str
    changes: int
    still_cost: float


def run(name: str, *, steered: bool, until_s: float = 720.0) -> Disturbed:
    """Run the join: placed once by a policy, then steered or left alone.

    The worker that fails is the one with most of the join's tasks in the first placement.
    """
    job, workers = join_job(), table_4()
    sizes = {one.name: one.parallelism for one in job.operators}
    graph = demands(job, _PEAK)
    turns = {task.id: workers[at % len(workers)].id for at, task in enumerate(graph.tasks)}
    warm = Simulation(job, workers, BURSTS, turns)
    warm_monitor = SimMonitor(warm)
    warm.run(60.0)
    first = policy(name).plan(graph, warm_monitor.snapshot())
    joins = [at for task, at in first.placement.items() if task.startswith("join-")]
    failed = max(sorted(set(joins)), key=joins.count)
    simulation = Simulation(
        job,
        workers,
        BURSTS,
        first.placement,
        physics=Physics(deploy_s=7.0),
        failures=(Failure(failed, *FAILURE),),
    )
    controller = Controller(
        SimMonitor(simulation),
        policy(name),
        SimActuator(simulation),
        lambda counts: demands(job.resized(counts), _PEAK),
        sizes,
        clock=lambda: simulation.time_s,
        cooldown_s=120.0,
    )
    still_cost = 0.0
    while simulation.time_s < until_s:
        used = rent_per_s(simulation.placement, Snapshot(simulation.time_s, workers))
        steps = len(simulation.trace.still_s)
        simulation.run(simulation.time_s + _LOOKS_EVERY_S)
        still_cost += used * sum(simulation.trace.still_s[steps:])
        if steered:
            controller.step()
    simulation._check()
    return Disturbed(
        simulation.trace,
        controller.decisions,
        simulation.restarts,
        simulation.done,
        failed,
        simulation.reconfigurations,
        still_cost,
    )


def compare(until_s: float = 720.0) -> dict[str, Disturbed]:
    """LBA-CE with a controller, and the same first placement left alone."""
    return {
        "left alone": run("lba-ce", steered=False, until_s=until_s),
        "steered": run("lba-ce", steered=True, until_s=until_s),
    }


def statements(found: dict[str, Disturbed]) -> list[Statement]:
    """What the controller is there for; no paper has this run."""
    system = "Join with bursts and a node failure (no paper's run)"
    nan = float("nan")
    alone, steered = found["left alone"], found["steered"]
    repaired = [
        one.time_s - FAILURE[0] for one in steered.decisions if one.action in ("repair", "place")
    ]
    soon = min((after for after in repaired if after >= 0), default=nan)
    return [
        Statement(
            system=system,
            where="repair",
            what="seconds from the failure to the new placement",
            paper=nan,
            ours=soon,
            most=_LOOKS_EVERY_S,
        ),
        Statement(
            system=system,
            where="late",
            what=f"records that wait over {_LATE_S:g} s, steered minus left alone, points",
            paper=nan,
            ours=100 * (steered.trace.late_share(_LATE_S) - alone.trace.late_share(_LATE_S)),
            most=0.0,
        ),
        Statement(
            system=system,
            where="change",
            what=f"$ of rent while the job stood still, steered ({steered.changes} changes) minus "
            f"left alone ({alone.changes})",
            paper=nan,
            ours=steered.still_cost - alone.still_cost,
            most=0.0,
        ),
    ]
