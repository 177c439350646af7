"""Figures of a join: observed by Spark in every micro-batch, read back from its progress."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import LookupPlan

__all__ = ["CycleProgress", "observed", "progress"]

_PREFIX = "bsjoin:"
_NAME = re.compile(rf"{_PREFIX}(\d+):(.*):(\w+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class CycleProgress:
    """What one join did in one micro-batch.

    Args:
        join: the number of the join, counted through the application.
        on: the stream's key columns.
        batch_id: Spark's number of the micro-batch.
        timestamp: when the micro-batch began, as Spark's progress says it (ISO 8601, UTC).
        rows_in: rows of the stream that were looked up.
        rows_out: rows of the join's result.
        hits: rows of the stream whose key is in the table.
        misses: rows whose key is not in the table, or null.
        matches: pairs of a stream's row and a table's row; for semi and anti the hits.
        lookup_ms: milliseconds spent looking up and gathering, all workers added up.
        table_version: the version of the table that the micro-batch used; None without rows.
    """

    join: int
    on: tuple[str, ...]
    batch_id: int
    timestamp: str
    rows_in: int
    rows_out: int
    hits: int
    misses: int
    matches: int
    lookup_ms: float
    table_version: int | None

    @property
    def hit_rate(self) -> float:
        """Hits per row looked up; 0 without rows."""
        return self.hits / self.rows_in if self.rows_in else 0.0


def observed(
    answers: DataFrame, plan: LookupPlan, how: str, answer: Column, note: Column
) -> DataFrame:
    """Let Spark add up the figures of a look-up while its rows pass by."""
    hits = F.count_if(answer) if plan.shape == "exists" else F.count(answer)
    matches = {
        "rows": F.sum(F.array_size(answer)),
        "runs": F.sum(answer.getField("count")),
    }.get(plan.shape, hits)
    return answers.observe(
        f"{_PREFIX}{plan.label}:{how}",
        F.count(F.lit(1)).alias("rows_in"),
        hits.alias("hits"),
        *([] if matches is hits else [matches.alias("matches")]),
        F.sum(note.getField("ns")).alias("lookup_ns"),
        F.max(note.getField("version")).alias("table_version"),
    )


def progress(query: Any) -> list[CycleProgress]:
    """The figures of every join of a streaming query, micro-batch by micro-batch.

    Args:
        query: a ``StreamingQuery``, or one ``StreamingQueryProgress`` (of a listener's event).

    Returns:
        One entry per micro-batch and join, oldest micro-batch first, joins in the order of
        their calls. Spark remembers the last 100 micro-batches of a query
        (``spark.sql.streaming.numRecentProgressUpdates``); to add up more, call this from a
        ``StreamingQueryListener`` with each ``event.progress``.

    Example:
        >>> hits = sum(cycle.hits for cycle in bsjoin.progress(query))  # doctest: +SKIP
    """
    recent: Iterable[Any] = getattr(query, "recentProgress", None) or (
        [query] if hasattr(query, "observedMetrics") else []
    )
    cycles = [
        _cycle(one, name, _figures(metrics))
        for one in recent
        for name, metrics in one.observedMetrics.items()
        if name.startswith(_PREFIX)
    ]
    return sorted(cycles, key=lambda cycle: (cycle.batch_id, cycle.join))


def _figures(metrics: Any) -> dict[str, Any]:
    """The observed row as a dictionary; Connect delivers it as its values and its schema."""
    figures: dict[str, Any] = metrics.asDict()
    if figures.keys() == {"values", "schema"}:
        names = [field["name"] for field in figures["schema"]["fields"]]
        return dict(zip(names, figures["values"], strict=True))
    return figures


def _cycle(one: Any, name: str, figures: dict[str, Any]) -> CycleProgress:
    number, columns, how = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    rows_in, hits = figures["rows_in"] or 0, figures["hits"] or 0
    matches = figures.get("matches", hits) or 0
    misses = rows_in - hits
    rows_out = {"inner": matches, "left": matches + misses, "semi": hits, "anti": misses}[how]
    return CycleProgress(
        join=int(number),
        on=tuple(columns.split(",")),
        batch_id=one.batchId,
        timestamp=one.timestamp,
        rows_in=rows_in,
        rows_out=rows_out,
        hits=hits,
        misses=misses,
        matches=matches,
        lookup_ms=(figures["lookup_ns"] or 0) / 1e6,
        table_version=figures["table_version"],
    )
