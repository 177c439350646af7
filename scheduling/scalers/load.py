"""What scalers see of a job, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scheduling.model.checks import number, set_fields, share

__all__ = ["Load", "Scaler"]


@dataclass(frozen=True)
class Load:
    """The load of a job in a window; what is not known is None, never 0.

    Args:
        seconds: the length of the window.
        arrival: rows per second that arrived, smoothed; None: the source hides it.
        per_core: rows that a core processes per second while it is busy (DS2's true rate).
        busy: the share of the observed cores' time in which they were busy, in [0, 1].
        waiting: rows that wait at the end; None: the source hides it.
        cores: the cores that are there: observed, not requested.
        newest: rows per second of the newest micro-batches alone, which show a rise before the
            smoothed rate does; None (default): not known apart.

    Raises:
        ArgumentError: a number is out of its range.

    >>> Load(10, arrival=900.0, per_core=500.0, busy=0.6, waiting=0.0, cores=3, newest=950).rising
    950.0
    """

    seconds: float
    arrival: float | None
    per_core: float
    busy: float
    waiting: float | None
    cores: float
    newest: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "per_core", "cores"):
            set_fields(self, **{name: number(name, getattr(self, name), above=True)})
        for name in ("arrival", "waiting", "newest"):
            if getattr(self, name) is not None:
                set_fields(self, **{name: float(number(name, getattr(self, name)))})
        set_fields(self, busy=share("busy", self.busy))

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
        """The number of cores that a job needs; ``load.cores`` where nothing is to change.

        Args:
            load: of the last window.

        Returns:
            At least 0; fractions are rounded up by the caller, as tasks and executors allow.
        """
