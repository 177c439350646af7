"""The replaceable parts of a scheduler, as protocols."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from scheduling.model import JobGraph, Move, Plan, Receipt, Snapshot
from scheduling.model.checks import number

Clock = Callable[[], float]  # monotonic, in seconds from any start


@runtime_checkable
class Policy(Protocol):
    """Computes a placement. Pure: the same arguments give the same plan; seeds are the policy's.

    An attribute ``weights`` may say what it is for: rent, imbalance and communication.
    """

    @property
    def name(self) -> str:
        """A short name, as on the command line."""

    def plan(self, graph: JobGraph, snapshot: Snapshot, previous: Plan | None = None) -> Plan:
        """Every task of a ``graph`` on a worker of a ``snapshot``, or listed as unplaced.

        ``previous`` is the current plan; None (default): there is none.

        Raises:
            InfeasibleError: a task fits no worker, not even an empty one.
        """


@runtime_checkable
class Rebalancer(Protocol):
    """Suggests moves that balance the load of running tasks."""

    @property
    def name(self) -> str:
        """A short name."""

    def rebalance(self, graph: JobGraph, snapshot: Snapshot) -> Sequence[Move]:
        """The moves for the placement in a ``snapshot`` of the tasks of a ``graph``, in order."""


@runtime_checkable
class Monitor(Protocol):
    """Observes a cluster; odd and stale figures are left out, or kept, and named in ``ignored``."""

    def snapshot(self) -> Snapshot:
        """The workers, their metrics since the last call, and the placement of the tasks."""


@runtime_checkable
class Actuator(Protocol):
    """Applies plans to a cluster.

    A method ``lands(placement, snapshot)`` may tell where each task would land, as with tiers.
    """

    def capabilities(self) -> frozenset[str]:
        """The supported ones of the following.

        ``"place"``: plans; ``"move"``: moves of running tasks; ``"spread"``: a part of a task may
        go to other tasks of its operator; ``"executors"``: idle workers are released, so they cost
        nothing.
        """

    def apply(self, plan: Plan) -> Receipt:
        """The requested and the observed placement, after applying ``plan``.

        Raises:
            ActuatorError: the plan cannot be applied.
        """


def weights_of(policy: Any) -> tuple[float, float, float]:
    """The weights of rent, imbalance and communication of a policy; without any: for balance."""
    given = getattr(policy, "weights", (0.0, 1.0, 0.0))
    rent, imbalance, communication = (number("a weight", one, " of a policy") for one in given)
    return rent, imbalance, communication
