"""OERA: by the occupancy of a buffer; mended, and as it is printed."""

from dataclasses import dataclass, field

from scheduling.errors import ArgumentError
from scheduling.model.checks import Checked, Positive, Share, SomeShare, rising
from scheduling.scalers.base import Load, Probe


@dataclass(frozen=True)
class OERA(Checked):
    """Grow when the buffer is nearly full or the input exceeds the capacity, shrink to the need.

    Mended: the buffer is what the cores process in the tolerated delay; its occupancy R(n) is
    measured; Eq. 2 has R(n) and the seconds that a change costs; what the input needs, at ``rho``
    busy, is a floor, and all that a shrink leads to. A :class:`Probe` where arrival or backlog is
    hidden. Algorithm 1 as printed adds R(n) up by Eq. 1: on noisy constant load it makes thousands
    of changes a day (``python -m benchmarks run scaling-days``). Source: OERA, section 2.

    Args:
        alpha: grow above this occupancy of the buffer; default 0.8.
        beta: shrink below this occupancy; default 0.2.
        upsilon: the occupancy that Eq. 2 leaves, from ``beta`` to ``alpha``; default 0.7.
        delay_s: the tolerated delay, for the size of the buffer; default 10.
        rho: the share of the time that cores should be busy; default 0.75.
        horizon_s: seconds in which a growth processes what arrives and what waits; default 60.
        downtime_s: seconds of these that a change costs; default 10.
        literal: whether Algorithm 1 is followed as printed: it needs ``buffer``, else
            ``ArgumentError``, and remembers R(n - 1): one object per job. Default False.
        buffer: Bs, the size in rows; None (default): by ``delay_s``.
        per_thread: whether ``buffer`` is the size per core; default False: of all together.

    >>> idle = Load(10, arrival=900, per_core=500, busy=0.4, waiting=0, cores=4)
    >>> OERA().cores(idle), OERA(literal=True, buffer=5000).cores(idle)
    (2.4, 1.1)
    """

    alpha: Share = 0.8
    beta: Share = 0.2
    upsilon: Share = 0.7
    delay_s: Positive = 10.0
    rho: SomeShare = 0.75
    horizon_s: float = 60.0
    downtime_s: float = 10.0
    literal: bool = False
    buffer: Positive | None = None
    per_thread: bool = False
    _before: float = field(default=0.0, init=False, repr=False, compare=False)  # R(n - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        rising(beta=self.beta, upsilon=self.upsilon, alpha=self.alpha)
        if self.downtime_s >= self.horizon_s:
            most = f"less than horizon_s={self.horizon_s!r}"
            raise ArgumentError(f"downtime_s={self.downtime_s!r}: give {most}")
        if self.literal and self.buffer is None:
            raise ArgumentError("literal=True needs buffer=: the rows that the buffer holds")

    @property
    def name(self) -> str:
        """``"oera"``, or ``"oera-literal"``."""
        return "oera-literal" if self.literal else "oera"

    def size(self, load: Load) -> float:
        """Bs, the size of the buffer in rows."""
        if self.buffer is None:
            return load.capacity * self.delay_s
        return self.buffer * load.cores if self.per_thread else self.buffer

    def cores(self, load: Load) -> float:
        """The number of cores for the next window; see :meth:`Scaler.cores`."""
        if load.arrival is None or load.waiting is None:
            return Probe().cores(load)
        size, full = self.size(load), self.rho * load.per_core
        if self.literal:  # Eq. 1 for R(n), Eq. 2 with R(n - 1); at least one core
            before = self._before
            taken = max(0.0, (load.arrival - load.capacity) * load.seconds / size + before)
            object.__setattr__(self, "_before", min(1.0, taken))  # what overflows is lost
            data = load.arrival * load.seconds + size * (before - self.upsilon)
            need = max(1.0, data / (load.per_core * load.seconds))
            return load.cores if self.beta <= taken <= self.alpha else need
        taken = min(1.0, load.waiting / size)
        if taken > self.alpha or load.rising > 0.95 * load.capacity:  # more fills the buffer
            data = load.rising * self.horizon_s + load.waiting - self.upsilon * size
            late = data / (load.per_core * (self.horizon_s - self.downtime_s))
            return max(load.rising / full, late)
        return min(load.arrival / full, load.cores) if taken < self.beta else load.cores
