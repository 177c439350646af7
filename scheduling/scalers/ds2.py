"""DS2: scaling by true rates, in one step.

Assumption: a core that is always busy processes rows at the rate that it has while it is busy.
The number of cores follows from it in one step; Flink's autoscaler adds what catches up with the
backlog, and a band in which nothing changes.

Source: V. Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling
decisions for distributed streaming dataflows", OSDI 2018; Flink's autoscaler. For comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduling.model.checks import number, share
from scheduling.scalers.load import Load
from scheduling.scalers.probe import Probe

__all__ = ["DS2"]

_USUAL_S = 2.0  # what any micro-batch leaves waiting, in seconds of arrival, is no backlog


@dataclass(frozen=True)
class DS2:
    """The number of cores that are busy for a target share of the time.

    It grows with the newest rate and shrinks with the smoothed one. Where the source hides what
    arrives it answers as :class:`~scheduling.scalers.Probe`; a backlog that is unknown is not
    caught up with.

    Args:
        target: the share of the time that a core should be busy, above 0; default 0.7.
        band: the tolerated deviation from the target, as a share of it; default 0.2.
        catch_up_s: seconds in which the backlog is processed, by as many more cores; infinite: the
            backlog is ignored. Default 60.

    Raises:
        ArgumentError: a number is out of its range.

    >>> scaler = DS2(target=0.8)
    >>> [scaler.cores(Load(10, rate, 500, 1.0, 0, cores=4)) for rate in (800, 1600, 3000)]
    [2.0, 4, 7.5]
    """

    target: float = 0.7
    band: float = 0.2
    catch_up_s: float = 60.0
    name: ClassVar[str] = "ds2"

    def __post_init__(self) -> None:
        share("target", self.target, above=True)
        number("band", self.band)
        number("catch_up_s", self.catch_up_s, above=True, endless=True)

    def cores(self, load: Load) -> float:
        """Arrival over true rate over target; see :class:`scheduling.scalers.Scaler`."""
        if load.arrival is None:
            return Probe().cores(load)
        late = max(0.0, (load.waiting or 0.0) - load.arrival * _USUAL_S) / self.catch_up_s
        most, mean = (load.rising + late) / load.per_core, (load.arrival + late) / load.per_core
        if most > self.target * (1 + self.band) * load.cores:
            return most / self.target
        if mean < self.target * (1 - self.band) * load.cores:
            return mean / self.target
        return load.cores
