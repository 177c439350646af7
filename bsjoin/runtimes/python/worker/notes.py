"""Metrics that a worker reports for a join: collected per batch, fetched by Spark as text.

Spark sends the texts to the driver, which parses and sums them (``bsjoin.metrics.progress``). One
text per Arrow batch costs less than one observed sum.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

__all__ = ["add", "begin", "fetch", "partition"]

partition: int | None = None
"""The partition of the running task; None if it is unknown."""

_notes: dict[str, list[dict[str, Any]]] = {}
_MOST = 1000  # kept at most: a batch query fetches none of them


def begin(task: int | None) -> None:
    """Set the partition whose task begins in this process."""
    global partition
    partition = task


def add(label: str, figures: dict[str, Any]) -> None:
    """Store metrics of a join until they are fetched."""
    kept = _notes.setdefault(label, [])
    if len(kept) < _MOST:
        kept.append(figures)


def fetch(label: str, rows: int) -> pa.Array:
    """Return and clear the stored metrics, as JSON objects separated by commas.

    Returns:
        An array of ``rows`` texts, of which only the first may be not null.
    """
    kept = _notes.pop(label, [])
    text = ",".join(json.dumps(figures, separators=(",", ":")) for figures in kept)
    first = pa.array([text or None], pa.string())
    return pa.concat_arrays([first, pa.nulls(rows - 1, pa.string())]) if rows else first[:0]
