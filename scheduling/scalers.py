"""Scalers: how many cores a job needs, from what was measured of it. Pure, without a clock.

When an answer is acted on is decided by :class:`scheduling.elastic.Elastic`.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, Protocol, runtime_checkable

from scheduling.errors import ArgumentError
from scheduling.model.checks import Checked, Positive, Share, SomeShare, number, rising

_USUAL_S = 2.0  # what any micro-batch leaves waiting, in seconds of arrival, is no backlog
_AT_CAPACITY = 0.95  # of what the cores process: more input than this lets the buffer fill


@dataclass(frozen=True)
class Load(Checked):
    """The load of a job in a window; what is not known is None, never 0.

    Args:
        seconds: the length of the window.
        arrival: rows per second that arrived, smoothed; None: the source hides it.
        per_core: rows that a core processes per second while it is busy (DS2's true rate).
        busy: the share of the observed cores' time in which they were busy.
        waiting: rows that wait at the end; None: the source hides it.
        cores: the cores that are there: observed, not requested.
        newest: as ``arrival``, of the newest micro-batches alone; None (default): not known.

    >>> Load(10, arrival=900.0, per_core=500.0, busy=0.6, waiting=0.0, cores=3, newest=950).rising
    950
    """

    seconds: Positive
    arrival: float | None
    per_core: Positive
    busy: Share
    waiting: float | None
    cores: Positive
    newest: float | None = None

    @property
    def rising(self) -> float:
        """The larger of the smoothed and the newest rate; 0 where both are unknown."""
        return max(self.arrival or 0.0, self.newest or 0.0)

    @property
    def capacity(self) -> float:
        """Rows per second that the observed cores process when all are busy."""
        return self.per_core * self.cores


@runtime_checkable
class Scaler(Protocol):
    """Chooses a number of cores. Without a clock; it may remember its own answers."""

    @property
    def name(self) -> str:
        """A short name."""

    def cores(self, load: Load) -> float:
        """The cores needed by the last ``load``, also fractions; ``load.cores``: no change."""


@dataclass(frozen=True)
class Static(Checked):
    """Keep the cores that there are, or want a given number; as Storm, a baseline of OERA.

    Args:
        count: the number of cores, above 0; None (default): as many as there are.

    >>> [one.cores(Load(10, 9e9, 500, 1.0, 1e9, 4)) for one in (Static(), Static(6))]
    [4, 6]
    """

    count: Positive | None = None
    name: ClassVar[str] = "static"

    def cores(self, load: Load) -> float:
        """The constant number; see :meth:`Scaler.cores`."""
        return load.cores if self.count is None else self.count


@dataclass(frozen=True)
class Probe(Checked):
    """Grow by a factor while the cores are busy, shrink to a target use while they are not.

    OERA and DS2 answer so where :attr:`Load.arrival` is None, until a micro-batch is smaller than
    its limit: it shows what arrives.

    Args:
        growth: the factor, above 1, else ``ArgumentError``; default 1.5.
        high: grow above this use; default 0.9.
        low: shrink below this use; default 0.5.
        target: the use that a shrink leads to, from ``low`` to ``high``; default 0.7.

    >>> [Probe().cores(Load(10, None, 500, busy, None, 4)) for busy in (0.35, 0.7, 1.0)]
    [2.0, 4, 6.0]
    """

    growth: float = 1.5
    high: Share = 0.9
    low: Share = 0.5
    target: SomeShare = 0.7
    name: ClassVar[str] = "probe"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.growth <= 1:
            raise ArgumentError(f"growth={self.growth!r}: give a factor, above 1")
        rising(low=self.low, target=self.target, high=self.high)

    def cores(self, load: Load) -> float:
        """The number of cores to try next; see :meth:`Scaler.cores`."""
        if load.busy > self.high:
            return load.cores * self.growth
        return load.cores * load.busy / self.target if load.busy < self.low else load.cores


@dataclass(frozen=True)
class DS2(Checked):
    """The number of cores that are busy for a target share of the time.

    It assumes that a core is as fast while it is always busy as while it is busy. It grows with the
    newest rate, shrinks with the smoothed one, and is a :class:`Probe` where arrival is hidden.
    Source: V. Kalavri et al., "Three steps is all you need", OSDI 2018; Flink's autoscaler.

    Args:
        target: the share of the time that a core should be busy, above 0; default 0.7.
        band: the tolerated deviation from the target, as a share of it; default 0.2.
        catch_up_s: seconds in which more cores process a backlog; infinite: never. Default 60.

    >>> scaler = DS2(target=0.8)
    >>> [scaler.cores(Load(10, rate, 500, 1.0, 0, cores=4)) for rate in (800, 1600, 3000)]
    [2.0, 4, 7.5]
    """

    target: SomeShare = 0.7
    band: float = 0.2
    catch_up_s: Annotated[float, partial(number, above=True, endless=True)] = 60.0
    name: ClassVar[str] = "ds2"

    def cores(self, load: Load) -> float:
        """Arrival over true rate over target; see :meth:`Scaler.cores`."""
        if load.arrival is None:
            return Probe().cores(load)
        late = max(0.0, (load.waiting or 0.0) - load.arrival * _USUAL_S) / self.catch_up_s
        most, mean = (load.rising + late) / load.per_core, (load.arrival + late) / load.per_core
        if most > self.target * (1 + self.band) * load.cores:
            return most / self.target
        if mean < self.target * (1 - self.band) * load.cores:
            return mean / self.target
        return load.cores


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
            given = f"downtime_s={self.downtime_s!r}, horizon_s={self.horizon_s!r}"
            raise ArgumentError(f"{given}: give less for the first")
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
        if taken > self.alpha or load.rising > _AT_CAPACITY * load.capacity:
            data = load.rising * self.horizon_s + load.waiting - self.upsilon * size
            late = data / (load.per_core * (self.horizon_s - self.downtime_s))
            return max(load.rising / full, late)
        return min(load.arrival / full, load.cores) if taken < self.beta else load.cores
