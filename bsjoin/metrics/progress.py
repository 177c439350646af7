"""Metrics of joins, read from what their operators counted and what Spark observed."""

from __future__ import annotations

import functools
import itertools
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from pyspark.sql import is_remote

from bsjoin.errors import ArgumentError, NotReportedWarning
from bsjoin.metrics import reports
from bsjoin.metrics.counted import figures, joins_of
from bsjoin.metrics.join_metrics import JoinLabel, JoinMetrics, LookupMetrics, OperatorMetrics
from bsjoin.metrics.lines import read
from bsjoin.metrics.numbers import number_of_reported
from bsjoin.metrics.observing import LINES, route_of
from bsjoin.metrics.records import (
    CacheProgress,
    CycleProgress,
    PartitionProgress,
    PlacementProgress,
)
from bsjoin.metrics.refreshes import follow, of_table, source_of, url_of
from bsjoin.metrics.shown import ProgressList
from bsjoin.metrics.tasks import received
from bsjoin.partitioning import Rule, added, skew
from bsjoin.partitioning.generated import RoutedRows
from bsjoin.partitioning.worker import Note
from bsjoin.plan import FIGURES
from bsjoin.spark import compat

_CHANCE = 3  # a key that occurs this often in the samples may be there by chance
_LEAST = 0.001  # a key of a few rows may be all of a small look-up


@dataclass(frozen=True)
class ObservedProgress:
    """The progress of a micro-batch, as Spark's own would be.

    Args:
        batchId: as Spark's.
        timestamp: as Spark's.
        observedMetrics: as Spark's.
        placement: where the tasks of the join ran, if something placed them; default None.
        query: what is the same for all micro-batches of a query; empty by default.
        operators: what joins in the JVM have counted, see :mod:`bsjoin.metrics.counted`; none by
            default.
        durationMs: as Spark's; empty by default.
        cycle: the place of the micro-batch among all that have ended, of ``bsjoin.cycles``; None
            (default) for others. A micro-batch may run again under the number that it had.
        routed: the rows that the JVM has sent to partitions; none by default.
    """

    batchId: int  # noqa: N815 - as Spark calls it
    timestamp: str
    observedMetrics: dict[str, dict[str, Any]]  # noqa: N815
    placement: PlacementProgress | None = None
    query: str = ""
    operators: Sequence[OperatorMetrics] = ()
    durationMs: Mapping[str, int] = field(default_factory=dict)  # noqa: N815
    cycle: int | None = None
    routed: Sequence[RoutedRows] = ()


def progress(query: Any) -> list[CycleProgress]:
    """The metrics of every join of a streaming query, one entry per micro-batch and join.

    Args:
        query: a ``StreamingQuery``, or one ``StreamingQueryProgress`` (from a listener's event), of
            this application.

    Returns:
        A list of :class:`CycleProgress`, oldest micro-batch first, joins in the order of their
        calls; empty for a query without joins of bsjoin. ``print`` and notebooks show it as a
        table. Joins inside a function for
        ``foreachBatch`` are among them. Of several actions on their rows, that one counts in the
        JVM which looked most rows up; in Python workers the first one (under Spark Connect: the
        last one). Not among them are those of threads that the function starts, unless
        they are ``pyspark.InheritableThread``. Under Spark Connect, where the function runs in
        another process, give it as ``bsjoin.reporting(function)``. Spark keeps the last 99
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
            "None before the first micro-batch), or what bsjoin.cycles returned. Metrics of batch "
            "queries are in Spark's UI, and under Spark Connect in DataFrame.executionInfo"
        )
    cycles = ProgressList()
    apart, is_silent = _Apart(query, recent), False
    for one in recent:
        found: dict[JoinLabel, JoinMetrics] = {}
        for joins, lines in _counted({**_not_observed(one), **one.observedMetrics}):
            for line in [JoinMetrics() for _ in joins], *lines:
                for join, metrics in zip(joins, line, strict=True):
                    # Two parts of a query may use the result of a join: each looks its rows up.
                    found.setdefault(join, JoinMetrics()).add(metrics)
        of_one = [_cycle(one, apart.route, join, metrics) for join, metrics in found.items()]
        for join, own in joins_of(*apart.operators(one)):
            is_plain = own.label is None
            of_one.append(_cycle(one, apart.route, join, own.metrics, own if is_plain else None))
        if is_remote() and _has_run_a_function(one):
            inside = apart.reported(one)
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


class _Apart:
    """The facts about a query's joins that its progress does not have."""

    def __init__(self, query: Any, recent: Iterable[Any]):
        self._query = query
        self._operators = counted_in(OperatorMetrics, "joins", recent, compat.session_of(query))
        self._reports: dict[str, dict[int, str]] = {}
        self.route = routes(recent, compat.session_of(query))

    def operators(self, one: Any) -> tuple[str, Sequence[OperatorMetrics]]:
        """Return the name of the query, and the joins in the JVM of one micro-batch."""
        if isinstance(one, ObservedProgress):
            return one.query, one.operators
        return str(one.id), self._operators(one)

    def reported(self, one: Any) -> list[CycleProgress] | None:
        """The joins of its function on a Connect server; None if they were not reported."""
        run = str(one.runId)
        if run not in self._reports:
            self._reports[run] = reports.read(self._query, run)
        line = next(iter(read(CycleProgress, self._reports[run].get(one.batchId))), None)
        if line is None:
            return None
        return [
            replace(
                cycle,
                join=number_of_reported(str(one.id), cycle.join, cycle.on),
                batch_id=one.batchId,
                timestamp=one.timestamp,
            )
            for cycle in line
        ]


