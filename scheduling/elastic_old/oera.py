"""OERA: keeps the occupancy of an operator's input buffer between two thresholds.

Assumptions: an instance processes one tuple at a time, 1/latency tuples per second, and the next
window has the same input as this one.

Source: OERA (adaptive elastic allocation for Storm), section 2, Eqs. 1 and 2, Algorithm 1.
Interpretation: the occupancy R is limited to [0, 1], tuples above 1 are lost; Eq. 2 is rounded up;
the parallelism is computed with R(n), the backlog of the next window, where the listing has
R(n - 1). The listing shrinks below the need of the input when the buffer is empty, and grows again
when it is full, so it oscillates on constant input; :class:`LiteralOERA` is the listing. In
:class:`OERA` the parallelism is never below the need, and changes only with the input or on
overload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from scheduling.errors import ArgumentError
from scheduling.model import Window

__all__ = ["OERA", "LiteralOERA", "needed"]

_ROUNDING = 1e-9


@dataclass
class _State:
    """The state of an operator."""

    windows: int = 0  # since the last change; counts from the first window
    rate: float = -1.0  # tuples a second when it was changed; negative: never


@dataclass(frozen=True)
class OERA:
    """Change the parallelism of an operator when its buffer is nearly full or nearly empty.

    Stateful: it stores the time and the rate of each operator's last change. Use one object per
    job.

    Args:
        alpha: grow above this occupancy of the buffer; default 0.8.
        beta: shrink below this occupancy; default 0.2.
        upsilon: the maximum occupancy after the next window for a new parallelism; default 0.7.
        buffer: the capacity of the buffer in tuples (Bs); default 1024.
        per_thread: whether ``buffer`` is the capacity per instance; default False: of all
            instances together.
        downtime_s: the processing time that a change costs in seconds; a growth compensates for
            it in the next window. Default 0; 120 s in the paper, whose windows are 600 s.
        cooldown: the minimum number of windows between changes, unless tuples are lost; default
            1.
        settle: the relative change of the input that is required for a shrink after a change;
            default 0.05.

    Raises:
        ArgumentError: the thresholds are not 0 <= beta <= upsilon <= alpha <= 1, or another
            number is out of its range.

    Complexity: O(1) a window.

    Example:
        >>> OERA(buffer=100).parallelism("map", Window(10, 190, 100, 0.5, 2, buffered=90))
        11
    """

    alpha: float = 0.8
    beta: float = 0.2
    upsilon: float = 0.7
    buffer: float = 1024.0
    per_thread: bool = False
    downtime_s: float = 0.0
    cooldown: int = 1
    settle: float = 0.05
    name: ClassVar[str] = "oera"
    _states: dict[str, _State] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= self.upsilon <= self.alpha <= 1:
            raise ArgumentError(
                f"beta={self.beta!r}, upsilon={self.upsilon!r}, alpha={self.alpha!r}: give shares "
                "of the buffer, 0 <= beta <= upsilon <= alpha <= 1"
            )
        if not self.buffer > 0:
            raise ArgumentError(f"buffer={self.buffer!r}: give tuples, more than 0")
        for name in ("downtime_s", "cooldown", "settle"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name}={getattr(self, name)!r}: give at least 0")

    def capacity(self, instances: int) -> float:
        """Bs, the capacity of the buffer in tuples for ``instances`` instances."""
        return self.buffer * instances if self.per_thread else self.buffer

    def occupancy(self, window: Window) -> float:
        """R(n), the occupancy of the buffer at the end of ``window`` (Eq. 1), in [0, 1].

        >>> OERA(buffer=100).occupancy(Window(10, 60, 0, 0.5, 2, buffered=30))
        0.5
        """
        size = self.capacity(window.parallelism)
        served = window.parallelism / window.latency_s * window.length_s
        return min(1.0, max(0.0, (window.tuples_in - served + window.buffered) / size))

    def predicted(self, window: Window, instances: int) -> float:
        """R(n + 1) for the same input as in ``window`` and ``instances`` instances."""
        changed = instances != window.parallelism
        seconds = window.length_s - (self.downtime_s if changed else 0.0)
        size = self.capacity(instances)
        left = self.occupancy(window) * self.capacity(window.parallelism)
        left += window.tuples_in - instances / window.latency_s * max(seconds, 0.0)
        return min(1.0, max(0.0, left / size))

    def parallelism(self, operator: str, window: Window) -> int:
        """The parallelism of the next window; see :class:`scheduling.Scaler`."""
        taken = self.occupancy(window)
        now = window.parallelism
        state = self._states.setdefault(operator, _State())
        state.windows += 1
        if self.beta <= taken <= self.alpha:
            return now
        wanted = needed(self, window)
        rate = window.tuples_in / window.length_s
        if taken > self.alpha:
            lossy = window.lost > 0 or taken >= 1
            wait = state.rate >= 0 and state.windows <= self.cooldown and not lossy
            if wanted <= now or wait:
                return now
        else:
            settled = state.rate >= 0 and abs(rate - state.rate) <= self.settle * state.rate
            early = state.rate >= 0 and state.windows <= self.cooldown
            costly = self.predicted(window, wanted) > self.upsilon + _ROUNDING
            if wanted >= now or settled or early or costly:
                return now
        state.windows, state.rate = 0, rate
        return wanted


@dataclass(frozen=True)
class LiteralOERA:
    """Algorithm 1 as printed: R(n - 1) in the size, shrinking below the input's need, no cooldown.

    Args:
        alpha: grow above this occupancy of the buffer; default 0.8.
        beta: shrink below this occupancy; default 0.2.
        upsilon: the occupancy that the size of Eq. 2 is computed for; default 0.7.
        buffer: the capacity of the buffer in tuples (Bs); default 1024.
        per_thread: whether ``buffer`` is the capacity per instance; default False: of all
            instances together.

    Raises:
        ArgumentError: the thresholds are not 0 <= beta <= upsilon <= alpha <= 1, or the buffer is
            not above zero.

    Complexity: O(1) a window.

    Example:
        >>> LiteralOERA(buffer=10_000).parallelism("map", Window(600, 180_600, 0, 0.01, 4))
        3
    """

    alpha: float = 0.8
    beta: float = 0.2
    upsilon: float = 0.7
    buffer: float = 1024.0
    per_thread: bool = False
    name: ClassVar[str] = "oera-literal"
    _sizes: OERA = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = OERA(self.alpha, self.beta, self.upsilon, self.buffer, self.per_thread)
        object.__setattr__(self, "_sizes", sizes)

    def parallelism(self, operator: str, window: Window) -> int:
        """The parallelism of the next window; see :class:`scheduling.Scaler`."""
        if self.beta <= self._sizes.occupancy(window) <= self.alpha:
            return window.parallelism
        size = self._sizes.capacity(window.parallelism)
        before = min(1.0, window.buffered / size)  # R(n - 1): what waited when the window began
        data = window.tuples_in + size * (before - self.upsilon)
        return max(1, math.ceil(data * window.latency_s / window.length_s - _ROUNDING))


def needed(oera: OERA, window: Window) -> int:
    """N of Eq. 2: the least parallelism with an occupancy of at most upsilon.

    Args:
        oera: the thresholds and sizes.
        window: the input and the backlog.

    Returns:
        1 or more, enough to process the input.

    >>> needed(OERA(buffer=100), Window(10, 190, 0, 0.5, 2, buffered=0))
    11
    """
    rate = 1 / window.latency_s
    size = oera.capacity(window.parallelism)
    least = math.ceil(window.tuples_in / (rate * window.length_s) - _ROUNDING)
    waiting = oera.occupancy(window) * size
    seconds = window.length_s - oera.downtime_s
    growing = least > window.parallelism or oera.occupancy(window) > oera.alpha
    if seconds <= 0 or not growing:
        # A shrink is tried at what the input needs; parallelism() looks at what it would leave.
        seconds = window.length_s
    # The target counts the buffer there will be: per instance it grows with their number.
    target = oera.upsilon * oera.buffer
    if oera.per_thread:
        wanted = (window.tuples_in + waiting) / (rate * seconds + target)
    else:
        wanted = (window.tuples_in + waiting - target) / (rate * seconds)
    return max(1, least, math.ceil(wanted - _ROUNDING))
