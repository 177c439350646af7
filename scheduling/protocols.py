"""The parts of a scheduler that can be exchanged, as protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from scheduling.model import JobGraph, Move, Plan, Receipt, Snapshot, Window

__all__ = ["Actuator", "Clock", "Monitor", "Policy", "Rebalancer", "Scaler"]

Clock = Callable[[], float]
"""Seconds, from any start; never runs backwards. ``time.monotonic`` is one, a simulator's too."""


@runtime_checkable
class Policy(Protocol):
    """Decides where tasks go. It only suggests: it reads its arguments and changes nothing.

    The same graph, snapshot and previous plan give the same plan; what is random comes from a
    seed of the policy.
    """

    @property
    def name(self) -> str:
        """A short name, as the command line has it."""

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Place the tasks of a graph on the workers of a snapshot.

        Args:
            graph: what is to be placed, all of it.
            snapshot: the workers and what is known of them.
            previous: the plan that runs now, for policies that keep what is good.

        Returns:
            A plan in which every task is placed once, or unplaced for want of room now.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """


@runtime_checkable
class Scaler(Protocol):
    """Decides how many instances an operator has. It may keep a history of its own windows."""

    @property
    def name(self) -> str:
        """A short name."""

    def parallelism(self, operator: str, window: Window) -> int:
        """How many instances the operator should have after this window: 1 or more."""


@runtime_checkable
class Rebalancer(Protocol):
    """Suggests moves that even out the load of running tasks, in the order to make them."""

    @property
    def name(self) -> str:
        """A short name."""

    def rebalance(self, graph: JobGraph, snapshot: Snapshot) -> Sequence[Move]:
        """Moves for the placement of the snapshot; none where the load is even."""


@runtime_checkable
class Monitor(Protocol):
    """Says what a cluster looks like now."""

    def snapshot(self) -> Snapshot:
        """The workers, what they did since the last call, and where the tasks run."""

    def windows(self) -> Mapping[str, Window]:
        """By operator, what it did since the last call."""


@runtime_checkable
class Actuator(Protocol):
    """Puts plans into effect."""

    def capabilities(self) -> frozenset[str]:
        """What it can do, of ``"place"``, ``"move"``, ``"split"``, ``"resize"``, ``"tiers"``."""

    def apply(self, plan: Plan) -> Receipt:
        """Put a plan into effect; say what was asked and what was seen to land."""
