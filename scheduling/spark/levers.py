"""The levers on a live job: each is an actuator and reports what the session supports.

A lever that the session does not support warns once, with the reason, and leaves the job
unchanged. The result of the job is then still correct, but Spark places its tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ActuatorError
from scheduling.model import Plan, Receipt, Snapshot
from scheduling.protocols import Actuator
from scheduling.spark import pins
from scheduling.spark.once import WarnOnce
from scheduling.spark.pins import Executor, Pinned

__all__ = ["DryRun", "Partitions", "Pins", "together"]

_log = logging.getLogger("scheduling")


class Pins:
    """Pins partitions to executors: task ``i`` of the operator is partition ``i``.

    Args:
        spark: the session.
        operator: the operator whose tasks are pinned.
        locality_wait_s: how long a task waits for its executor before it runs elsewhere; default
            120 s, with which all tasks ran on their executor in trials (3 s: four in five). A task
            whose executor is gone does not wait.
    """

    def __init__(
        self,
        spark: SparkSession,
        operator: str,
        locality_wait_s: float = 120.0,
    ) -> None:
        self._spark, self._operator, self._wait_s = spark, operator, locality_wait_s
        self._placement: Mapping[str, str] | None = None
        self._stack = ExitStack()
        self._warn_once = WarnOnce()
        self.pinned: Pinned | None = None
        """The last pinned DataFrame, until its cycle ends; else None."""

    def capabilities(self) -> frozenset[str]:
        """``"place"`` and ``"move"`` (between cycles); nothing with a single executor."""
        reason = pins.why_not(self._spark) or pins.only_executor(self._spark)
        return frozenset() if reason else frozenset({"place", "move"})

    def apply(self, plan: Plan) -> Receipt:
        """Adopt a plan for the next cycle; see :class:`scheduling.Actuator`."""
        self._placement = plan.placement
        left = tuple(one.task for one in plan.unplaced)
        return Receipt(plan.placement, plan.placement, left)

    def prepare(self, df: DataFrame, snapshot: Snapshot) -> DataFrame:
        """The rows of ``df``, with partitions pinned by the plan and the workers in ``snapshot``.

        Spark places tasks that the plan omits. With a single executor nothing is requested, but
        where tasks ran is still observed.
        """
        if (reason := pins.why_not(self._spark)) is not None:
            return self._left(df, reason)
        count = pins.partitions(df)
        if (reason := pins.only_executor(self._spark)) is not None and self._placement is not None:
            self._left(df, reason)
            self._placement = {}
        try:
            self.pinned = pins.pin(df, self._executors(count, snapshot))
        except ActuatorError as error:
            return self._left(df, str(error))
        try:
            self._stack.enter_context(pins.waiting(self._spark, self.pinned, self._wait_s))
        except ActuatorError as error:
            self._warn_once.warn(f"tasks wait for executors as spark.locality.wait says: {error}")
        return self.pinned.df

    def _left(self, df: DataFrame, reason: str) -> DataFrame:
        """The unchanged rows; warns once with the reason."""
        self._warn_once.warn(f"the job is placed by Spark: {reason}")
        return df

    @contextmanager
    def cycle(self) -> Iterator[None]:
        """One cycle: the settings of its stages are restored when it ends."""
        self.pinned = None
        try:
            yield
        finally:
            self._stack.close()

    def _executors(self, count: int, snapshot: Snapshot) -> list[Executor | None]:
        placement, found = self._placement or {}, list[Executor | None]()
        for i in range(count):
            worker = snapshot.by_id.get(placement.get(f"{self._operator}-{i}", ""))
            there = worker is not None and worker.executor_id is not None
            found.append(Executor(worker.host, worker.executor_id) if there else None)  # type: ignore[union-attr, arg-type]
        return found


class Partitions:
    """Changes the number of partitions of rows by round robin.

    For rows that do not have the planned number yet. It does not merge partitions by key.

    Args:
        operator: the operator whose tasks the partitions are.
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._count: int | None = None

    def capabilities(self) -> frozenset[str]:
        """``"resize"``, in any session."""
        return frozenset({"resize"})

    def apply(self, plan: Plan) -> Receipt:
        """Adopt the number of tasks of a plan; see :class:`scheduling.Actuator`."""
        listed = [one.task for one in plan.assignments] + [one.task for one in plan.unplaced]
        self._count = sum(task.rpartition("-")[0] == self._operator for task in listed)
        return Receipt({}, {})

    def prepare(self, df: DataFrame) -> DataFrame:
        """The rows of ``df`` in as many partitions as the plan has tasks."""
        if not self._count or pins.partitions(df) == self._count:
            return df
        return df.repartition(self._count)


class DryRun:
    """Applies nothing: plans are logged and stored in ``plans``."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def capabilities(self) -> frozenset[str]:
        """All actions, since none is executed."""
        return frozenset({"place", "move", "resize", "tiers"})

    def apply(self, plan: Plan) -> Receipt:
        """Log a plan; see :class:`scheduling.Actuator`."""
        self.plans.append(plan)
        for worker, tasks in plan.by_worker.items():
            _log.info("dry run, %s: %s would have %s", plan.policy, worker, ", ".join(tasks))
        for one in plan.unplaced:
            _log.info("dry run, %s: %s unplaced, %s", plan.policy, one.task, one.reason)
        return Receipt({}, {})


def together(levers: Sequence[Actuator], plan: Plan) -> Receipt:
    """Let several levers adopt a plan; their receipts are merged."""
    requested: dict[str, str] = {}
    landed: dict[str, str] = {}
    unplaced: dict[str, None] = {}
    for lever in levers:
        receipt = lever.apply(plan)
        requested |= receipt.requested
        landed |= receipt.landed
        unplaced |= dict.fromkeys(receipt.unplaced)
    return Receipt(requested, landed, tuple(unplaced))
