"""Metrics of joins that a worker answers key by key: kept until Spark fetches them as a line.

One line per Arrow batch costs less than a sum that Spark observes row by row.
"""

from __future__ import annotations

import pyarrow as pa
from cachetools import LRUCache

from bsjoin.metrics.join_metrics import JoinMetrics
from bsjoin.metrics.lines import to_line

partition: int | None = None
"""The partition of the running task; None if it is unknown."""

_kept: LRUCache[str, JoinMetrics] = LRUCache(maxsize=64)  # those of batch queries stay here


def begin(task: int | None) -> None:
    """Set the partition whose task begins in this process."""
    global partition
    partition = task


def of(label: str) -> JoinMetrics:
    """Return the counts of a join since they were fetched, to count on."""
    return _kept.setdefault(label, JoinMetrics())


def fetch(label: str, rows: int) -> pa.Array:
    """Return and clear the metrics of a join: texts, of which only the first may be not null."""
    if not rows:
        return pa.nulls(0, pa.string())
    kept = _kept.pop(label, None)
    first = pa.array([None if kept is None else to_line([kept])], pa.string())
    return pa.concat_arrays([first, pa.nulls(rows - 1, pa.string())])
