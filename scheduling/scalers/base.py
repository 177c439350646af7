"""The load of a job, what answers it, and the answers without a model of the load."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from scheduling.errors import ArgumentError
from scheduling.model.checks import Checked, Positive, Share, SomeShare, rising


@dataclass(frozen=True)
class Load(Checked):
    """The load of a job in a window; what is not known is None, never 0.

    A core is what one task has: with ``spark.task.cpus=2`` two of its executor.

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
