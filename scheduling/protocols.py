"""The replaceable parts of a scheduler, as protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from scheduling.model import JobGraph, Move, Plan, Receipt, Snapshot, Window

__all__ = ["Actuator", "Clock", "Monitor", "Policy", "Rebalancer", "Scaler"]

Clock = Callable[[], float]
"""A monotonic clock in seconds, from any start: ``time.monotonic``, or a simulator's."""


@runtime_checkable
class Policy(Protocol):
    """Computes a placement. Pure: it changes nothing.

    The same graph, snapshot and previous plan give the same plan; what is random comes from a
    seed of the policy.
    """

    @property
    def name(self) -> str:
        """A short name, as on the command line."""

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks of a graph on the workers of a snapshot.

        Args:
            graph: the tasks to place.
            snapshot: the workers and their state.
            previous: the current plan, for incremental policies; None (default) without.

        Returns:
            A plan in which every task is placed once, or listed as unplaced.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """


@runtime_checkable
class Scaler(Protocol):
    """Chooses the parallelism of operators. It may be stateful."""

    @property
    def name(self) -> str:
        """A short name."""

    def parallelism(self, operator: str, window: Window) -> int:
        """The parallelism of an operator after a window.

        Args:
            operator: the name of the operator.
            window: its metrics in the last window.

        Returns:
            1 or more.
        """


@runtime_checkable
class Rebalancer(Protocol):
    """Suggests moves that balance the load of running tasks."""

    @property
    def name(self) -> str:
        """A short name."""

    def rebalance(self, graph: JobGraph, snapshot: Snapshot) -> Sequence[Move]:
        """The moves for the placement in a snapshot, in their order; none if the load is balanced.

        Args:
            graph: the running tasks.
            snapshot: the workers, the placement and the usage.
        """


@runtime_checkable
class Monitor(Protocol):
    """Observes a cluster."""

    def snapshot(self) -> Snapshot:
        """The workers, their metrics since the last call, and the placement of the tasks."""

    def windows(self) -> Mapping[str, Window]:
        """The metrics of each operator since the last call."""


@runtime_checkable
class Actuator(Protocol):
    """Applies plans to a cluster."""

    def capabilities(self) -> frozenset[str]:
        """The supported ones of the following.

        ``"place"``: plans; ``"move"``: moves of running tasks; ``"split"``: a part of a task may
        become a task of its own; ``"spread"``: a part of a task may go to other tasks of its
        operator; ``"resize"``: other numbers of tasks; ``"tiers"``: kinds of worker;
        ``"executors"``: idle workers are released, so they cost nothing.
        """

    def apply(self, plan: Plan) -> Receipt:
        """The requested and the observed placement, after applying ``plan``.

        Raises:
            ActuatorError: the plan cannot be applied.
        """
