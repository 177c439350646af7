"""A running cycle of a loop, as the caller sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from scheduling.decision import Decision
from scheduling.spark import pins
from scheduling.spark.cached import CachesSeen

if TYPE_CHECKING:
    from scheduling.spark.loop import Loop

__all__ = ["CycleContext"]


class CycleContext:
    """A running cycle; created by :meth:`Loop.cycle`.

    Args:
        loop: the loop.
        decision: the controller's decision before the cycle; None if it failed.
        splits: what :attr:`splits` says.
    """

    def __init__(
        self, loop: Loop, decision: Decision | None, splits: Mapping[int, Mapping[int, float]]
    ) -> None:
        self._loop = loop
        self.decision = decision
        self.splits = splits
        """By partition, the share of its load that is to go to each other partition.

        For a caller that can spread a heavy partition (``Loop(splits=True)``); others never see
        any. They hold from this cycle on, and are said once.
        """
        self.count = 0
        """The number of placed partitions; 0 before :meth:`place`."""
        self.caches: CachesSeen | None = None
        """What the caller says of its caches before the cycle ends; None (default) for nothing.

        The bytes that a partition has cached on a host count in the price of a move to another
        host, from the next cycle on.
        """

    @property
    def partitions(self) -> int:
        """The decided number of partitions of the cycle."""
        return self._loop.partitions

    def place(self, df: DataFrame) -> DataFrame:
        """The rows of ``df``, placed by the plan.

        The partitions are the tasks. If their number differs from the decided one, a new plan is
        made for the actual number.
        """
        return self._loop._place(self, df)

    def observed(self) -> dict[str, dict[str, Any]]:
        """The metrics of ``DataFrame.observe`` below the pins, by name, after their use."""
        pinned = self._loop._pins.pinned
        try:
            return {} if pinned is None else pins.observed(pinned)
        except Exception as error:  # the rows have already been processed
            self._loop._log.warn("what was observed below the pins is not known", error)
            return {}
