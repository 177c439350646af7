"""Whether anything has changed since a search for a better placement that found none."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduling.model import Snapshot
from scheduling.objective import PlacementCost
from scheduling.replanning import Situation

__all__ = ["Rest"]

_CHANGED = 0.5  # share of the margin that a cost or the load of a worker must differ by,
_MOST = 0.05  # and not more than this share of it
_QUIETER = 0.9  # of the noise at that search


class Rest:
    """The last search that found nothing; a step at rest does not repeat it. O(tasks)."""

    def __init__(self) -> None:
        self._margin = self._noise = 0.0
        self._running = 0.0
        self._can: Collection[str] = ()
        self._present: Mapping[str, str] | None = None
        self._snapshot: Snapshot | None = None
        self._forbidden: Collection[tuple[str, str]] = ()
        self._loads: dict[str, float] = {}

    def begin(
        self, now: Situation, cost: PlacementCost, margin: float, can: Collection[str]
    ) -> None:
        """A search has found nothing that gains ``margin``, a share of the cost.

        Args:
            now: the situation.
            cost: of the present placement.
            margin: what a change must gain.
            can: the actions that were possible.
        """
        self._margin, self._running, self._can = margin, cost.running, can
        self._noise, self._snapshot = now.noise, now.snapshot
        self._present, self._forbidden = dict(now.present), now.forbidden
        self._loads = _worker_loads(now)

    def holds(
        self, now: Situation, cost: PlacementCost, margin: float, can: Collection[str]
    ) -> bool:
        """Whether the same search would find nothing again.

        Costs and loads of workers may differ by half of the margin, at most 5 %, counted from that
        search and not from the last step, so a slow drift does not stay unseen. The noise of the
        loads must not have become less, since a search overlooks what is below it.
        """
        before = self._snapshot
        if before is None or cost.unplaced or margin < self._margin or can != self._can:
            return False
        if self._present != now.present or self._forbidden != now.forbidden:
            return False
        if before.workers != now.snapshot.workers or now.noise < _QUIETER * self._noise:
            return False
        within = min(_CHANGED * margin, _MOST)
        if abs(cost.running - self._running) > within * self._running:
            return False
        loads = _worker_loads(now)
        mean = sum(loads.values()) / max(1, len(loads))
        return all(abs(load - self._loads[name]) <= within * mean for name, load in loads.items())


def _worker_loads(now: Situation) -> dict[str, float]:
    found = dict.fromkeys(now.snapshot.by_id, 0.0)
    for task in now.graph.tasks:
        worker = now.present.get(task.id)
        if worker in found:
            found[worker] += now.loads[task.id]
    return found
