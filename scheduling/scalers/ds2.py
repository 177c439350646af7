"""DS2: as many cores as are busy for a target share of the time."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from scheduling.model.checks import Checked, SomeShare, number
from scheduling.scalers.base import Load, Probe

_USUAL_S = 2.0  # what any micro-batch leaves waiting, in seconds of arrival, is no backlog


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
