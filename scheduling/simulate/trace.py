"""What a simulation recorded, step by step, and the figures that are read from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trace"]

Float64s = NDArray[np.float64]


@dataclass
class Trace:
    """A row a step; lists while it is written, arrays on demand.

    ``done``, ``offered`` and ``lost`` are counted in records of the job, from the start. ``cpu``
    and ``memory`` have a share a host, ``buffers`` the occupied share and ``parallelism`` the
    number of instances by operator. ``still_s`` has the part of the step in which the job stood
    still for a deployment, a change, a restart, or a host that is gone.
    """

    hosts: tuple[str, ...]
    operators: tuple[str, ...]
    time_s: list[float] = field(default_factory=list)
    offered: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    backlog: list[float] = field(default_factory=list)
    network_bytes: list[float] = field(default_factory=list)
    delay_s: list[float] = field(default_factory=list)
    still_s: list[float] = field(default_factory=list)
    cpu: list[Float64s] = field(default_factory=list)
    memory: list[Float64s] = field(default_factory=list)
    buffers: list[Float64s] = field(default_factory=list)
    parallelism: list[Float64s] = field(default_factory=list)

    def rows(self, name: str) -> Float64s:
        """One of the fields as an array, a row a step.

        Complexity: O(steps).
        """
        return np.asarray(getattr(self, name), dtype=np.float64)

    def progress(self) -> Float64s:
        """Records done so far; a restart, which takes ``done`` back, does not take this back."""
        found: Float64s = np.maximum.accumulate(self.rows("done"))
        return found

    def time_of(self, records: float) -> float:
        """When that many records were done, in seconds; nan if they never were."""
        done = self.progress()
        at = int(np.searchsorted(done, records * (1 - 1e-9)))
        if at == len(done):
            return float("nan")
        before = done[at - 1] if at else 0.0
        start = self.time_s[at - 1] if at else 0.0
        part = (records - before) / max(done[at] - before, 1e-12)
        return float(start + part * (self.time_s[at] - start))

    def throughput(self, over_s: float = 10.0) -> Float64s:
        """Records a second at each step, over the seconds before it."""
        time_s, done = self.rows("time_s"), self.progress()
        earlier = np.maximum(time_s - over_s, 0.0)
        span = np.maximum(time_s - earlier, 1e-9)
        before = np.interp(earlier, np.r_[0.0, time_s], np.r_[0.0, done])
        rates: Float64s = (done - before) / span
        return rates

    def late_share(self, limit_s: float) -> float:
        """The share of the done records whose delay was over a limit: the SLA violation rate."""
        done = np.diff(self.progress(), prepend=0.0)
        late = self.rows("delay_s") > limit_s
        return float(done[late].sum() / max(done.sum(), 1e-12))

    def between(self, start_s: float, end_s: float) -> slice:
        """The steps in a span of time."""
        time_s = self.rows("time_s")
        return slice(int(np.searchsorted(time_s, start_s)), int(np.searchsorted(time_s, end_s)))
