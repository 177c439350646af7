"""What queries have done since they are watched: counters from the progress of micro-batches."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from bsjoin import kafka
from bsjoin.metrics.counted import asked_at_once
from bsjoin.metrics.progress import ObservedProgress, is_idle, progress
from bsjoin.metrics.records import CycleProgress
from bsjoin.metrics.refreshes import error_text, of_join
from bsjoin.monitoring.model import (
    BATCHES,
    DURATION,
    JOIN_INFO,
    OF_JOINS,
    ROUTED,
    STARTED,
    UNSEEN,
    WAITING,
    Metric,
    Sample,
)

_log = logging.getLogger("bsjoin")

Figures = TypeVar("Figures", CycleProgress, kafka.RouteProgress)

_ENDED = 64
"""Of how many queries that have ended the counters are kept."""
_RUNS = 1_000
_KEPT = 100
_JOINS = 64
_VERSIONS = 10
_OUTCOMES = ("found", "recovered", "waiting", "expired")


@dataclass(frozen=True)
class MicroBatch:
    """What one micro-batch has done.

    Args:
        number: Spark's.
        timestamp: when it started, in seconds since the epoch.
        duration_s: how long it took; None if that is not known.
        rows: that came from the sources of the query; None if that is not known.
        joins: its joins.
        routes: what ``bsjoin.kafka.route`` did.
    """

    number: int
    timestamp: float
    duration_s: float | None
    rows: int | None
    joins: Sequence[CycleProgress]
    routes: Sequence[kafka.RouteProgress]


@dataclass
class JoinTotals:
    """The sums and the last values of one join."""

    last: CycleProgress
    values: dict[Metric, Any] = field(default_factory=dict)
    versions: deque[CycleProgress] = field(default_factory=lambda: deque(maxlen=_VERSIONS))
    """What took up a version of the table, the first one that was seen included."""
    is_over: bool = False

    def end(self) -> None:
        """Keep the sums alone: another run of the query may have other joins."""
        self.is_over = True
        self.versions.clear()
        counters = (one for one in self.values.items() if one[0].kind == "counter")
        self.values = dict(counters)

    def add(self, cycle: CycleProgress) -> None:
        """Add one micro-batch."""
        self.last, self.is_over = cycle, False
        version = cycle.table_version
        before = self.versions[-1].table_version if self.versions else None
        if version not in (None, before):
            self.versions.append(cycle)
        self._note(adds=True)

    def renew(self) -> bool:
        """Take up how the refreshes of its table went meanwhile; whether there is anything new."""
        refresh = of_join(self.last.join)
        if self.is_over or refresh is None or refresh == self.last.refresh:
            return False
        self.last = replace(self.last, refresh=refresh)
        self._note(adds=False)
        return True

    def _note(self, *, adds: bool) -> None:
        """Keep the last values, and add what was counted, if that is new."""
        for one in OF_JOINS:
            is_added = one.metric.kind == "counter" and not one.is_sum
            value = one.of(self.last)
            if value is None or (is_added and not adds):
                continue
            if is_added:
                value += self.values.get(one.metric, 0)
            self.values[one.metric] = value

    def value(self, name: str) -> Any:
        """The value of a metric, a counter's sum; 0 if it has none."""
        return next((value for one, value in self.values.items() if one.name == name), 0)

    def samples(self, query: str) -> Iterator[Sample]:
        """Its values, and what it is, unless it is over."""
        cycle = self.last
        labels = query, str(cycle.join), ",".join(cycle.on)
        more = cycle.runtime, cycle.mode, cycle.partition.kind, cycle.table or ""
        if not self.is_over:
            yield Sample(JOIN_INFO, (*labels, *more), 1)
        for metric, value in self.values.items():
            if isinstance(value, dict):
                for label, one in value.items():
                    yield Sample(metric, (*labels, label), one)
            else:
                yield Sample(metric, labels, value)


