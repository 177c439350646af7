"""The metrics that monitoring shows: names, types, units, and where their values come from.

The names follow OpenMetrics: base units, the unit at the end, ``_total`` behind counters. All forms
(text, Spark's metrics system, OpenTelemetry, the page, the reference) are made of this list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bsjoin.metrics.records import (
    CacheProgress,
    CycleProgress,
    PlacementProgress,
    cached_ratio,
    hit_ratio,
)
from bsjoin.metrics.refreshes import RefreshProgress

Kind = Literal["counter", "gauge", "info", "summary"]
Value = float | Mapping[str, float] | None


@dataclass(frozen=True)
class Metric:
    """A metric, which OpenMetrics calls a metric family.

    Args:
        name: without the suffix of its samples, ``_total`` of a counter for instance.
        kind: the type, as OpenMetrics has it. A summary has a sample for each quantile.
        unit: with which the name ends; empty for a mere number.
        help: what it is.
        labels: the names of its labels.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...]

    @property
    def sample(self) -> str:
        """The name of its samples."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


@dataclass(frozen=True)
class Sample:
    """A value of a metric.

    ``suffix`` of the name is ``"_count"`` or ``"_sum"`` of a summary; empty (default) otherwise.
    """

    metric: Metric
    labels: tuple[str, ...]
    value: float
    suffix: str = ""

    @property
    def name(self) -> str:
        """The name of the sample, as OpenMetrics writes it."""
        return self.metric.sample + self.suffix

    @property
    def attributes(self) -> dict[str, str]:
        """The labels by name; the quantile is not one of a count or a sum."""
        return dict(zip(self.metric.labels, self.labels, strict=False))


@dataclass(frozen=True)
class JoinMetric:
    """A metric of joins, and how it is read.

    Args:
        metric: the metric.
        of: its value in one micro-batch, of a counter what is added; by the value of the last label
            where there is one more. None for none.
        is_sum: whether the value of a counter is its sum already: what the application has done so
            far. Default False.
    """

    metric: Metric
    of: Callable[[CycleProgress], Value]
    is_sum: bool = False


_JOIN = ("query", "join", "on")


def _join(
    name: str,
    kind: Kind,
    unit: str,
    told: str,
    of: Callable[[CycleProgress], Value],
    *more: str,
) -> JoinMetric:
    return JoinMetric(Metric(f"bsjoin_{name}", kind, unit, told, (*_JOIN, *more)), of)


def _cache(
    name: str,
    kind: Kind,
    unit: str,
    told: str,
    of: Callable[[CacheProgress], Value],
    *more: str,
) -> JoinMetric:
    def in_cache(cycle: CycleProgress) -> Value:
        return None if cycle.cache is None else of(cycle.cache)

    return _join(f"cache_{name}", kind, unit, told, in_cache, *more)


def _placement(
    name: str, unit: str, told: str, of: Callable[[PlacementProgress], Value], *more: str
) -> JoinMetric:
    def placed(cycle: CycleProgress) -> Value:
        return None if cycle.placement is None else of(cycle.placement)

    return _join(f"placement_{name}", "gauge", unit, told, placed, *more)


def _milliseconds(value: float | None) -> float | None:
    return None if value is None else value / 1e3


def _refreshed(cycle: CycleProgress) -> float | None:
    last = cycle.refresh
    if last is None or last.last_success is None:
        return None
    return last.last_success.timestamp()


def _followed(
    name: str, kind: Kind, unit: str, told: str, of: Callable[[RefreshProgress], float | None]
) -> JoinMetric:
    """Of a table that follows its source; counters are of the application, since its start."""

    def value(cycle: CycleProgress) -> float | None:
        last = cycle.refresh
        return None if last is None or last.source is None else of(last)

    return JoinMetric(Metric(f"bsjoin_table_{name}", kind, unit, told, _JOIN), value, is_sum=True)


def _load(cache: CacheProgress) -> Mapping[str, float] | None:
    if not cache.lookups:
        return None
    quantiles = (cache.load_ms_p50, cache.load_ms_p95, cache.load_ms_p99)
    return {q: ms / 1e3 for q, ms in zip(("0.5", "0.95", "0.99"), quantiles, strict=True)}


def _by_partition(cycle: CycleProgress) -> Mapping[str, float] | None:
    return {str(number): rows for number, rows in enumerate(cycle.partition.rows)} or None


BATCHES = Metric("bsjoin_micro_batches", "counter", "", "Micro-batches that were seen.", ("query",))
UNSEEN = Metric(
    "bsjoin_unseen_micro_batches",
    "counter",
    "",
    "Micro-batches of which Spark had dropped the progress before it was read.",
    ("query",),
)
DURATION = Metric(
    "bsjoin_micro_batch_duration_seconds",
    "summary",
    "seconds",
    "How long micro-batches took: quantiles of the last 100, and the sum and number of all.",
    ("query", "quantile"),
)
STARTED = Metric(
    "bsjoin_last_micro_batch_timestamp_seconds",
    "gauge",
    "seconds",
    "When the last micro-batch started, in seconds since the epoch.",
    ("query",),
)
OF_QUERIES = (BATCHES, UNSEEN, DURATION, STARTED)
"""Those of a query."""

ROUTED = Metric(
    "bsjoin_kafka_routed_rows",
    "counter",
    "rows",
    "Rows that bsjoin.kafka.route sent: found, waiting (to be tried again) or expired; recovered "
    "are those of the found ones that had to wait.",
    ("query", "topic", "outcome"),
)
WAITING = Metric(
    "bsjoin_kafka_waiting_rows",
    "gauge",
    "rows",
    "Rows that wait after the last micro-batch of a query that reads the retry topic of "
    "bsjoin.kafka.route: those that it sent there, and those there that it has not read yet.",
    ("query", "topic"),
)
OF_ROUTES = (ROUTED, WAITING)
"""Those of ``bsjoin.kafka.route``."""

JOIN_INFO = Metric(
    "bsjoin_join",
    "info",
    "",
    "What runs the join, how its table is cached, and how its rows are sent to partitions.",
    (*_JOIN, "runtime", "mode", "partition", "table"),
)

OF_JOINS = (
    _join("input_rows", "counter", "rows", "Rows of the stream that were looked up.",
          lambda c: c.rows_in),
    _join("output_rows", "counter", "rows", "Rows of the join's result.", lambda c: c.rows_out),
    _join("hit_rows", "counter", "rows", "Rows of the stream with a match.", lambda c: c.hits),
    _join("missed_rows", "counter", "rows", "Rows of the stream without a match.",
          lambda c: c.misses),
    _join("matches", "counter", "", "Pairs of a stream's row and a table's row.",
          lambda c: c.matches),
    _join("hit_ratio", "gauge", "ratio", "Share of rows with a match, in the last micro-batch.",
          hit_ratio),
    _join("lookup_seconds", "counter", "seconds",
          "Time of look-ups and gathering in Python workers, summed over tasks.",
          lambda c: _milliseconds(c.lookup_ms)),
    _join("open_seconds", "counter", "seconds",
          "Time that tasks in the JVM waited for the table's files, summed over tasks.",
          lambda c: _milliseconds(c.open_ms)),
    _join("table_version", "gauge", "", "The version of the table that was used last.",
          lambda c: c.table_version),
    _join("table_refresh_timestamp_seconds", "gauge", "seconds",
          "When the last refresh that succeeded began to read, in seconds since the epoch.",
          _refreshed),
    _join("table_refresh_failed", "gauge", "", "1 if the last refresh of the table failed, else 0.",
          lambda c: None if c.refresh is None else float(c.refresh.is_failing)),
    _followed("lag_seconds", "gauge", "seconds",
              "How long after its commit the last version of the source was to be had in the "
              "table.", lambda r: r.lag_s),
    _followed("applied_versions", "counter", "versions",
              "Versions of the table that were made of what the source says has changed.",
              lambda r: r.applied),
    _followed("read_whole_versions", "counter", "versions",
              "Versions of the table, after the first, for which the source was read whole.",
              lambda r: r.read_whole),
    _cache("hit_rows", "counter", "rows", "Rows whose key was in the incremental cache.",
           lambda c: c.hits),
    _cache("negative_hit_rows", "counter", "rows", "Rows whose key was cached as missing.",
           lambda c: c.negative_hits),
    _cache("missed_rows", "counter", "rows", "Rows whose key was not in the incremental cache.",
           lambda c: c.misses),
    _join("cache_hit_ratio", "gauge", "ratio",
          "Share of rows answered from the incremental cache, in the last micro-batch.",
          cached_ratio),
    _cache("lookups", "counter", "", "Look-ups in the source.", lambda c: c.lookups),
    _cache("queried_keys", "counter", "keys", "Distinct keys in look-ups.",
           lambda c: c.keys_queried),
    _cache("lookup_duration_seconds", "summary", "seconds",
           "How long look-ups in the source took, in the last micro-batch that had some.",
           _load, "quantile"),
    _cache("retries", "counter", "", "Retries of failed look-ups.", lambda c: c.retries),
    _cache("failed_keys", "counter", "keys",
           "Keys taken as not found because the source did not answer.", lambda c: c.failed_keys),
    _cache("stale_rows", "counter", "rows", "Rows and keys that matched expired rows.",
           lambda c: c.stale_rows),
    _cache("evicted_keys", "counter", "keys", "Keys evicted.", lambda c: c.evictions),
    _cache("size_rows", "gauge", "rows",
           "Rows in the cache of each host that the last micro-batch used.",
           lambda c: {host: rows for host, rows, _ in c.hosts} or None, "host"),
    _cache("size_bytes", "gauge", "bytes",
           "Bytes in the cache of each host that the last micro-batch used.",
           lambda c: {host: held for host, _, held in c.hosts} or None, "host"),
    _join("partition_rows", "gauge", "rows",
          "Rows of each partition, in the last micro-batch that counted them.", _by_partition,
          "partition"),
    _join("partition_skew_ratio", "gauge", "ratio",
          "DS of the last micro-batch under its rule: standard deviation over mean.",
          lambda c: c.partition.skew),
    _join("partition_hash_skew_ratio", "gauge", "ratio",
          "An estimate of DS under hash partitioning.", lambda c: c.partition.skew_by_hash),
    _join("partition_rule_version", "gauge", "", "The version of the partition rule.",
          lambda c: c.partition.rule_version),
    _placement("partitions", "", "Tasks of the join that are placed.", lambda p: p.partitions),
    _placement("requested_tasks", "tasks", "Tasks requested to run on a certain worker.",
               lambda p: p.requested),
    _placement("landed_tasks", "tasks", "Those of them that ran there.", lambda p: p.landed),
    _placement("rent_dollars", "dollars",
               "Rent of the workers in use over the controller's horizon.", lambda p: p.rent),
    _placement("worker_tasks", "tasks", "Tasks that ran on each worker.",
               lambda p: dict(p.workers) or None, "worker"),
)  # fmt: skip
"""Those of a join."""


def metrics() -> tuple[Metric, ...]:
    """All metrics, in the order in which they are shown."""
    return (*OF_QUERIES, *OF_ROUTES, JOIN_INFO, *(one.metric for one in OF_JOINS))
