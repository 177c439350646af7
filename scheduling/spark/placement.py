"""The options of live placement, and what came of a cycle."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from scheduling.cost import Price
from scheduling.errors import ArgumentError
from scheduling.history import Decision
from scheduling.model import Receipt
from scheduling.model.checks import Checked, SomeShare, every, instance, is_number, share
from scheduling.objective import Objective
from scheduling.protocols import Policy, Rebalancer
from scheduling.spark.tiers import Tier


def bounds(name: str, value: Any, of: str = "") -> tuple[int, int]:
    """The rule that a value is the minimum and the maximum of a number."""
    pair = tuple(value) if isinstance(value, Sequence) else ()
    known = len(pair) == 2 and all(is_number(one) and one == int(one) for one in pair)
    if not known or not 1 <= pair[0] <= pair[1]:
        raise ArgumentError(f"{name}={value!r}{of}: give (fewest, most), 1 <= fewest <= most")
    return int(pair[0]), int(pair[1])


_Policy = Annotated[Policy, instance(Policy, "a policy, as scheduling.LBACE()")]
_Rebalancer = Annotated[Rebalancer, instance(Rebalancer, "a rebalancer, as scheduling.StStream()")]
_Bounds = Annotated[tuple[int, int], bounds]
_Told = Annotated[Callable[[], float], instance(Callable, "a function that returns a number")]
_Prices = Annotated[Sequence[Price] | str | os.PathLike[str], lambda name, value, of="": value]


@dataclass(frozen=True, kw_only=True)
class Placement(Checked):
    """Options for the placement of a job's tasks in every cycle.

    Args:
        policy: places the tasks on the executors, and is asked in every cycle. None (default):
            Spark places the tasks; a scaler may still choose the number of partitions.
        prices: prices and sizes of executors, by patterns of the host or ``host/id``: rows, or a
            YAML file with ``prices:`` as in a cluster file. Default none: all cost the same.
        rebalancer: suggests moves, as St-Stream does; those that pay are made. Default None.
        objective: what a placement costs. Default ``Objective()``, under the policy's weights.
        search: whether a local search may improve on the policy's answer; default False.
        partitions: the minimum and the maximum number of partitions for the scaler. None
            (default): 1, and the number of the executors' slots.
        executors: the minimum and the maximum number of executors. A scaler chooses their number,
            and partitions follow their cores; without one, those that are idle for three cycles
            are released, and one is requested for tasks without room. None (default): no change.
        tiers: kinds of worker to choose from, instead of single executors; default none.
        locality_wait_s: seconds for which a task waits for its executor; default 120.
        cooldown_s: seconds between two changes; default 30. Lost workers are replaced immediately.
        hysteresis: how much less the policy's answer must cost than the present placement, as a
            share; default 0.1. 0: every answer is followed (:class:`scheduling.Controller`).
        delta: the share of an executor, or a tier, that tasks may use (Eq. 17 of CETSA); default
            0.8.
        probe: whether to measure the executors' processes by a small job every few seconds;
            default True. If False, utilisation is computed from Spark's task metrics.
        backlog: returns the rows that wait at the source, where its progress hides them (files
            with a limit for a micro-batch). None (default): they are unknown.
        dry_run: whether only to plan, log and observe, without changes; default False.

    Raises:
        ArgumentError: a value is out of its range.

    Example:
        >>> from scheduling import LBACE, Price
        >>> Placement(policy=LBACE(), prices=[Price("*", 0.0048)], executors=(2, 8)).cooldown_s
        30.0
    """

    policy: _Policy | None = None
    prices: _Prices = ()  # see price_table
    rebalancer: _Rebalancer | None = None
    objective: Objective = field(default_factory=Objective)
    search: bool = False
    partitions: _Bounds | None = None
    executors: _Bounds | None = None
    tiers: Sequence[Tier] = ()
    locality_wait_s: float = 120.0
    cooldown_s: float = 30.0
    hysteresis: Annotated[float, partial(share, below=True)] = 0.1
    delta: SomeShare = 0.8
    probe: bool = True
    backlog: _Told | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tiers and self.executors:
            raise ArgumentError(
                "tiers= and executors= exclude each other: tiers need dynamic allocation, which "
                "changes the number of executors by itself"
            )

    def check(self, scaler: object) -> None:
        """Refuse an option that has no effect without another, or without a ``scaler``.

        Raises:
            ArgumentError: says which, and what to give.
        """
        for needed, given, names in (
            ("a policy", [self.policy], ("rebalancer", "search", "tiers")),
            ("a policy or a scaler", [self.policy, scaler], ("executors",)),
            ("a scaler", [scaler], ("partitions", "backlog")),
            ("a hysteresis above 0", [self.hysteresis or None], ("search",)),
        ):
            for name in names:
                if getattr(self, name) and given.count(None) == len(given):
                    told = f"{name}={getattr(self, name)!r} has no effect without {needed}"
                    raise ArgumentError(f"{told}: give one, or leave it out")

    def price_table(self) -> tuple[Price, ...]:
        """The rows of the price table, read from the file if there is one.

        Raises:
            ClusterFileError: the file cannot be used.
        """
        if isinstance(self.prices, str | os.PathLike):
            from scheduling.cluster_file import read_prices

            return read_prices(os.fspath(self.prices))
        return every(Price)("prices", self.prices)


@dataclass(frozen=True)
class PlacementResult:
    """The requested and the observed placement of one cycle.

    Args:
        decision: the controller's decision before the cycle; None if it failed.
        partitions: the number of tasks of the cycle.
        requested: the requested worker of each task; Spark placed the tasks that are missing here.
        landed: the actual worker of each task; empty if Spark's metrics were not available.
        workers: the number of tasks that ran on each worker.
        unplaced: the tasks for which no worker had room, with the reason; Spark placed them.
        idle: the workers without a task, and whether they are released or kept, and why.
        splits: as :attr:`CycleContext.splits`.
        dropped: by partition, the share of its load that should run on other executors and does
            not: the caller cannot spread it, or no other partition runs there.
        ignored: by worker or task, the metrics that were not believed, and why.
        scaling: what the scaler's step said; empty (default) without a scaler.
        rent: what the workers that ran tasks cost over the objective's horizon, in $, whatever the
            policy is for; None (default) if it is not known where tasks ran.
    """

    decision: Decision | None
    partitions: int
    requested: Mapping[str, str]
    landed: Mapping[str, str]
    workers: Mapping[str, int]
    unplaced: Mapping[str, str] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    dropped: Mapping[int, float] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    scaling: str = ""
    rent: float | None = None

    @property
    def share(self) -> float:
        """The share of all tasks, with or without room, that ran as planned; 1 without a plan."""
        return Receipt(self.requested, self.landed, tuple(self.unplaced)).landing_share

    @property
    def reason(self) -> str:
        """Why the tasks run where they do, and what the scaler said."""
        decided = "see the log of scheduling" if self.decision is None else self.decision.reason
        return f"{decided}; {self.scaling}" if self.scaling else decided

    @property
    def summary(self) -> str:
        """One line: what was decided, how much of it happened, what is left over."""
        decided = f"{self.decision.action}: {self.reason}" if self.decision else "no decision"
        told = f"{self.partitions} tasks, {100 * self.share:.0f} % where planned, "
        told += f"{len(self.unplaced)} without room, "
        told += f"{len(self.splits)} partitions split, " if self.splits else ""
        told += f"{len(self.dropped)} splits dropped, " if self.dropped else ""
        told += f"{len(self.ignored)} metrics ignored, " if self.ignored else ""
        return f"{told}{len(self.idle)} workers idle; {decided}"
