"""What queries have done since they are watched: counters from the progress of micro-batches."""

from __future__ import annotations

import math
import statistics
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from bsjoin import kafka
from bsjoin.metrics.progress import is_idle, progress
from bsjoin.metrics.records import CycleProgress
from bsjoin.monitoring.model import (
    BATCHES,
    DURATION,
    JOIN_INFO,
    OF_JOINS,
    OF_ROUTES,
    STARTED,
    UNSEEN,
    Metric,
    Sample,
)

__all__ = ["MicroBatch", "QueryTotals", "Totals", "quantiles", "seconds_of"]

_QUERIES = 64
_KEPT = 100
_JOINS = 64
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
class _Join:
    """The sums and the last values of one join."""

    last: CycleProgress
    values: dict[Metric, Any] = field(default_factory=dict)

    def add(self, cycle: CycleProgress) -> None:
        self.last = cycle
        for one in OF_JOINS:
            value = one.of(cycle)
            if value is None:
                continue
            if one.metric.kind == "counter":
                value += self.values.get(one.metric, 0)
            self.values[one.metric] = value

    def samples(self, query: str) -> Iterator[Sample]:
        cycle = self.last
        labels = query, str(cycle.join), ",".join(cycle.on)
        more = cycle.runtime, cycle.mode, cycle.partition.kind, cycle.table or ""
        yield Sample(JOIN_INFO, (*labels, *more), 1)
        for metric, value in self.values.items():
            if isinstance(value, dict):
                for label, one in value.items():
                    yield Sample(metric, (*labels, label), one)
            else:
                yield Sample(metric, labels, value)


@dataclass
class QueryTotals:
    """What one query has done.

    Args:
        name: what it is called: its name, or its id.
        run: Spark's id of the run.
    """

    name: str
    run: str
    last_batch: int | None = None
    batches: int = 0
    unseen: int = 0
    seconds: float = 0.0
    recent: deque[MicroBatch] = field(default_factory=lambda: deque(maxlen=_KEPT))
    joins: dict[int, _Join] = field(default_factory=dict)
    routes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, batch: MicroBatch) -> None:
        """Add one micro-batch, which comes after all others."""
        if self.last_batch is not None:
            self.unseen += max(0, batch.number - self.last_batch - 1)
        self.last_batch = batch.number
        self.batches += 1
        self.seconds += batch.duration_s or 0.0
        self.recent.append(batch)
        for cycle in batch.joins:
            self.joins.setdefault(cycle.join, _Join(cycle)).add(cycle)
            self.joins[cycle.join] = self.joins.pop(cycle.join)  # the last one
        while len(self.joins) > _JOINS:
            del self.joins[next(iter(self.joins))]
        for route in batch.routes:
            for outcome in _OUTCOMES:
                self.routes[route.topic, outcome] += getattr(route, outcome)

    def samples(self) -> Iterator[Sample]:
        """The values of all metrics."""
        labels = (self.name,)
        yield Sample(BATCHES, labels, self.batches)
        yield Sample(UNSEEN, labels, self.unseen)
        durations = [one.duration_s for one in self.recent if one.duration_s is not None]
        if durations:
            for quantile, value in quantiles(durations).items():
                yield Sample(DURATION, (self.name, quantile), value)
            yield Sample(DURATION, labels, self.seconds, "_sum")
            yield Sample(DURATION, labels, self.batches, "_count")
        if self.recent:
            yield Sample(STARTED, labels, self.recent[-1].timestamp)
        for (topic, outcome), rows in self.routes.items():
            yield Sample(OF_ROUTES, (self.name, topic, outcome), rows)
        for join in self.joins.values():
            yield from join.samples(self.name)


class Totals:
    """What all watched queries have done; for any number of threads."""

    def __init__(self) -> None:
        self._queries: OrderedDict[str, QueryTotals] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, *news: Any, session: Any = None) -> list[MicroBatch]:
        """Add the progress of micro-batches of one query, oldest first; return what was new.

        Args:
            news: Spark's progress, or that of a cycle. What was added before is left out.
            session: the one of the query, under Spark Connect; None (default) for the active one.
        """
        with self._lock:
            fresh = [one for one in news if self._is_new(one)]
            if not fresh:
                return []
            joins: dict[int, list[CycleProgress]] = {}
            # As a query that has these alone, and knows its session.
            for cycle in progress(SimpleNamespace(recentProgress=fresh, _session=session)):
                joins.setdefault(cycle.batch_id, []).append(cycle)
            made = []
            for one in fresh:
                query = self._query(one)
                if query.last_batch is not None and one.batchId <= query.last_batch:
                    continue
                batch = MicroBatch(
                    number=one.batchId,
                    timestamp=seconds_of(one.timestamp),
                    duration_s=_duration(one),
                    rows=getattr(one, "numInputRows", None),
                    joins=joins.get(one.batchId, []),
                    routes=kafka.progress(one),
                )
                query.add(batch)
                made.append(batch)
            return made

    def forget(self, query: str) -> None:
        """Leave a query out from now on.

        Args:
            query: Spark's id of it.
        """
        with self._lock:
            self._queries.pop(query, None)

    def of(self, query: str) -> QueryTotals | None:
        """What a query has done; None if it is not known.

        Args:
            query: Spark's id of it.
        """
        with self._lock:
            return self._queries.get(query)

    def samples(self) -> list[Sample]:
        """The values of all metrics of all queries, those of one metric together."""
        with self._lock:
            found = [sample for query in self._queries.values() for sample in query.samples()]
        order: dict[str, list[Sample]] = {}
        for sample in found:
            order.setdefault(sample.metric.name, []).append(sample)
        return [sample for samples in order.values() for sample in samples]

    def _is_new(self, one: Any) -> bool:
        query = self._queries.get(id_of(one))
        if _is_of_spark(one) and is_idle(one):
            return False
        same = query is not None and query.run == run_of(one)
        return not same or query.last_batch is None or one.batchId > query.last_batch  # type: ignore[union-attr]

    def _query(self, one: Any) -> QueryTotals:
        """The totals of a query; its counters go on when it is started again."""
        query = self._queries.setdefault(id_of(one), QueryTotals(name_of(one), run_of(one)))
        self._queries.move_to_end(id_of(one))
        if query.run != run_of(one):
            query.run, query.last_batch = run_of(one), None
        while len(self._queries) > _QUERIES:
            self._queries.popitem(last=False)
        return query


def _is_of_spark(one: Any) -> bool:
    return hasattr(one, "runId")


def id_of(one: Any) -> str:
    """The id of a query, of its progress; of cycles, what stands for it."""
    return str(one.id) if _is_of_spark(one) else str(one.query)


def run_of(one: Any) -> str:
    """The same for the run."""
    return str(one.runId) if _is_of_spark(one) else str(one.query)


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
    if len(values) == 1:
        return dict.fromkeys(("0.5", "0.95", "0.99"), values[0])
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"0.5": cuts[49], "0.95": cuts[94], "0.99": cuts[98]}
