"""How a live job is to be placed: one frozen option object."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduling.errors import ArgumentError
from scheduling.prices import Price
from scheduling.protocols import Policy, Rebalancer
from scheduling.spark.tiers import Tier

__all__ = ["Placement"]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the tasks of a job run, cycle by cycle.

    Args:
        policy: places the tasks on the executors. Before anything was measured every policy that
            needs history places in turns. None: Spark places, and a scaler may still choose the
            number of partitions.
        prices: what executors cost and hold: rows, or a YAML file with ``prices:`` as in a
            cluster file. Patterns match the executor's host, or ``host/id``. Without any each
            costs the same.
        rebalancer: moves tasks between cycles, as St-Stream does; None for none.
        partitions: the fewest and the most partitions that a scaler may choose; by default 1,
            and as many as the executors have slots.
        executors: the fewest and the most executors: what the policy leaves idle for three cycles
            is given back, and one more is asked for when tasks have no room. None: as they are.
        tiers: kinds of worker to choose from by resource profile, instead of single executors.
        locality_wait_s: how long a task waits for its executor before Spark runs it elsewhere.
        cooldown_s: seconds after a change without another one; workers that are gone are
            replaced at once.
        hysteresis: how much cheaper, as a share, another plan must be to be taken.
        delta: the share of an executor that may be taken (Eq. 17 of CETSA).
        probe: whether executors' processes are looked at, by a small job before a cycle, a few
            seconds apart. Without it utilisation comes from Spark's figures of tasks.
        backlog: gives the tuples that wait at the source, for the scaler; None: none wait.
        dry_run: plan, log and look where tasks run, and change nothing.

    Raises:
        ArgumentError: a value is out of its range.
    """

    policy: Policy | None = None
    prices: Sequence[Price] | str | os.PathLike[str] = ()
    rebalancer: Rebalancer | None = None
    partitions: tuple[int, int] | None = None
    executors: tuple[int, int] | None = None
    tiers: Sequence[Tier] = ()
    locality_wait_s: float = 120.0
    cooldown_s: float = 30.0
    hysteresis: float = 0.1
    delta: float = 0.8
    probe: bool = True
    backlog: Callable[[], float] | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name, kind, example in (
            ("policy", Policy, "a policy of scheduling, as scheduling.LBACE()"),
            ("rebalancer", Rebalancer, "a rebalancer of scheduling, as scheduling.StStream()"),
        ):
            given = getattr(self, name)
            # A class has the methods of its objects, too.
            if given is not None and (isinstance(given, type) or not isinstance(given, kind)):
                raise ArgumentError(f"{name}={given!r}: give {example}")
        if not (self.backlog is None or callable(self.backlog)):
            raise ArgumentError(f"backlog={self.backlog!r}: give a function that gives a number")
        for name in ("partitions", "executors"):
            bounds = getattr(self, name)
            if bounds is not None and not _are_bounds(bounds):
                raise ArgumentError(f"{name}={bounds!r}: give (fewest, most), 1 <= fewest <= most")
        for name in ("locality_wait_s", "cooldown_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ArgumentError(f"{name}={seconds!r}: give seconds, at least 0")
        if not 0 <= self.hysteresis < 1:
            raise ArgumentError(f"hysteresis={self.hysteresis!r}: give a share, 0 to below 1")
        if not 0 < self.delta <= 1:
            raise ArgumentError(f"delta={self.delta!r}: give a share, above 0 and at most 1")
        if self.tiers and self.executors:
            raise ArgumentError(
                "tiers= and executors= exclude each other: tiers need dynamic allocation, which "
                "changes the number of executors by itself"
            )

    @staticmethod
    def of(placement: Policy | Placement | None) -> Placement:
        """A policy alone stands for a placement with everything else by default."""
        if isinstance(placement, Placement):
            return placement
        return Placement(policy=placement)

    def price_table(self) -> tuple[Price, ...]:
        """The rows of the price table, read from the file if there is one.

        Raises:
            ClusterFileError: the file cannot be used.
        """
        if isinstance(self.prices, str | os.PathLike):
            from scheduling.cluster_file import read_prices

            return read_prices(os.fspath(self.prices))
        return tuple(self.prices)


def _are_bounds(value: object) -> bool:
    if not (isinstance(value, Sequence) and len(value) == 2):
        return False
    least, most = value
    return isinstance(least, int) and isinstance(most, int) and 1 <= least <= most
