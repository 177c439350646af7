"""DS2: true rates, one step.

Assumes that an instance that works all the time processes its tuples so fast as it did while it
worked: its true rate is tuples over busy seconds, waiting left out. From that one step leads to
the number of instances that the input needs.

Source: DS2 and Flink's autoscaler, as a comparison.
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
    """As many instances as keep each busy for a target share of the time.

    Args:
        target: the share of the time that an instance should work, above 0 and at most 1.
        band: how far from the target its work may be, as a share, before the number is changed.
        catch_up_s: time in which the backlog should be gone; without bound it is not looked at.

    Raises:
        ArgumentError: a number is out of its range.

    Complexity: O(1) a window.

    >>> DS2(target=1.0).parallelism("map", Window(10, 1000, 500, 0.02, 1, busy_s=10))
    2
    """

    target: float = 0.8
    band: float = 0.2
    catch_up_s: float = math.inf
    name: ClassVar[str] = "ds2"

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ArgumentError(f"target={self.target!r}: give a share, above 0 and at most 1")
        if not self.band >= 0:
            raise ArgumentError(f"band={self.band!r}: give a share, at least 0")
        if not self.catch_up_s > 0:
            raise ArgumentError(f"catch_up_s={self.catch_up_s!r}: give seconds, more than 0")

    def parallelism(self, operator: str, window: Window) -> int:
        """How many instances the input needs, or the number there is if that is near enough."""
        worked = window.busy_s > 0 and window.tuples_done > 0
        true_rate = window.tuples_done / window.busy_s if worked else 1 / window.latency_s
        rate = window.tuples_in / window.length_s + window.buffered / self.catch_up_s
        work = rate / true_rate  # instances that would be busy all the time
        share = work / window.parallelism
        if share <= 1 and abs(share - self.target) <= self.band * self.target:
            return window.parallelism
        return max(1, math.ceil(work / self.target - 1e-9))
