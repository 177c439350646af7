"""What a cycle was like: counted and sampled in every task, added up on the driver.

A :class:`Collector` routes the batches of one task, and counts and samples them on the way. Its
statistics travel as a text, and those of all tasks add up to the cycle's.

Two things are counted exactly: the rows of each partition, which make the skew, and the rows of
each cell (:mod:`bsjoin.hotspot.routing`). The sample says which codes there are; the cells say
how much they weigh together. So the error of a sample of s codes at a boundary is that inside one
cell, and not that of n boundaries over the whole cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.hotspot.packing import pack, unpack
from bsjoin.hotspot.reservoir import Reservoir
from bsjoin.hotspot.routing import Router
from bsjoin.hotspot.sample import Sample
from bsjoin.hotspot.skew import skew

__all__ = ["Collector", "CycleStatistics", "added"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CycleStatistics:
    """Counts and a sample of one cycle, or of a part of it.

    Args:
        version: of the rule under which the rows were routed.
        partitions: int64[n], rows of each partition: PS_j.
        cells: int64[cells], rows of each cell of the rule; None where several rules were in use.
        sample: codes of the cycle, weighing as many rows of it as they stand for.
        tasks: how many tasks this comes from.
    """

    version: int
    partitions: Int64s
    cells: Int64s | None
    sample: Sample
    tasks: int = 1

    @property
    def rows(self) -> int:
        """Rows that were routed."""
        return int(self.partitions.sum())

    @property
    def skew(self) -> float:
        """DS of the cycle (Formula 3)."""
        return skew(self.partitions)

    def calibrated(self, router: Router) -> Sample:
        """The sample, weighed so that every cell weighs what was counted in it.

        A cell with rows of which none is in the sample is represented by its last code.

        Args:
            router: of the rule that the statistics name.

        Returns:
            The sample as it is, where several rules were in use.

        Complexity: O(m + cells).
        """
        if self.cells is None:
            return self.sample
        codes, counts, weights = self.sample.codes, self.sample.counts, self.sample.weights
        at = router.locate(codes)
        seen = np.bincount(at, weights=weights, minlength=router.cells)
        unseen = np.flatnonzero((seen == 0) & (self.cells > 0))
        counted = self.cells / np.where(seen == 0, 1.0, seen)
        codes = np.concatenate([codes, router.lasts[unseen]])
        counts = np.concatenate([counts, np.zeros(len(unseen), np.int64)])
        weights = np.concatenate([weights * counted[at], self.cells[unseen]])
        order = np.argsort(codes)
        return Sample(codes[order], counts[order], weights[order])

    def to_json(self) -> str:
        """The statistics as a JSON object.

        About a character for each partition and cell, and 9 to 10 for each distinct code.
        """
        return json.dumps(
            {
                "v": self.version,
                "p": pack(self.partitions),
                "c": None if self.cells is None else pack(self.cells),
                "s": self.sample.to_list(),
                "t": self.tasks,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> CycleStatistics:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: the text is none of that kind.
        """
        try:
            read: dict[str, Any] = json.loads(text)
            return cls(
                int(read["v"]),
                unpack(read["p"]),
                None if read["c"] is None else unpack(read["c"]),
                Sample.from_list(read["s"]),
                int(read["t"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            shown = text if len(text) < 60 else text[:57] + "..."
            raise ValueError(
                f"{shown!r} is not the statistics of a cycle: {type(error).__name__} {error}"
            ) from error


def added(parts: Iterable[CycleStatistics]) -> CycleStatistics:
    """The statistics of tasks as those of their cycle, in any order and grouping.

    Args:
        parts: one or more, over the same number of partitions. A task that had another rule than
            the others counts with its partitions and its sample; the counts of cells, which mean
            something else under each rule, are left out then.

    Raises:
        ValueError: there are none, or they are over different numbers of partitions.

    Complexity: O(m log m) for all their sampled codes together.
    """
    all_ = list(parts)
    counts = {len(part.partitions) for part in all_}
    if len(counts) != 1:
        raise ValueError(
            f"statistics over {sorted(counts)} partitions do not add up; give those of one cycle"
            if counts
            else "statistics of no task at all; a cycle has one task or more"
        )
    if len(all_) == 1:
        return all_[0]
    cells: Int64s | None = None
    if len({part.version for part in all_}) == 1:
        known = [part.cells for part in all_ if part.cells is not None]
        if len(known) == len(all_):
            cells = np.sum(known, axis=0, dtype=np.int64)
    return CycleStatistics(
        max(part.version for part in all_),
        np.sum([part.partitions for part in all_], axis=0, dtype=np.int64),
        cells,
        Sample.together([part.sample for part in all_]),
        sum(part.tasks for part in all_),
    )


class Collector:
    """Routes the batches of one task; counts and samples them.

    The same rows get the same partitions in any order; the same batches with the same seed also
    the same statistics.

    Args:
        router: of the rule of the cycle.
        capacity: codes to sample, 1 or more: the cycle's sample over the number of tasks.
        seed: of the sample; one or several integers. Give the numbers of the
            cycle and of the task, so that tasks differ.

    Complexity: a row costs O(1), about 20 ns together (docs/decisions/0007-hotspot.md).

    Example:
        >>> collector = Collector(Router(Rule.even(2)), 100, seed=(7, 0))
        >>> collector.route(np.array([-5, 5, -5]), contents=np.array([1, 2, 3])).tolist()
        [0, 1, 0]
        >>> collector.statistics().partitions.tolist()
        [2, 1]
    """

    def __init__(self, router: Router, capacity: int, seed: int | Sequence[int] = 0):
        self._router = router
        self._reservoir = Reservoir(capacity, seed)
        self._partitions = np.zeros(router.rule.partitions, np.int64)
        self._cells = np.zeros(router.cells, np.int64)

    def route(self, codes: Int64s, contents: Int64s) -> Int32s:
        """The partition of each row of a batch.

        Args:
            codes: int64[m].
            contents: int64[m], hashes of the whole rows; see
                :meth:`bsjoin.hotspot.Router.route`.

        Returns:
            int32[m], 0 to n - 1.
        """
        cells = self._router.locate(codes)
        partitions = self._router.assign(cells, contents)
        self._cells += np.bincount(cells, minlength=len(self._cells))
        self._partitions += np.bincount(partitions, minlength=len(self._partitions))
        self._reservoir.add(codes)
        return partitions

    def statistics(self) -> CycleStatistics:
        """What was routed so far."""
        drawn = self._reservoir.codes
        return CycleStatistics(
            self._router.rule.version,
            self._partitions.copy(),
            self._cells.copy(),
            Sample.of(drawn, self._reservoir.rows / max(len(drawn), 1)),
        )
