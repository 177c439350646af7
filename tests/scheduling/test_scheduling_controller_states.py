"""The controller as a state machine: answers that are lost, executors that come late and go."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scheduling_samples import Asked, tasks

from scheduling import (
    CETSA,
    Controller,
    Decision,
    JobGraph,
    Plan,
    Receipt,
    Resources,
    RoundRobin,
    Snapshot,
    StStream,
    Worker,
    errors,
)

WORKERS = tuple(Worker(f"w{i}", Resources(8, 8192), 4, price_per_s=1.0 + i) for i in range(4))
NAMES = st.sampled_from([worker.id for worker in WORKERS])


class ControllerMachine(RuleBasedStateMachine):
    """A cluster that loses answers, executors and plans, and a controller on it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.there = {"w0", "w1", "w2"}
        self.unseen: set[str] = set()  # for one look
        self.lost: set[str] = set()  # executors whose answers are lost
        self.broken = False
        self.usage: dict[str, Resources] = {}

    @initialize(
        hysteresis=st.sampled_from([0.0, 0.1]), search=st.booleans(), balanced=st.booleans()
    )
    def begin(self, hysteresis: float, search: bool, balanced: bool) -> None:
        self.hysteresis = hysteresis
        self.policy = Asked(RoundRobin() if balanced else CETSA(by_price=True))
        self.controller = Controller(
            self,
            self.policy,
            self,
            lambda counts: JobGraph(tasks(counts["join"], "join")),
            {"join": 6},
            clock=lambda: self.now,
            rebalancer=StStream() if balanced else None,
            search=search,
            hysteresis=hysteresis,
            cooldown_s=20.0,
        )

    # Monitor and actuator

    def snapshot(self) -> Snapshot:
        seen = self.there - self.unseen
        workers = tuple(worker for worker in WORKERS if worker.id in seen)
        return Snapshot(self.now, workers, usage=dict(self.usage))

    def capabilities(self) -> frozenset[str]:
        return frozenset({"place", "move"})

    def apply(self, plan: Plan) -> Receipt:
        if self.broken:
            raise errors.ActuatorError("no answer")
        return Receipt(plan.placement, self.landed(plan.placement))

    def landed(self, placement: Mapping[str, str]) -> dict[str, str]:
        return {t: w for t, w in placement.items() if w in self.there - self.lost}

    # What happens

    @rule(name=NAMES)
    def an_executor_comes_or_goes(self, name: str) -> None:
        if self.there != {name}:
            self.there ^= {name}

    @rule(name=NAMES)
    def a_look_misses_an_executor(self, name: str) -> None:
        self.unseen = {name}

    @rule(name=NAMES)
    def answers_of_an_executor_are_lost_or_come_again(self, name: str) -> None:
        self.lost ^= {name}

    @rule()
    def the_actuator_breaks_or_is_mended(self) -> None:
        self.broken = not self.broken

    @rule(cores=st.lists(st.floats(0, 3), min_size=6, max_size=6))
    def the_load_changes(self, cores: list[float]) -> None:
        self.usage = {f"join-{i}": Resources(one, 512) for i, one in enumerate(cores)}

    @rule(count=st.integers(1, 8))
    def the_number_of_tasks_changes(self, count: int) -> None:
        decision = self.controller.adopt({"join": count})
        if decision.action != "failed":
            assert self.controller.parallelism == {"join": count}

    @rule()
    def where_tasks_run_is_seen_late(self) -> None:
        plan = self.controller.plan
        if plan is not None:
            self.controller.observe(Receipt(plan.placement, self.landed(plan.placement)))

    @rule(seconds=st.sampled_from([1.0, 10.0, 60.0, 700.0]))
    def a_cycle(self, seconds: float) -> None:
        before = self.controller.plan
        decision = self.controller.step()
        self.unseen = set()
        self.check(decision, before)
        self.now += seconds

    def check(self, decision: Decision, before: Plan | None) -> None:
        if decision.plan is None:
            assert decision.action == "none"
            assert self.controller.plan is before
            return
        assert decision.reason
        listed = [*decision.plan.placement, *(one.task for one in decision.plan.unplaced)]
        assert sorted(listed) == sorted(f"join-{i}" for i in range(len(listed)))
        if self.hysteresis and before is not None and decision.action != "failed":
            # A change does not bring more tasks to a worker than it has slots.
            for name, there in decision.plan.by_worker.items():
                came = [task for task in there if before.placement.get(task) != name]
                assert not came or len(there) <= 4

    @invariant()
    def every_task_is_placed_or_named(self) -> None:
        plan = self.controller.plan if hasattr(self, "controller") else None
        if plan is not None:
            count = self.controller.parallelism["join"]
            listed = [*plan.placement, *(one.task for one in plan.unplaced)]
            assert sorted(listed) == sorted({f"join-{i}" for i in range(count)})
            assert self.controller.explain()

    def teardown(self) -> None:
        """When all is mended, tasks run on workers that are there, after a few cycles.

        No more are left out than the policy itself has no room for, by the loads that it is told.
        """
        if not hasattr(self, "controller"):
            return
        self.broken, self.lost, self.unseen = False, set(), set()
        self.there |= {"w0", "w1"}
        self.usage = {}
        for _ in range(20):
            self.controller.step()
            self.now += 700.0
        plan = self.controller.plan
        assert len(plan.unplaced) <= len(self.policy.answers[-1].unplaced)
        assert set(plan.by_worker) <= self.there
        self.now += 700.0
        assert self.controller.step().action == "none"


ControllerMachine.TestCase.settings = settings(
    max_examples=4, stateful_step_count=25, deadline=None
)
TestController = ControllerMachine.TestCase
