"""Figures of a join: observed by Spark in every micro-batch, read back from its progress."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import LookupPlan, RangePlan, SourcePlan, SourceRangePlan

__all__ = [
    "CacheProgress",
    "CycleProgress",
    "observed",
    "observed_range",
    "observed_rows",
    "progress",
]

_PREFIX = "bsjoin:"
_INPUT = "bsjoin-input:"
_CHANCE = 3  # a key seen so often in the samples may be there by chance
_NAME = re.compile(rf"{_PREFIX}(\d+):(.*):(\w+):(\w+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class CacheProgress:
    """What an incremental cache did in one micro-batch, all workers together.

    Args:
        hits: rows of the stream whose key was in the cache, with its rows.
        negative_hits: rows whose key was known not to be in the source.
        misses: rows whose key had to be asked for, or waited for.
        lookups: look-ups in the source.
        keys_asked: distinct keys in these look-ups.
        load_ms_p50: median of the milliseconds that a look-up took; 0 without look-ups.
        load_ms_p95: their 95th percentile.
        load_ms_p99: their 99th percentile.
        retries: repetitions of look-ups that failed.
        failed_keys: keys that were treated as not found since the source did not answer
            (``on_error="null"``).
        stale_rows: rows that were given outdated rows of the source while these are asked for
            again (``stale=``); keys that were, since the source did not answer
            (``on_error="stale"``).
        evictions: keys that had to make room.
        rows: rows in the cache, a known absence counted as one; on the host that has most.
        bytes: what the cache takes, on the host that has most.
        hottest: the most frequent keys and their share of the rows, from a sample; keys of less
            than about one row in a hundred are not seen.
    """

    hits: int
    negative_hits: int
    misses: int
    lookups: int
    keys_asked: int
    load_ms_p50: float
    load_ms_p95: float
    load_ms_p99: float
    retries: int
    failed_keys: int
    stale_rows: int
    evictions: int
    rows: int
    bytes: int
    hottest: tuple[tuple[str, float], ...]

    @property
    def hit_rate(self) -> float:
        """Rows answered from the cache, known absences included, per row; 0 without rows."""
        asked = self.hits + self.negative_hits + self.misses
        return (self.hits + self.negative_hits) / asked if asked else 0.0

    @property
    def keys_per_lookup(self) -> float:
        """Keys per look-up; 0 without look-ups."""
        return self.keys_asked / self.lookups if self.lookups else 0.0


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
        mode: "full" or "incremental".
        table_version: the version of the table that the micro-batch used; None without rows,
            and for an incremental cache.
        cache: what the incremental cache did; None for a full cache.
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
    mode: Literal["full", "incremental"]
    table_version: int | None
    cache: CacheProgress | None

    @property
    def hit_rate(self) -> float:
        """Hits per row looked up; 0 without rows."""
        return self.hits / self.rows_in if self.rows_in else 0.0


def observed(
    answers: DataFrame, plan: LookupPlan | SourcePlan, how: str, answer: Column, note: Column
) -> DataFrame:
    """Let Spark add up the figures of a look-up while its rows pass by."""
    hits = F.count_if(answer) if plan.shape == "exists" else F.count(answer)
    matches = {
        "rows": F.sum(F.array_size(answer)),
        "runs": F.sum(answer.getField("count")),
    }.get(plan.shape, hits)
    return answers.observe(
        f"{_PREFIX}{plan.label}:{_mode(plan)}:{how}",
        F.count(F.lit(1)).alias("rows_in"),
        hits.alias("hits"),
        *([] if matches is hits else [matches.alias("matches")]),
        F.listagg(note, F.lit(",")).alias("notes"),
    )


def _mode(plan: LookupPlan | SourcePlan) -> str:
    return "incremental" if isinstance(plan, SourcePlan) else "full"


def observed_rows(rows: DataFrame, plan: RangePlan | SourceRangePlan) -> DataFrame:
    """Let Spark count the rows that go into a range join."""
    return rows.observe(f"{_INPUT}{plan.label}", F.count(F.lit(1)).alias("rows_in"))


def observed_range(joined: DataFrame, plan: RangePlan | SourceRangePlan, note: Column) -> DataFrame:
    """Let Spark count the rows that come out of a range join, and collect its notes."""
    return joined.observe(
        f"{_PREFIX}{plan.label}:{_mode(plan)}:{plan.how}",
        F.count(F.lit(1)).alias("rows_out"),
        F.listagg(note, F.lit(",")).alias("notes"),
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
    number, columns, mode, how = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    notes = json.loads(f"[{figures['notes'] or ''}]")
    if "rows_out" in figures:
        figures = _of_range_join(one, f"{number}:{columns}", how, figures, notes)
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
        lookup_ms=sum(note["ns"] for note in notes) / 1e6,
        mode="incremental" if mode == "incremental" else "full",
        table_version=max((note["version"] for note in notes if "version" in note), default=None),
        cache=_cache(notes) if mode == "incremental" else None,
    )


def _of_range_join(
    one: Any, label: str, how: str, figures: dict[str, Any], notes: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What Spark counted before and behind a range join, and what its workers noted.

    A note travels with a row of the result; batches without one have no note, and no hit that
    Spark does not count.
    """
    rows_in = _figures(one.observedMetrics[f"{_INPUT}{label}"])["rows_in"] or 0
    rows_out = figures["rows_out"] or 0
    if how in ("semi", "anti"):
        hits = rows_out if how == "semi" else rows_in - rows_out
        return {"rows_in": rows_in, "hits": hits}
    hits = sum(note["hits"] for note in notes)
    matches = rows_out - (rows_in - hits) if how == "left" else rows_out
    return {"rows_in": rows_in, "hits": hits, "matches": matches}


def _cache(notes: Sequence[dict[str, Any]]) -> CacheProgress:
    """Add up what the workers noted; see ``bsjoin.cache.incremental``."""

    def total(name: str) -> int:
        return sum(note.get(name, 0) for note in notes)

    times = [ms for note in notes for ms in note.get("ms", [])]
    p50, p95, p99 = np.percentile(times, [50, 95, 99]).tolist() if times else (0.0, 0.0, 0.0)
    seen: Counter[str] = Counter()
    for note in notes:
        seen.update(dict(note.get("hot", [])))
    sampled = total("n")
    return CacheProgress(
        hits=total("hit"),
        negative_hits=total("neg"),
        misses=total("mis"),
        lookups=len(times),
        keys_asked=total("asked"),
        load_ms_p50=p50,
        load_ms_p95=p95,
        load_ms_p99=p99,
        retries=total("retry"),
        failed_keys=total("fail"),
        stale_rows=total("stale"),
        evictions=total("evict"),
        rows=max((note["rows"] for note in notes), default=0),
        bytes=max((note["bytes"] for note in notes), default=0),
        hottest=tuple(
            (key, count / sampled) for key, count in seen.most_common(10) if count > _CHANCE
        ),
    )
