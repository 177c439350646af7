"""OERA: keeps the occupancy of the input's buffer between two thresholds.

Source: OERA (adaptive elastic allocation for Storm), section 2, Eqs. 1 and 2, Algorithm 1.

As printed: R(n), the occupancy, is added up by Eq. 1 from the input I, the rate P of the
instances and the size Bs of the buffer; above alpha and below beta Eq. 2 gives the number of
instances that leaves a share of upsilon, rounded up, and with R(n - 1) where R(n) is what the next
window begins with. The listing shrinks below what the input needs once the buffer is empty, and
grows again when it is full: thousands of changes in a day of noisy constant load, and rows lost
(``python -m benchmarks run scaling-days``).

Mended: the buffer is what the cores process in the delay that is tolerated; R(n) is measured;
Eq. 2 has R(n), and the seconds that a change costs; what the input needs, at ``rho`` busy, is a
floor, and the only thing that a shrink leads to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.errors import ArgumentError
from scheduling.model.checks import number, set_fields, share
from scheduling.scalers.load import Load
from scheduling.scalers.probe import Probe

__all__ = ["OERA"]


@dataclass(frozen=True)
class OERA:
    """Grow when the buffer is nearly full or the input exceeds the capacity, shrink to the need.

    Where the source hides what arrives or what waits it answers as
    :class:`~scheduling.scalers.Probe`.

    Args:
        alpha: grow above this occupancy of the buffer; default 0.8.
        beta: shrink below this occupancy; default 0.2.
        upsilon: the occupancy that Eq. 2 leaves; default 0.7.
        delay_s: the delay that is tolerated: what the cores process in it is the size of the
            buffer; default 10.
        rho: the share of the time that cores should be busy; default 0.75.
        horizon_s: seconds in which a growth processes what arrives and what waits; default 60.
        downtime_s: seconds of these that a change costs; default 10.
        literal: whether Algorithm 1 is followed as printed; it then remembers R(n - 1), so use
            one object per job, and has neither ``rho`` nor the seconds above. Default False.
        buffer: the size Bs of the buffer in rows; ``literal`` needs it. None (default): by
            ``delay_s``.
        per_thread: whether ``buffer`` is the size per core; default False: of all together.

    Raises:
        ArgumentError: not 0 <= beta <= upsilon <= alpha <= 1, ``literal`` without ``buffer``, or
            another number is out of its range.

    >>> busy = Load(10, arrival=1900, per_core=500, busy=1.0, waiting=18_000, cores=4)
    >>> round(OERA().cores(busy), 2)  # 0.75 busy; the backlog alone would need 4.72
    5.07
    >>> idle = Load(10, arrival=900, per_core=500, busy=0.4, waiting=0, cores=4)
    >>> OERA().cores(idle), OERA(literal=True, buffer=5000).cores(idle)
    (2.4, 1.1)
    """

    alpha: float = 0.8
    beta: float = 0.2
    upsilon: float = 0.7
    delay_s: float = 10.0
    rho: float = 0.75
    horizon_s: float = 60.0
    downtime_s: float = 10.0
    literal: bool = False
    buffer: float | None = None
    per_thread: bool = False
    _before: float = field(default=0.0, init=False, repr=False, compare=False)  # R(n - 1)

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= self.upsilon <= self.alpha <= 1:
            raise ArgumentError(
                f"beta={self.beta!r}, upsilon={self.upsilon!r}, alpha={self.alpha!r}: give shares "
                "of the buffer, 0 <= beta <= upsilon <= alpha <= 1"
            )
        share("rho", self.rho, above=True)
        number("delay_s", self.delay_s, above=True)
        if not number("downtime_s", self.downtime_s) < number("horizon_s", self.horizon_s):
            raise ArgumentError(
                f"downtime_s={self.downtime_s!r}: give less than horizon_s={self.horizon_s!r}"
            )
        if self.buffer is not None:
            number("buffer", self.buffer, above=True)
        elif self.literal:
            raise ArgumentError(
                "literal=True needs buffer=: the rows that the input's buffer holds"
            )

    @property
    def name(self) -> str:
        """``"oera"``, or ``"oera-literal"``."""
        return "oera-literal" if self.literal else "oera"

    def size(self, load: Load) -> float:
        """Bs, the size of the buffer in rows."""
        if self.buffer is None:
            return load.capacity * self.delay_s
        return self.buffer * load.cores if self.per_thread else self.buffer

    def occupancy(self, load: Load) -> float:
        """R(n) as measured: the share of the buffer that waits, at most 1; 0 if unknown."""
        return min(1.0, (load.waiting or 0.0) / self.size(load))

    def cores(self, load: Load) -> float:
        """The number of cores for the next window; see :class:`scheduling.scalers.Scaler`."""
        if load.arrival is None or load.waiting is None:
            return Probe().cores(load)
        if self.literal:
            return self._as_printed(load, load.arrival)
        taken = self.occupancy(load)
        if taken > self.alpha or load.rising > 0.95 * load.capacity:
            data = load.rising * self.horizon_s + load.waiting - self.upsilon * self.size(load)
            need = load.rising / (self.rho * load.per_core)
            return max(need, data / (load.per_core * (self.horizon_s - self.downtime_s)))
        need = load.arrival / (self.rho * load.per_core)
        return need if taken < self.beta and need < load.cores else load.cores

    def _as_printed(self, load: Load, arrival: float) -> float:
        """Algorithm 1: Eq. 1 for R(n), Eq. 2 with R(n - 1); at least one core."""
        size, before = self.size(load), self._before
        taken = max(0.0, (arrival - load.capacity) * load.seconds / size + before)
        set_fields(self, _before=min(1.0, taken))  # what overflows is lost
        if self.beta <= taken <= self.alpha:
            return load.cores
        data = arrival * load.seconds + size * (before - self.upsilon)
        return max(1.0, data / (load.per_core * load.seconds))
