"""Metrics of joins, read from what their operators counted and what Spark observed."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bsjoin.errors import ArgumentError, NotReportedWarning
from bsjoin.metrics.counted import counted
from bsjoin.metrics.foreach_batch import number_of_reported, observed_batches
from bsjoin.metrics.json_records import from_json
from bsjoin.metrics.operators import joins_of
from bsjoin.metrics.records import (
    CacheProgress,
    CycleProgress,
    PartitionProgress,
    PlacementProgress,
)
from bsjoin.metrics.refreshes import of_join, of_table
from bsjoin.metrics.reports import read
from bsjoin.metrics.tasks import received
from bsjoin.partitioning import Rule, added, skew
from bsjoin.partitioning.generated import note_of
from bsjoin.partitioning.worker import Note
from bsjoin.plan import FIGURES, ROUTE_FIGURES
from bsjoin.spark import compat
from bsjoin.spark.remote import is_remote

__all__ = [
    "ObservedProgress",
    "cached_entries",
    "is_idle",
    "progress",
    "route",
]

_log = logging.getLogger("bsjoin")

_CHANCE = 3  # a key that occurs this often in the samples may be there by chance
_ADDED = ("rows_in", "hits", "matches", "ns")
_NAME = re.compile(rf"{FIGURES}(\[{{.*}}\])")


@dataclass(frozen=True)
class ObservedProgress:
    """What Spark's progress of a micro-batch would say.

    Args:
        batchId: as Spark's.
        timestamp: as Spark's.
        observedMetrics: as Spark's.
        placement: where the tasks of the join ran, if something placed them; default None.
        query: what is the same for all micro-batches of a query; empty by default.
        operators: what joins in the JVM have counted, see :mod:`bsjoin.metrics.counted`; none by
            default.
    """

    batchId: int  # noqa: N815 - as Spark calls it
    timestamp: str
    observedMetrics: dict[str, dict[str, Any]]  # noqa: N815
    placement: PlacementProgress | None = None
    query: str = ""
    operators: Sequence[dict[str, Any]] = ()


def progress(query: Any) -> list[CycleProgress]:
    """The metrics of every join of a streaming query, one entry per micro-batch and join.

    Args:
        query: a ``StreamingQuery``, or one ``StreamingQueryProgress`` (from a listener's event), of
            this application.

    Returns:
        A list of :class:`CycleProgress`, oldest micro-batch first, joins in the order of their
        calls; empty for a query without joins of bsjoin. Joins inside a function for
        ``foreachBatch`` are among them. Of several actions on their rows, that one counts in the
        JVM which looked most rows up; in Python workers the first one (under Spark Connect: the
        last one). Not among them are those of threads that the function starts, unless
        they are ``pyspark.InheritableThread``. Under Spark Connect, where the function runs in
        another process, give it as ``bsjoin.reporting(function)``. Spark keeps the last 100
        micro-batches of a query (``spark.sql.streaming.numRecentProgressUpdates``); to sum over
        more, call this from a ``StreamingQueryListener`` with each ``event.progress``.

    Raises:
        ArgumentError: it is something else, such as a DataFrame.

    Warns:
        NotReportedWarning: there are no figures, and the query runs a function for
            ``foreachBatch`` under Spark Connect, which may have joins and does not report.

    Example:
        >>> hits = sum(cycle.hits for cycle in bsjoin.progress(query))
    """
    recent: Iterable[Any] | None = None
    if _has(query, "recentProgress"):
        recent = list(query.recentProgress)
    elif _has(query, "observedMetrics"):
        recent = [query]
    if recent is None:
        raise ArgumentError(
            f"progress() of a {type(query).__name__}: give a StreamingQuery (what start() "
            "returned), a StreamingQueryProgress (event.progress of a listener; lastProgress is "
            "None before the first micro-batch), or what bsjoin.cycles returned"
        )
    cycles: list[CycleProgress] = []
    reported, operators, is_silent = _Reported(query), _Operators(query, recent), False
    for one in recent:
        found: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
        for metric, metrics in {**_not_observed(one), **one.observedMetrics}.items():
            name = _NAME.fullmatch(metric)
            for join, figures in [] if name is None else _joins(name[1], _figures(metrics)):
                before = found.get(join["label"])
                added = figures if before is None else _added(before[1], figures)
                found[join["label"]] = join, added
        of_one = [_cycle(one, join, figures) for join, figures in found.values()]
        for own in joins_of(*operators.of(one)):
            of_one.append(_cycle(one, own.join, own.figures, own.table, own.path))
        if is_remote() and _has_run_a_function(one):
            inside = reported.of(one)
            is_silent |= inside is None
            of_one += inside or []
        cycles += sorted(of_one, key=lambda cycle: cycle.join)
    if is_silent and not cycles:
        warnings.warn(_NOT_REPORTED, NotReportedWarning, stacklevel=2)
    return cycles


_NOT_REPORTED = (
    "progress() has no figures of a query with foreachBatch: under Spark Connect the function runs "
    "in a process of the server, and its joins report only if it is given as "
    "foreachBatch(bsjoin.reporting(function)), and the process can tell which query it serves. "
    "Otherwise join the stream before foreachBatch, or observe the result inside the function with "
    "pyspark.sql.Observation. If the function joins nothing, ignore "
    "bsjoin.errors.NotReportedWarning"
)


class _Operators:
    """What joins in the JVM have counted in the micro-batches of a query.

    Args:
        query: the query, or the progress of one.
        recent: the progress of its micro-batches.
    """

    def __init__(self, query: Any, recent: Iterable[Any]):
        self._found: dict[tuple[str, int], list[dict[str, Any]]] = {}
        runs: dict[str, list[int]] = {}
        for one in recent:
            if not isinstance(one, ObservedProgress) and not is_idle(one):
                runs.setdefault(str(one.runId), []).append(one.batchId)
        spark = compat.session_of(query)
        for run, batches in runs.items():
            for operator in counted(run, min(batches), max(batches), spark):
                self._found.setdefault((run, operator["batch"]), []).append(operator)

    def of(self, one: Any) -> tuple[str, Sequence[dict[str, Any]]]:
        """What stands for the query, and those of one micro-batch."""
        if isinstance(one, ObservedProgress):
            return one.query, one.operators
        return str(one.id), [] if is_idle(one) else self._found.get(
            (str(one.runId), one.batchId), []
        )


class _Reported:
    """What a function for ``foreachBatch`` has reported from a Connect server.

    Args:
        query: the query, or the progress of one.
    """

    def __init__(self, query: Any):
        self._query = query
        self._runs: dict[str, dict[int, str]] = {}

    def of(self, one: Any) -> list[CycleProgress] | None:
        """The joins of a micro-batch; None if it was not reported."""
        run = str(one.runId)
        if run not in self._runs:
            self._runs[run] = read(self._query, run)
        text = self._runs[run].get(one.batchId)
        if text is None:
            return None
        try:
            cycles = from_json(CycleProgress, text)
        except ValueError as error:
            _log.warning("bsjoin: a report of query %s cannot be read: %s", one.id, error)
            return None
        return [
            replace(
                cycle,
                join=number_of_reported(str(one.id), cycle.join, cycle.on),
                batch_id=one.batchId,
                timestamp=one.timestamp,
            )
            for cycle in cycles
        ]


def _has_run_a_function(one: Any) -> bool:
    """Whether a progress is of a micro-batch whose rows went to a function for ``foreachBatch``."""
    sink = getattr(one, "sink", None)  # a batch of cycles has none
    return getattr(sink, "description", None) == "ForeachBatchSink" and not is_idle(one)


def _has(thing: Any, name: str) -> bool:
    """Whether it has an attribute; a DataFrame and a column make one of any name."""
    return hasattr(type(thing), name) or name in getattr(thing, "__dict__", {})


def _not_observed(one: Any) -> dict[str, Any]:
    """The figures of a micro-batch that Spark has not observed in its plan."""
    query = getattr(one, "id", None)  # a batch of foreachBatch has none
    if query is None or is_idle(one):
        return {}
    return {
        **observed_batches.of(str(query), one.batchId),
        **received.of(str(query), str(one.runId), one.batchId),
    }


def is_idle(one: Any) -> bool:
    """Whether a progress is of a trigger without a micro-batch.

    A query without new data reports itself every ten seconds, with the number of the micro-batch
    that comes next.
    """
    return not one.numInputRows and "addBatch" not in one.durationMs


def _added(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The figures of a join whose result two parts of a query use: each looks its rows up."""
    names = [name for name in _ADDED if name in first or name in second]
    return {
        **{name: first.get(name, 0) + second.get(name, 0) for name in names},
        "version": first["version"] or second["version"],
        "cache": [*first.get("cache", []), *second.get("cache", [])],
    }


def _figures(metrics: Any) -> dict[str, Any]:
    """The observed row as a dictionary; Spark Connect delivers it as values and a schema."""
    figures: dict[str, Any] = metrics if isinstance(metrics, dict) else metrics.asDict()
    if figures.keys() == {"values", "schema"}:
        names = [field["name"] for field in figures["schema"]["fields"]]
        return dict(zip(names, figures["values"], strict=True))
    return figures


def _joins(name: str, figures: dict[str, Any]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """The joins whose figures were observed together, first to last, each with its own."""
    joins = json.loads(name)
    if "tasks" in figures:
        tasks = json.loads(f"[{figures['tasks'] or ''}]")
        for i, join in enumerate(joins):
            yield join, _of_stage([task[i] for task in tasks])
        return
    yield joins[0], _of_workers(figures)


def _of_workers(figures: dict[str, Any]) -> dict[str, Any]:
    """What Spark observed of a join in Python that gets keys only, and the workers noted."""
    notes = json.loads(f"[{figures.get('notes') or ''}]")
    hits = figures["hits"] or 0
    return {
        "rows_in": figures["rows_in"] or 0,
        "hits": hits,
        "matches": figures.get("matches", hits) or 0,
        "version": _newest(notes),
        "ns": sum(note["ns"] for note in notes),
        "cache": notes,
    }


def _of_stage(tasks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What tasks have counted of one join of a stage: ``bsjoin.runtimes.python.worker.chain``."""
    return {
        **{name: sum(task.get(name, 0) for task in tasks) for name in _ADDED},
        "version": _newest(tasks),
        "cache": [note for task in tasks for note in task.get("cache", [])],
    }


def _newest(notes: Sequence[dict[str, Any]]) -> int | None:
    return max((note["version"] for note in notes if "version" in note), default=None)


def _cycle(
    one: Any,
    join: dict[str, str],
    figures: dict[str, Any],
    table: str | None = None,
    path: str = "",
) -> CycleProgress:
    """The figures of a join.

    Args:
        one: Spark's progress of the micro-batch.
        join: what :func:`bsjoin.metrics.observed.name_of` says of it.
        figures: what was counted.
        table: what a plain join calls its table; None (default) for another join.
        path: of that table; empty by default.
    """
    number, _, columns = join["label"].partition(":")
    rows_in, hits, matches = (figures[name] for name in ("rows_in", "hits", "matches"))
    incremental = join["mode"] == "incremental"
    return CycleProgress(
        join=int(number),
        on=tuple(json.loads(columns)),
        batch_id=one.batchId,
        timestamp=one.timestamp,
        rows_in=rows_in,
        rows_out=figures["rows_out"] if "rows_out" in figures else _rows_out(join["how"], figures),
        hits=hits,
        misses=rows_in - hits,
        matches=matches,
        lookup_ms=figures["ns"] / 1e6 if "ns" in figures else None,
        mode="incremental" if incremental else "full",
        table_version=figures["version"],
        cache=_cache(figures["cache"]) if incremental else None,
        partition=_partition(one, join["label"], join["mode"], join["partitioned"]),
        runtime="jvm" if join["runtime"] == "jvm" else "python",
        runtime_reason=join["reason"],
        placement=getattr(one, "placement", None),
        refresh=of_join(join["label"]) if table is None else of_table(path),
        table=table,
        open_ms=figures["open_ns"] / 1e6 if "open_ns" in figures else None,
    )


def _rows_out(how: str, figures: dict[str, Any]) -> int:
    """How many rows a join of this type has made."""
    rows_in, hits, matches = (int(figures[name]) for name in ("rows_in", "hits", "matches"))
    misses = rows_in - hits
    return {"inner": matches, "left": matches + misses, "semi": hits, "anti": misses}[how]


def route(one: Any, label: str) -> Note | None:
    """The routing statistics of a join in a micro-batch's progress; None if there are none.

    Args:
        one: Spark's progress of the micro-batch.
        label: the label of the join.
    """
    metrics = one.observedMetrics.get(f"{ROUTE_FIGURES}{label}")
    if metrics is None:
        return None
    figures = _figures(metrics)
    if "places" in figures:
        if figures["version"] is None:
            return None
        counted = ("version", "cells", "partitions", "tasks", "places")
        return note_of(**{name: figures[name] for name in counted}, drawn=figures["drawn"] or "")
    lists = json.loads(f"[{figures['notes'] or ''}]")
    notes = [Note.from_list(read) for read in lists]
    if not notes:
        return None
    names = {code: text for note in notes for code, text in note.names.items()}
    return Note(added(note.statistics for note in notes), names)


def cached_entries(observed: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """What the tasks of an incremental cache saw, by partition.

    Args:
        observed: Spark's figures of a micro-batch, by name.

    Returns:
        The bytes in the cache of the host where the partition ran, and the keys that it has loaded.
    """
    notes: list[dict[str, Any]] = []
    for metric, metrics in observed.items():
        if _NAME.fullmatch(metric) is None:
            continue
        figures = _figures(metrics)
        for task in json.loads(f"[{figures.get('tasks') or ''}]"):
            notes += [note for join in task for note in join.get("cache", [])]
        notes += json.loads(f"[{figures.get('notes') or ''}]")
    found: dict[int, tuple[int, int]] = {}
    for note in notes:
        if "part" in note:
            held, loaded = found.get(note["part"], (0, 0))
            found[note["part"]] = max(held, note["bytes"]), loaded + note.get("asked", 0)
    return found


_REASONS = {
    "full": "no shuffle: every worker has access to the whole table",
    "incremental": "no shuffle: all workers of a host share one cache",
    "hash": "partition=Hash(...)",
    "hotspot": "partition=HotSpot(...)",
}
_HOTTEST = 10


def _partition(one: Any, label: str, mode: str, kind: Any) -> PartitionProgress:
    """The metrics of a join's partitions."""
    note = route(one, label)
    if note is None:
        return PartitionProgress(kind=kind, reason=_REASONS[mode if kind == "none" else kind])
    statistics = note.statistics
    sample, rows = statistics.sample, max(statistics.rows, 1)
    even = Rule.even(len(statistics.partitions))
    order = np.argsort(-sample.weights, kind="stable")[:_HOTTEST]
    hottest = (
        (note.names[code], weight / rows)
        for code, weight, count in zip(
            sample.codes[order].tolist(),
            sample.weights[order].tolist(),
            sample.counts[order].tolist(),
            strict=True,
        )
        if count > _CHANCE and code in note.names
    )
    return PartitionProgress(
        kind="hotspot",
        reason=_REASONS["hotspot"],
        rule_version=statistics.version,
        rows=tuple(statistics.partitions.tolist()),
        skew=statistics.skew,
        skew_by_hash=skew(even.loads(sample.codes, sample.weights)),
        hottest=tuple(hottest),
    )


def _cache(notes: Sequence[dict[str, Any]]) -> CacheProgress:
    """Sum the notes of the workers; see ``bsjoin.runtimes.python.worker.incremental_cache``."""

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
        keys_queried=total("asked"),
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