class _OfBatch(Protocol):
    @property
    def batch(self) -> int: ...


Counted = TypeVar("Counted", bound=_OfBatch)


def counted_in(
    record: type[Counted], kind: str, recent: Iterable[Any], spark: Any
) -> Callable[[Any], list[Counted]]:
    """What gives the figures that the JVM has counted in one of some micro-batches of a run."""

    def is_counted(one: Any) -> bool:
        return hasattr(one, "runId") and not is_idle(one)

    found: dict[int, list[Counted]] = {}
    if counting := [*filter(is_counted, recent)]:
        numbers = [one.batchId for one in counting]
        run = str(counting[0].runId)
        for each in figures(record, kind, run, min(numbers), max(numbers), spark):
            found.setdefault(each.batch, []).append(each)
    return lambda one: found.get(one.batchId, []) if is_counted(one) else []


def _has_run_a_function(one: Any) -> bool:
    """Whether a progress is of a micro-batch whose rows went to a function for ``foreachBatch``."""
    sink = getattr(one, "sink", None)  # a batch of cycles has none
    return getattr(sink, "description", None) == "ForeachBatchSink" and not is_idle(one)


def _has(thing: Any, name: str) -> bool:
    """Whether it has an attribute; a DataFrame and a column make one of any name."""
    return hasattr(type(thing), name) or name in getattr(thing, "__dict__", {})


def _not_observed(one: Any) -> dict[str, Any]:
    """The metrics of a micro-batch that Spark has not observed in its plan, by name."""
    query = getattr(one, "id", None)  # a batch of foreachBatch has none
    if query is None or is_idle(one):
        return {}
    return received.of(str(query), str(one.runId), one.batchId)


def is_idle(one: Any) -> bool:
    """Whether a progress is of a trigger without a micro-batch.

    A query without new data reports itself every ten seconds, with the number of the micro-batch
    that comes next.
    """
    return not one.numInputRows and "addBatch" not in one.durationMs


def _counted(
    observed: Mapping[str, Any],
) -> Iterator[tuple[list[JoinLabel], list[list[JoinMetrics]]]]:
    """Joins whose tasks count them together, first to last, and what each task has counted."""
    for name, metrics in observed.items():
        if name.startswith(f"{FIGURES}{{"):
            lines = observed_row(metrics).get(LINES)  # another version of bsjoin may have none
            for joins in read(JoinLabel, name.removeprefix(FIGURES)):
                yield joins, [one for one in read(JoinMetrics, lines) if len(one) == len(joins)]


def observed_row(metrics: Any) -> dict[str, Any]:
    """The observed row, or lines, by name; Spark Connect delivers a row's values and schema."""
    if isinstance(metrics, str):
        return {LINES: metrics}
    row: dict[str, Any] = metrics if isinstance(metrics, dict) else metrics.asDict()
    if row.keys() == {"values", "schema"}:
        names = [field["name"] for field in row["schema"]["fields"]]
        return dict(zip(names, row["values"], strict=True))
    return row


