"""A simulated operator behind a buffer, as in Storm: what it does not hold is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.papers.scheduling.steering import ElasticSimulation
from scheduling import JobGraph, Worker
from scheduling.scalers import Load, Scaler
from scheduling.simulate import Arrivals


class Buffered(ElasticSimulation):
    """A simulation whose rows wait in a buffer, and which a change keeps still.

    Args:
        graph: as of an :class:`~benchmarks.papers.scheduling.steering.ElasticSimulation`.
        workers: as there.
        arrived: as there.
        buffer: rows that wait at most; ``lost`` counts what came beyond.
        limit: rows of a micro-batch at most, an attribute, too; default no limit.
        options: as there.
    """

    def __init__(
        self, graph: JobGraph, workers: Sequence[Worker], arrived: Arrivals, *,
        buffer: float, limit: float = math.inf, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(graph, workers, arrived, **options)
        self.buffer, self.limit, self.lost, self._still_s = buffer, limit, 0.0, 0.0

    def pause(self, seconds: float) -> None:
        """No micro-batch begins for some seconds."""
        self._still_s = max(self._still_s, self.now + seconds)

    def take(self) -> float:
        """What the buffer holds, up to the limit; nothing while it is kept still."""
        dropped = max(0.0, super().take() - self.buffer)
        self.lost, self.offset = self.lost + dropped, self.offset + dropped
        return 0.0 if self.now < self._still_s else min(super().take(), self.limit)

    def windows(self, seconds: float, count: int, speed: float) -> Iterator[Load]:
        """Let windows pass; what a scaler is told of each. ``speed``: rows a second of a core."""
        worked = 0.0
        for window in range(1, count + 1):
            self.run(window * seconds)
            cores, before = len(self.there()), worked
            worked = sum(one.busy_s for one in self.executors.values())
            busy = min(1.0, (worked - before) / cores / seconds)
            came = self.arrived(self.now) - self.arrived(self.now - seconds)
            waiting = min(self.buffer, max(0.0, self.arrived(self.now) - self.offset))
            yield Load(seconds, came / seconds, speed, busy, waiting, cores)


def wanted(scaler: Scaler, load: Load) -> int:
    """The cores that a scaler wants: whole ones, one at least."""
    return max(1, math.ceil(scaler.cores(load) - 1e-9))
