"""The controller: first plan, repair, cooldown, hysteresis, landing, moves, resizes."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping

import pytest
from scheduling_samples import tasks

from scheduling import (
    CETSA,
    Assignment,
    Controller,
    JobGraph,
    Plan,
    Receipt,
    Resources,
    Snapshot,
    StStream,
    Unplaced,
    Worker,
    errors,
)
from scheduling.history import LoadEstimate, percent

CHEAP = Worker("cheap", Resources(8, 8192), 4, price_per_s=1.0)
DEAR = Worker("dear", Resources(8, 8192), 4, price_per_s=2.0)


class Cluster:
    """A cluster that does what it is told, unless told not to: monitor, actuator and clock."""

    def __init__(self, *workers: Worker) -> None:
        self.workers = workers
        self.now = 0.0
        self.at: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.stubborn = ""  # where tasks run, whatever is requested
        self.broken = False
        self.usage: dict[str, Resources] = {}
        self.tuples: dict[str, float] = {}
        self.can = frozenset({"place", "move", "spread", "executors"})
        self.plans: list[Plan] = []

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.now,
            self.workers,
            placement=dict(self.at),
            usage=dict(self.usage),
            tuples=self.tuples,
        )

    def capabilities(self) -> frozenset[str]:
        return self.can

    def apply(self, plan: Plan) -> Receipt:
        if self.broken:
            raise errors.ActuatorError("the driver is gone")
        self.plans.append(plan)
        there = {worker.id for worker in self.workers} - self.refuses
        landed = {task: at for task, at in plan.placement.items() if at in there}
        if self.stubborn:
            landed = dict.fromkeys(landed, self.stubborn)
        self.at = landed
        return Receipt(plan.placement, landed)


class Says:
    """A policy that answers what a test says, and keeps what it was asked."""

    name = "says"
    weights = (0.0, 1.0, 0.0)

    def __init__(self, *workers: str) -> None:
        self.workers = workers
        self.asked: list[tuple[JobGraph, Snapshot, Plan | None]] = []

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        self.asked.append((graph, snapshot, previous))
        at = zip(graph.tasks, itertools.cycle(self.workers))
        there = [(task.id, worker) for task, worker in at if worker in snapshot.by_id]
        left = {task.id for task in graph.tasks} - {task for task, _ in there}
        return Plan(
            tuple(Assignment(task, worker, "said so") for task, worker in there),
            tuple(Unplaced(task, "said so") for task in sorted(left)),
        )


def graph_of(parallelism: Mapping[str, int]) -> JobGraph:
    return JobGraph(tuple(one for name, n in parallelism.items() for one in tasks(n, name)))


def controller(cluster: Cluster, **options: object) -> Controller:
    policy = options.pop("policy", CETSA(by_price=True))
    return Controller(
        cluster,
        policy,  # type: ignore[arg-type]
        cluster,
        graph_of,
        {"join": 4},
        clock=lambda: cluster.now,
        **options,  # type: ignore[arg-type]
    )


def test_the_first_step_places_and_the_next_rests() -> None:
    cluster = Cluster(DEAR, CHEAP)
    loop = controller(cluster)
    first = loop.step()
    assert (first.action, first.reason) == ("place", "the first plan")
    assert set(cluster.at.values()) == {"cheap"}
    cluster.now = 30
    assert loop.step().reason == "kept: cooldown, 30 s left"
    cluster.now = 61
    assert loop.step().reason == "kept: cetsa's answer is the present plan"
    assert len(cluster.plans) == 1
    assert [one.action for one in loop.decisions] == ["place", "none", "none"]


def test_a_cooldown_without_an_end_is_one() -> None:
    cluster = Cluster(DEAR)
    loop = controller(cluster, cooldown_s=math.inf)
    loop.step()
    cluster.workers, cluster.now = (DEAR, CHEAP), 1e6
    assert loop.step().reason == "kept: cooldown, inf s left"


def test_tasks_that_are_no_more_are_not_paid_for_for_ever() -> None:
    cluster = Cluster(DEAR, CHEAP)
    loop = controller(cluster)
    for cluster.now, count in ((0, 8), (100, 2)):
        assert loop.adopt({"join": count}).action == "place"
    rents = list[float]()
    for cluster.now in range(200, 4200, 100):
        decision = loop.step()
        rents += [decision.cost.rent] if decision.cost else []
    assert (rents[0], rents[-1]) == (1800.0, 600.0)  # they may come again; the cheap one alone
    assert set(loop.plan.placement) == {"join-0", "join-1"}


def test_tasks_of_another_number_have_their_share_of_the_load_at_once() -> None:
    estimate, some = LoadEstimate(), [f"join-{i}" for i in range(2)]
    estimate.resize(graph_of({"join": 2}))
    estimate.observe(Snapshot(0.0, (), usage=dict.fromkeys(some, Resources(2.0, 1))))
    for count in (4, 4, 1, 8, 2):
        graph = graph_of({"join": count})
        estimate.resize(graph)
        loads = estimate.loads(graph)
        assert {loads[name] for name in some[:count]} == {4.0 / count}


def test_a_cheaper_plan_is_taken_only_if_it_is_clearly_cheaper() -> None:
    cluster = Cluster(DEAR)
    loop = controller(cluster, hysteresis=0.1, cooldown_s=10)
    loop.step()
    cluster.workers = (DEAR, dataclasses.replace(CHEAP, price_per_s=1.98))
    cluster.now = 20
    assert loop.step().reason == "kept: cetsa's answer saves 0.34 %, less than 2 %"
    cluster.workers = (DEAR, CHEAP)
    cluster.now = 30
    decision = loop.step()
    assert decision.action == "place"
    assert decision.reason == (
        "cetsa's answer: 604 instead of 1200 $ in 600 s: rent 1200 to 600, moves 4"
    )


@pytest.mark.parametrize("hysteresis", [0.1, 0.0])
def test_a_worker_missed_twice_is_repaired_without_waiting(hysteresis: float) -> None:
    cluster = Cluster(DEAR, CHEAP)
    loop = controller(cluster, hysteresis=hysteresis)
    loop.step()
    cluster.workers = (DEAR,)
    cluster.now = 1
    assert loop.step().action == "none"
    cluster.workers = (DEAR, CHEAP)  # one look may miss it
    assert loop.step().action == "none"
    cluster.workers = (DEAR,)
    assert loop.step().action == "none"
    decision = loop.step()
    assert (decision.action, decision.reason) == ("repair", "gone: cheap")
    assert set(cluster.at.values()) == {"dear"}


def test_a_failed_placement_is_observed_and_not_requested_again_for_a_while() -> None:
    cluster = Cluster(DEAR, CHEAP)
    cluster.refuses = {"cheap"}
    loop = controller(cluster, cooldown_s=10, forget_s=100)
    first = loop.step()
    assert first.receipt.landing_share == 0
    assert len(loop.plan.unplaced) == 4
    assert loop.failed == {(f"join-{i}", "cheap") for i in range(4)}
    cluster.now = 11
    second = loop.step()
    assert (second.action, second.reason) == ("place", "4 more fit")
    assert set(cluster.at.values()) == {"dear"}
    assert "placement on cheap failed" in cluster.plans[-1].assignments[0].reason
    # Forgotten after 100 s, and cheaper: it is tried again.
    cluster.refuses = set()
    cluster.now = 111
    assert loop.step().reason.endswith("rent 1200 to 600, moves 4")


def test_a_change_that_does_not_land_is_repeated_ever_less() -> None:
    cluster = Cluster(DEAR, CHEAP)
    cluster.stubborn = "dear"
    loop = controller(cluster, cooldown_s=10, forget_s=0)
    asked = []
    for _ in range(700):
        if loop.step().action != "none":
            asked.append(cluster.now)
        cluster.now += 1
    waits = [after - before for before, after in itertools.pairwise(asked)]
    assert waits == [20, 40, 80, 160, 320]
    cluster.stubborn = ""
    cluster.now = 1e4
    assert loop.step().action == "place"
    assert set(cluster.at.values()) == {"cheap"}


def test_every_answer_is_requested_without_hysteresis() -> None:
    cluster = Cluster(CHEAP, DEAR)
    policy = Says("cheap")
    loop = controller(cluster, policy=policy, hysteresis=0)
    for cycle, answer in enumerate((["cheap"], ["dear"], ["dear", "cheap"], ["cheap"], ["cheap"])):
        policy.workers, cluster.now = tuple(answer), cycle
        decision = loop.step()
        assert cluster.at == policy.plan(graph_of({"join": 4}), cluster.snapshot()).placement
    assert (decision.action, decision.reason) == ("none", "says's answer is the present plan")
    assert [one.action for one in loop.decisions] == ["place"] * 4 + ["none"]
    cluster.refuses = {"dear"}
    policy.workers = ("dear",)
    for _ in range(3):  # also one that has just failed
        assert loop.step().action == "place"
        assert set(cluster.plans[-1].placement.values()) == {"dear"}
    policy.workers = ("cheap", "dear")
    assert loop.adopt({"join": 6}).action == "place"
    assert [*cluster.plans[-1].placement.values()] == ["cheap", "dear"] * 3
    assert loop.adopt({"join": 3}).action == "place"
    assert [*cluster.plans[-1].placement.values()] == ["cheap", "dear", "cheap"]


def test_what_is_seen_to_land_later_is_taken_note_of() -> None:
    cluster = Cluster(CHEAP, DEAR)
    loop = controller(cluster, cooldown_s=10, forget_s=100)
    loop.observe(Receipt({"join-0": "cheap"}, {}))  # before the first plan: noted
    assert loop.failed == {("join-0", "cheap")}
    assert loop.plan is None
    cluster.now = 101
    loop.step()
    assert loop.failed == frozenset()
    before = loop.plan
    loop.observe(Receipt({"join-0": "cheap"}, {"join-0": "cheap", "join-1": "dear"}))
    assert loop.plan is before  # nothing is missed, and join-1 was not requested
    loop.observe(Receipt(dict.fromkeys(["join-1", "join-2"], "cheap"), {"join-1": "dear"}))
    assert loop.failed == {("join-1", "cheap"), ("join-2", "cheap")}
    assert loop.plan.placement == {"join-0": "cheap", "join-1": "dear", "join-3": "cheap"}
    assert [one.task for one in loop.plan.unplaced] == ["join-2"]
    cluster.now = 112
    assert loop.step().reason == "1 more fit"
    assert cluster.at["join-1"] == cluster.at["join-2"] == "dear"


def test_an_error_of_the_actuator_is_a_decision_and_its_plan_is_not_taken_over() -> None:
    cluster = Cluster(CHEAP)
    loop = controller(cluster, cooldown_s=10)
    for broken in (True, False):
        cluster.broken = broken
        decision = loop.step()
        assert (decision.action == "failed") == broken
    assert "the driver is gone" in loop.decisions[0].reason
    cluster.broken = True
    assert loop.adopt({"join": 2}).action == "failed"
    assert loop.parallelism == {"join": 4}
    # A task without an alternative is requested again where it has failed.
    cluster = Cluster(CHEAP)
    cluster.refuses = {"cheap"}
    loop = controller(cluster, cooldown_s=10)
    loop.step()
    cluster.refuses = set()
    cluster.now = 20
    assert loop.step().action == "place"
    assert set(cluster.at.values()) == {"cheap"}


@pytest.mark.parametrize("by", ["st-stream's moves", "the search", "kept: says's answer"])
def test_a_skewed_load_is_moved_by_a_rebalancer_or_a_search_if_asked_for(by: str) -> None:
    cluster = Cluster(CHEAP, dataclasses.replace(DEAR, price_per_s=1.0))
    cluster.can = frozenset({"place", "move"})
    rebalancer, search = StStream(split=False) if "st-stream" in by else None, by == "the search"
    policy = Says("cheap", "dear")
    loop = controller(cluster, policy=policy, rebalancer=rebalancer, search=search)
    loop.step()
    assert cluster.at["join-0"] == cluster.at["join-2"] == "cheap"
    cluster.usage = {"join-0": Resources(4, 512), "join-2": Resources(3, 512)}
    cluster.now = 61
    decision = loop.step()
    assert decision.reason.startswith(by)
    assert (cluster.at["join-0"] != cluster.at["join-2"]) == (not by.startswith("kept"))
    assert f"search: {'on' if search else 'off'}" in loop.explain()
    if rebalancer:
        assert [(one.task, one.target) for one in decision.plan.moves] == [("join-2", "dear")]
    cluster.now = 122
    assert loop.step().reason.startswith("kept: says's answer ")
    cluster.can = frozenset()
    assert loop.step().reason == "tasks are placed elsewhere"


def test_why_an_answer_is_not_taken_is_said() -> None:
    cluster = Cluster(CHEAP, dataclasses.replace(DEAR, price_per_s=1.0))
    cluster.can = frozenset({"place", "move"})
    cluster.usage = {f"join-{i}": Resources(1.0, 512) for i in range(4)}
    policy = Says("cheap", "cheap", "dear", "dear")
    loop = controller(cluster, policy=policy, cooldown_s=0)
    for cluster.now in range(1, 9):
        loop.step()
    assert loop.decisions[-1].reason == "kept: says's answer is the present plan"
    policy.workers = ("cheap", "cheap", "cheap", "dear")
    assert loop.step().reason == "kept: says's answer saves nothing"
    policy.workers = ("nobody", "cheap", "dear", "dear")
    assert loop.step().reason == "kept: says's answer leaves 1 more out"
    cluster.usage |= {f"join-{i}": Resources(0.92, 512) for i in (2, 3)}
    for _ in range(6):
        loop.step()
    policy.workers = ("dear", "cheap", "dear", "cheap")
    less = r"kept: says's answer saves \d(\.\d)? %, less than hysteresis 10 %"
    assert re.fullmatch(less, loop.step().reason)
    assert [percent(one) for one in (0.0034, 0.1, 1.5)] == ["0.34 %", "10 %", "150 %"]
    text = loop.explain()
    assert text.startswith("policy: says, asked in every cycle, for rent 0, imbalance 1")
    for part in ("search: off", "hysteresis: 10 %", "rebalancer: none", "last decision: none at 8"):
        assert part in text
