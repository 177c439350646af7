"""Statistics of a cycle: counted and sampled in every task, added up on the driver.

A :class:`Collector` routes the batches of one task and counts and samples their rows. Its
statistics are sent to the driver as text; the sum over all tasks is that of the cycle.

Two counts are exact: the rows of each partition, which give the skew, and the rows of each cell
(:mod:`bsjoin.partitioning.routing`). The sample shows which codes occur; the cells give their total
weight (stratified sampling: post-stratification by cell). The sampling error at a boundary is
therefore that inside one cell, and not that of n boundaries over the whole cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bsjoin.index import Int32s, Int64s
from bsjoin.partitioning.packing import pack, unpack
from bsjoin.partitioning.reservoir import Reservoir
from bsjoin.partitioning.routing import Router
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.skew import skew


@dataclass(frozen=True, eq=False)
class CycleStatistics:
    """Counts and a sample of one cycle, or of a part of it.

    Args:
        version: of the rule under which the rows were routed.
        partitions: int64[n], rows of each partition: PS_j.
        cells: int64[cells], rows of each cell of the rule; None if several rules were in use.
        sample: codes of the cycle, weighted by the number of rows they represent.
        tasks: the number of tasks that contributed; default 1.
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
        """The sample, weighted so that the weight of every cell equals its count.

        A cell that has rows but no sampled row is represented by its last code.

        Args:
            router: of the rule that the statistics name.

        Returns:
            The sample; with its original weights if several rules were in use.

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

        About one character per partition and cell, and 9 to 10 per distinct code.
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
        """The statistics that :meth:`to_json` has written.

        Raises:
            ValueError: the text is not statistics of a cycle.
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
    """The sum of the statistics of tasks; associative and commutative.

    Args:
        parts: one or more, over the same number of partitions. If the tasks used different rules,
            the counts of cells, which are specific to a rule, are left out of the sum.

    Raises:
        ValueError: there are no parts, or they have different numbers of partitions.

    Complexity: O(m log m) for all their sampled codes together.
    """
    all_ = list(parts)
    counts = {len(part.partitions) for part in all_}
    if len(counts) != 1:
        raise ValueError(
            f"statistics over {sorted(counts)} partitions do not add up; give those of one cycle"
            if counts
            else "there are no statistics to add; a cycle has at least one task"
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
    """Routes the batches of one task, and counts and samples their rows.

    The same rows get the same partitions in any order; the same batches with the same seed also
    the same statistics.

    Args:
        router: of the rule of the cycle.
        capacity: codes to sample, 1 or more: the cycle's sample over the number of tasks.
        seed: of the sample; one or several integers. Give the numbers of the
            cycle and of the task, so that tasks differ.

    Complexity: O(1) per row, about 20 ns in total (docs/decisions/0007-hotspot.md).

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
                :meth:`bsjoin.partitioning.Router.route`.

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
        """The statistics of all rows routed so far."""
        drawn = self._reservoir.codes
        return CycleStatistics(
            self._router.rule.version,
            self._partitions.copy(),
            self._cells.copy(),
            Sample.of(drawn, self._reservoir.rows / max(len(drawn), 1)),
        )