@dataclass
class QueryTotals:
    """What one query has done; ``name`` is its name, or its id."""

    name: str
    runs: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """The last micro-batch of each run: a page may show two runs of a query."""
    is_over: bool = False
    began: float = math.nan
    batches: int = 0
    unseen: int = 0
    seconds: float = 0.0
    recent: deque[MicroBatch] = field(default_factory=lambda: deque(maxlen=_KEPT))
    joins: dict[int, JoinTotals] = field(default_factory=dict)
    routes: Counter[tuple[str, str]] = field(default_factory=Counter)
    waiting: dict[str, int] = field(default_factory=dict)
    """How many rows wait, by the topic of those that are found."""

    def note(self, run: str, number: int) -> None:
        """Note that a micro-batch of a run is read, and how many before it were not."""
        before = self.runs.get(run)
        if before is not None:
            self.unseen += max(0, number - before - 1)
        self.runs[run] = number
        self.runs.move_to_end(run)
        while len(self.runs) > _RUNS:
            self.runs.popitem(last=False)

    def end(self) -> None:
        """Keep the counters, which go on if the query is started again, and nothing else."""
        self.is_over = True
        self.recent.clear()
        self.waiting.clear()
        for join in self.joins.values():
            join.end()

    def add(self, batch: MicroBatch) -> None:
        """Add one micro-batch, which comes after all others."""
        if not self.batches:
            self.began = batch.timestamp
        self.batches += 1
        self.seconds += batch.duration_s or 0.0
        self.recent.append(batch)
        for cycle in batch.joins:
            self.joins.setdefault(cycle.join, JoinTotals(cycle)).add(cycle)
            self.joins[cycle.join] = self.joins.pop(cycle.join)  # the last one
        while len(self.joins) > _JOINS:
            del self.joins[next(iter(self.joins))]
        for route in batch.routes:
            for outcome in _OUTCOMES:
                self.routes[route.topic, outcome] += getattr(route, outcome)
            if route.waiting_now is None:
                self.waiting.pop(route.topic, None)
            else:
                self.waiting[route.topic] = route.waiting_now

    def samples(self) -> Iterator[Sample]:
        """The values of all metrics; of a query that has ended those of counters."""
        labels = (self.name,)
        yield Sample(BATCHES, labels, self.batches)
        yield Sample(UNSEEN, labels, self.unseen)
        durations = [one.duration_s for one in self.recent if one.duration_s is not None]
        if durations:
            for quantile, value in quantiles(durations).items():
                yield Sample(DURATION, (self.name, quantile), value)
        if self.seconds:
            yield Sample(DURATION, labels, self.seconds, "_sum")
            yield Sample(DURATION, labels, self.batches, "_count")
        if self.recent:
            yield Sample(STARTED, labels, self.recent[-1].timestamp)
        for (topic, outcome), rows in self.routes.items():
            yield Sample(ROUTED, (self.name, topic, outcome), rows)
        for topic, rows in self.waiting.items():
            yield Sample(WAITING, (self.name, topic), rows)
        for join in self.joins.values():
            yield from join.samples(self.name)


class Totals:
    """What all watched queries have done; for any number of threads.

    Figures are read outside of the lock of the values: a server that does not answer keeps nobody
    waiting who asks for what is known.
    """

    def __init__(self) -> None:
        self._queries: OrderedDict[str, QueryTotals] = OrderedDict()
        self._reading = threading.Lock()
        self._samples: list[Sample] | None = None
        self.lock = threading.RLock()
        """Of the values: who reads those of :meth:`of` holds it."""

    def take(self, *news: Any, session: Any = None, name: str | None = None) -> list[MicroBatch]:
        """Add the progress of micro-batches of one query, oldest first; return what was new.

        The session is that of the query, under Spark Connect; None (default) for the active one.
        Without a name the query is called what its progress says.
        """
        with self._reading:
            fresh = self._fresh(news)
            if not fresh:
                return []
            with asked_at_once():
                joins, routes = _joins(fresh, session), _routes(fresh, session)
            made = [
                MicroBatch(
                    number=one.batchId,
                    timestamp=seconds_of(one.timestamp),
                    duration_s=_duration(one),
                    rows=getattr(one, "numInputRows", None),
                    joins=own,
                    routes=routed,
                )
                for one, own, routed in zip(fresh, joins, routes, strict=True)
            ]
            with self.lock:
                self._samples = None
                for one, batch in zip(fresh, made, strict=True):
                    query = self._query(one, name or name_of(one))
                    query.note(run_of(one), number_of(one))
                    query.add(batch)
            return made

    def end(self, query: str) -> list[str]:
        """Keep of a query, by Spark's id, its counters alone: it has ended, and may start again.

        Returns:
            The names of queries that ended long before, of which nothing is kept any more.
        """
        with self.lock:
            self._samples = None
            if query in self._queries:
                self._queries[query].end()
                self._queries.move_to_end(query)
            over = [one for one, known in self._queries.items() if known.is_over]
            return [self._queries.pop(one).name for one in over[:-_ENDED]]

    def renew(self, query: str) -> bool:
        """Take up how the refreshes of the tables of a query, by Spark's id, went meanwhile.

        It may wait for rows, and has no micro-batch that tells it. Whether there is anything new.
        """
        with self.lock:
            known = self._queries.get(query)
            is_new = any([join.renew() for join in known.joins.values()] if known else [])
            if is_new:
                self._samples = None
            return is_new

    def of(self, query: str) -> QueryTotals | None:
        """What a query has done, by Spark's id of it; None if it is not known."""
        with self.lock:
            return self._queries.get(query)

    def samples(self, query: str | None = None) -> list[Sample]:
        """The values of all metrics, those of one metric together; of one query, or of all."""
        with self.lock:
            if query is not None:
                return [
                    sample
                    for known in self._queries.values()
                    if known.name == query
                    for sample in known.samples()
                ]
            if self._samples is None:
                order: dict[str, list[Sample]] = {}
                for known in self._queries.values():
                    for sample in known.samples():
                        order.setdefault(sample.metric.name, []).append(sample)
                self._samples = [sample for samples in order.values() for sample in samples]
            return self._samples

    def _fresh(self, news: Sequence[Any]) -> list[Any]:
        last: dict[tuple[str, str], int] = {}
        found = []
        for one in news:
            query, run, number = id_of(one), run_of(one), number_of(one)
            if _is_of_spark(one) and is_idle(one):
                continue
            known = self.of(query)
            before = last.get((query, run), -1 if known is None else known.runs.get(run, -1))
            if number > before:
                last[query, run] = number
                found.append(one)
        return found

    def _query(self, one: Any, name: str) -> QueryTotals:
        """The totals of a query; its counters go on when it is started again."""
        query = self._queries.get(id_of(one))
        if query is None:
            query = self._queries[id_of(one)] = self._named(name, id_of(one))
        query.is_over = False
        return query

    def _named(self, name: str, query: str) -> QueryTotals:
        """The totals of an ended query of this name, which one without a checkpoint continues.

        Two queries with one name at the same time, of two sessions, have two names here.
        """
        known = {one.name: (key, one) for key, one in self._queries.items()}
        if name not in known:
            return QueryTotals(name)
        key, found = known[name]
        if found.is_over:
            return self._queries.pop(key)
        return QueryTotals(f"{name} {query}")


