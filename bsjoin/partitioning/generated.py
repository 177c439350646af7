"""The statistics of a cycle whose rows Spark's generated code has routed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bsjoin.partitioning.cycle import CycleStatistics
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.worker import Note


@dataclass(frozen=True, kw_only=True)
class RoutedRows:
    """The rows that an action has sent to partitions by a rule, as ``RuleCounts.java`` has them.

    Args:
        version: of the rule; default 0.
        tasks: how many tasks there were, up to the last one that had rows.
        cells: the rows in each cell of the rule, a list in JSON.
        partitions: the rows of each partition, likewise.
        sample: of each code in the sample that, how often it was drawn, and for how many rows.
        names: some frequent codes, and their keys as texts.

    Example:
        >>> note = RoutedRows(batch=1, execution=None, label="", tasks=1, cells="[0, 3]",
        ...                   partitions="[3]", sample="[5,2,2,-1,1,1]", names=[]).note()
        >>> note.statistics.sample.codes.tolist(), note.statistics.sample.weights.tolist()
        ([-1, 5], [1.0, 2.0])
    """

    batch: int
    execution: str | None
    label: str
    version: int = 0
    tasks: int
    cells: str
    partitions: str
    sample: str
    names: list[tuple[int, str]]

    def note(self) -> Note:
        """The statistics of the cycle."""
        codes, counts, weights = _numbers(self.sample).reshape(-1, 3).T
        order = np.argsort(codes)
        sample = Sample(codes[order], counts[order], weights[order].astype(np.float64))
        partitions, cells = _numbers(self.partitions), _numbers(self.cells)
        found = CycleStatistics(self.version, partitions, cells, sample, self.tasks)
        return Note(found, dict(self.names))


def _numbers(text: str) -> NDArray[np.int64]:
    return np.array(json.loads(text), np.int64)