def _cycle(
    one: Any,
    route: Routes,
    join: JoinLabel,
    metrics: JoinMetrics,
    plain: OperatorMetrics | None = None,
) -> CycleProgress:
    number, _, columns = join.label.partition(":")
    is_jvm, is_incremental = join.runtime == "jvm", join.mode == "incremental"
    if plain is not None:
        follow(join.label, plain.path)
    url = url_of(join.label)
    return CycleProgress(
        join=int(number),
        on=tuple(json.loads(columns)),
        batch_id=one.batchId,
        timestamp=one.timestamp,
        rows_in=metrics.rows_in,
        rows_out=metrics.rows_out,
        hits=metrics.hits,
        misses=metrics.rows_in - metrics.hits,
        matches=metrics.matches,
        lookup_ms=None if is_jvm else metrics.lookup_ns / 1e6,
        mode=join.mode,
        table_version=metrics.version,
        cache=_cache(metrics.cache) if is_incremental else None,
        partition=_partition(one, route, join),
        runtime=join.runtime,
        runtime_reason=join.reason,
        placement=getattr(one, "placement", None),
        refresh=of_table(url),
        table=None if plain is None else plain.table,
        open_ms=metrics.open_ns / 1e6 if is_jvm else None,
        source=source_of(url, metrics.version),
    )


Routes = Callable[[Any, str], Note | None]
"""What finds the routing statistics of a join, by its label, in a micro-batch; None for none."""


def routes(recent: Iterable[Any], spark: Any) -> Routes:
    """Find routing statistics in some micro-batches of a run of a query."""
    of_batch = functools.cache(lambda: counted_in(RoutedRows, "partitions", recent, spark))

    def route(one: Any, label: str) -> Note | None:
        metrics = one.observedMetrics.get(route_of(label))
        if metrics is not None:
            lines = (observed_row(metrics)[LINES] or "").split("\n")
            notes = [Note.from_list(json.loads(line)) for line in lines if line]
            names = {code: text for note in notes for code, text in note.names.items()}
            return Note(added(note.statistics for note in notes), names) if notes else None
        told = one.routed if isinstance(one, ObservedProgress) else of_batch()(one)
        notes = [action.note() for action in told if action.label == label and action.tasks]
        # Of several actions that one counts which had most rows.
        return max(notes, key=lambda note: note.statistics.rows, default=None)

    return route


def cached_entries(observed: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """Return the entries that tasks of an incremental cache saw, by partition.

    Returns:
        The bytes in the cache of the host where the partition ran, and the keys that it has loaded.
    """
    found: dict[int, tuple[int, int]] = {}
    for _, lines in _counted(observed):
        for metrics in itertools.chain.from_iterable(lines):
            for one in metrics.cache:
                if one.partition is not None:
                    held, loaded = found.get(one.partition, (0, 0))
                    found[one.partition] = max(held, one.bytes), loaded + one.keys_queried
    return found


_REASONS = {
    "full": "no shuffle: every worker has access to the whole table",
    "incremental": "no shuffle: all workers of a host share one cache",
    "hash": "partition=Hash(...)",
    "hotspot": "partition=HotSpot(...)",
}
_HOTTEST = 10


def _partition(one: Any, route: Routes, join: JoinLabel) -> PartitionProgress:
    note = route(one, join.label) if join.partitioned == "hotspot" else None
    if note is None:
        kind = join.partitioned
        return PartitionProgress(kind=kind, reason=_REASONS[join.mode if kind == "none" else kind])
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


_ADDED = (
    "hits", "negative_hits", "misses", "keys_queried", "retries", "failed_keys", "stale_rows",
    "evictions",
)  # fmt: skip


def _cache(lookups: Sequence[LookupMetrics]) -> CacheProgress:
    """The sum of all look-ups in an incremental cache."""
    times = [ms for one in lookups for ms in one.load_ms]
    p50, p95, p99 = np.percentile(times, [50, 95, 99]).tolist() if times else (0.0, 0.0, 0.0)
    seen: Counter[str] = Counter()
    rows_of: defaultdict[str, float] = defaultdict(float)
    for one in lookups:
        for key, count in one.hottest:  # each sample has one size, however many rows it is of
            seen[key] += count
            rows_of[key] += count / one.sampled * one.looked_up
    looked_up = sum(one.looked_up for one in lookups)
    frequent = (key for key in rows_of if seen[key] > _CHANCE and rows_of[key] > _LEAST * looked_up)
    hottest = sorted(frequent, key=lambda key: -rows_of[key])
    hosts: dict[str, tuple[int, int]] = {}
    for one in lookups:
        rows, held = hosts.get(one.host, (0, 0))
        hosts[one.host] = max(rows, one.rows), max(held, one.bytes)
    return CacheProgress(
        **{name: sum(getattr(one, name) for one in lookups) for name in _ADDED},
        lookups=len(times),
        load_ms_p50=p50,
        load_ms_p95=p95,
        load_ms_p99=p99,
        rows=max((one.rows for one in lookups), default=0),
        bytes=max((one.bytes for one in lookups), default=0),
        hottest=tuple((key, rows_of[key] / looked_up) for key in hottest[:_HOTTEST]),
        hosts=tuple((host, *held) for host, held in sorted(hosts.items()) if host),
    )