def _joins(news: Sequence[Any], session: Any) -> list[Sequence[CycleProgress]]:
    if all(isinstance(one, ObservedProgress) for one in news):  # two may have one number
        return [_read(progress, [one], session) for one in news]
    return _of_each(progress, news, session)


def _routes(news: Sequence[Any], session: Any) -> list[Sequence[kafka.RouteProgress]]:
    """What was routed; what cannot be read takes nothing else with it."""
    try:
        return _of_each(kafka.progress, news, session)
    except Exception as error:
        _log.warning("bsjoin: figures of bsjoin.kafka.route are missing: %s", error_text(error))
        return [[] for _ in news]


def _of_each(
    reader: Callable[[Any], list[Figures]], news: Sequence[Any], session: Any
) -> list[Sequence[Figures]]:
    """The figures of each micro-batch, which are read at once for those of a run."""
    runs: dict[str, list[Any]] = {}
    for one in news:
        runs.setdefault(run_of(one), []).append(one)
    found: dict[tuple[str, int], list[Figures]] = {}
    for run, some in runs.items():
        for figures in _read(reader, some, session):
            found.setdefault((run, figures.batch_id), []).append(figures)
    return [found.get((run_of(one), one.batchId), []) for one in news]


def _read(
    reader: Callable[[Any], list[Figures]], some: Sequence[Any], session: Any
) -> list[Figures]:
    # As of a query that has these alone, and knows its session.
    return reader(SimpleNamespace(recentProgress=some, _session=session))


def _is_of_spark(one: Any) -> bool:
    return hasattr(one, "runId")


def id_of(one: Any) -> str:
    """The id of a query, of its progress; of cycles, what stands for it."""
    return str(one.id) if _is_of_spark(one) else str(one.query)


def run_of(one: Any) -> str:
    """The same for the run."""
    return str(one.runId) if _is_of_spark(one) else str(one.query)


def number_of(one: Any) -> int:
    """What rises from a micro-batch of a run to the next: cycles may have a number again."""
    cycle = getattr(one, "cycle", None)
    return int(one.batchId if cycle is None else cycle)


def name_of(one: Any) -> str:
    """What a query is called, of its progress: its name, or its id."""
    return getattr(one, "name", None) or id_of(one)


def _duration(one: Any) -> float | None:
    ms = getattr(one, "durationMs", {}).get("triggerExecution")
    return None if ms is None else ms / 1e3


def seconds_of(timestamp: str) -> float:
    """A time as Spark writes it, in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else math.nan


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th and the 99th percentile, by what OpenMetrics calls them."""
    cuts = np.quantile(values, (0.5, 0.95, 0.99)).tolist()
    return dict(zip(("0.5", "0.95", "0.99"), cuts, strict=True))
