"""A simulated operator behind a buffer, as in Storm: what it does not hold is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.papers.scheduling.steering import ElasticSimulation
from scheduling import JobGraph, Worker
from scheduling.simulate import Arrivals

__all__ = ["Buffered"]


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
