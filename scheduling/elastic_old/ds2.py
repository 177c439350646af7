"""DS2: scaling by true rates, in one step.

Assumption: an instance that is always busy processes tuples at the rate that it had while it was
busy. This true rate is the number of tuples divided by the busy seconds, without waiting. The
required parallelism follows from it in one step. The capacity to catch up with the backlog is
added to it, as Flink's autoscaler does.

Source: V. Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling
decisions for distributed streaming dataflows", OSDI 2018; also Flink's autoscaler. For comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["DS2"]


@dataclass(frozen=True)
class DS2:
    """The parallelism that keeps each instance busy for a target share of the time.

    Args:
        target: the share of the time that an instance should be busy, above 0 and at most 1;
            default 0.8.
        band: the tolerated deviation from the target, as a share; default 0.2.
        catch_up_s: time in seconds in which the backlog is processed, by as many more instances.
            Infinite: the backlog is ignored. Default 1800, as in Flink's autoscaler.

    Raises:
        ArgumentError: a number is out of its range.

    Complexity: O(1) a window.

    >>> DS2(target=1.0).parallelism("map", Window(10, 1000, 500, 0.02, 1, busy_s=10))
    2
    """

    target: float = 0.8
    band: float = 0.2
    catch_up_s: float = 1800.0
    name: ClassVar[str] = "ds2"

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ArgumentError(f"target={self.target!r}: give a share, above 0 and at most 1")
        if not self.band >= 0:
            raise ArgumentError(f"band={self.band!r}: give a share, at least 0")
        if not self.catch_up_s > 0:
            raise ArgumentError(f"catch_up_s={self.catch_up_s!r}: give seconds, more than 0")

    def parallelism(self, operator: str, window: Window) -> int:
        """The required parallelism, or the current one if it is within the band.

        See :class:`scheduling.Scaler`.
        """
        worked = window.busy_s > 0 and window.tuples_done > 0
        true_rate = window.tuples_done / window.busy_s if worked else 1 / window.latency_s
        rate = window.tuples_in / window.length_s + window.buffered / self.catch_up_s
        work = rate / true_rate  # instances that would be busy all the time
        share = work / window.parallelism
        if share <= 1 and abs(share - self.target) <= self.band * self.target:
            return window.parallelism
        return max(1, math.ceil(work / self.target - 1e-9))
