"""The records that ``bsjoin.progress`` returns: a join in one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bsjoin.metrics.refreshes import RefreshProgress
from bsjoin.storage.source_version import SourceVersion


@dataclass(frozen=True, kw_only=True)
class CacheProgress:
    """Metrics of an incremental cache in one micro-batch, summed over all workers.

    Args:
        hits: rows of the stream whose key was in the cache with at least one row.
        negative_hits: rows whose key was cached as not existing in the source.
        misses: rows whose key was queried in the source, or loaded by another worker meanwhile.
        lookups: look-ups in the source.
        keys_queried: distinct keys in these look-ups.
        load_ms_p50: median duration of a look-up in milliseconds; 0 without look-ups.
        load_ms_p95: 95th percentile of the duration in milliseconds.
        load_ms_p99: 99th percentile of the duration in milliseconds.
        retries: retries of failed look-ups.
        failed_keys: keys treated as not found because the source did not answer
            (``on_error="null"``).
        stale_rows: rows of the stream that matched expired rows while these were refreshed
            (``stale_while_revalidate=``), plus keys that did because the source did not answer
            (``on_error="stale"``).
        evictions: keys evicted.
        rows: rows in the cache, on the host with the most; a negative entry counts as one, and 0 is
            told where no task used it.
        bytes: bytes in the cache, on the host with the most; likewise.
        hottest: up to 10 of the most frequent keys and their share of the rows, from a sample,
            most frequent first; keys below about 1 % of the rows are not detected.
        hosts: of each host whose cache was used, its name, and the rows and bytes in its cache;
            empty by default.
    """

    hits: int
    negative_hits: int
    misses: int
    lookups: int
    keys_queried: int
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
    hosts: tuple[tuple[str, int, int], ...] = ()

    @property
    def hit_rate(self) -> float:
        """The share of rows answered from the cache, negative hits included; 0 without rows."""
        rows = self.hits + self.negative_hits + self.misses
        return (self.hits + self.negative_hits) / rows if rows else 0.0

    @property
    def keys_per_lookup(self) -> float:
        """The mean number of keys per look-up; 0 without look-ups."""
        return self.keys_queried / self.lookups if self.lookups else 0.0


@dataclass(frozen=True, kw_only=True)
class PartitionProgress:
    """The distribution of the rows of one micro-batch over the partitions of a join.

    Args:
        kind: "none", "hash" or "hotspot".
        reason: why the rows were, or were not, shuffled.
        rule_version: the version of the rule; None (default) without a rule.
        rows: rows of each partition; empty (default) if they are not counted.
        skew: DS of the micro-batch under its rule (Formula 3 of the BS-Join paper): the standard
            deviation of ``rows`` over their mean; None (default) if they are not counted.
        skew_by_hash: an estimate from the sample of DS under hash partitioning; None (default)
            without a sample.
        hottest: up to 10 of the most frequent keys and their share of the rows, from the sample,
            most frequent first; empty by default.
    """

    kind: Literal["none", "hash", "hotspot"]
    reason: str
    rule_version: int | None = None
    rows: tuple[int, ...] = ()
    skew: float | None = None
    skew_by_hash: float | None = None
    hottest: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlacementProgress:
    """The workers of a join's tasks in one micro-batch (``placement=`` of :func:`bsjoin.cycles`).

    Args:
        action: the controller's action before the micro-batch: "place", "repair", "move", "none",
            or "failed".
        reason: why, in words: whose answer it is (the policy's, the rebalancer's, the search's), or
            why the present placement is kept; and what the scaler said.
        partitions: the number of tasks of the join.
        requested: tasks requested to run on a certain worker; Spark placed the others.
        landed: how many of these ran on the requested worker; None if Spark's task metrics were
            not available.
        workers: how many tasks ran on each worker ("host/executor").
        rent: what the workers that ran tasks cost over the controller's horizon, in $ (1 $/s each
            without prices), whatever the policy is for; None (default) if it is not known.
    """

    action: str
    reason: str
    partitions: int
    requested: int
    landed: int | None
    workers: tuple[tuple[str, int], ...]
    rent: float | None = None


@dataclass(frozen=True, kw_only=True)
class CycleProgress:
    """Metrics of one join in one micro-batch.

    Args:
        join: the number of the join within the application.
        on: the stream's key columns, followed by those of a range condition.
        batch_id: Spark's number of the micro-batch.
        timestamp: when the micro-batch started, as in Spark's progress (ISO 8601, UTC).
        rows_in: rows of the stream that were looked up.
        rows_out: rows of the join's result.
        hits: rows of the stream whose key is in the table; in a range join, rows that have a match.
        misses: rows whose key is not in the table or null; in a range join, rows without a match.
        matches: pairs of a stream's row and a table's row; for semi and anti joins, the hits.
        lookup_ms: milliseconds of look-ups and gathering, summed over all workers; None where
            Spark's generated code does them, which does not time them.
        mode: "full" or "incremental".
        table_version: the version of the table that the micro-batch used; None for an incremental
            cache, and in Python without rows.
        cache: metrics of the incremental cache; None for a full cache.
        partition: how the rows were distributed over the join's partitions.
        runtime: what ran the join: "jvm" (Spark's generated code) or "python" (its workers).
        runtime_reason: why not the JVM; empty for it.
        placement: where its tasks ran; None (default) unless :func:`bsjoin.cycles` places them.
        refresh: how the refreshes of the table went, as of this call and not of the micro-batch
            (under Spark Connect, of joins that :func:`bsjoin.reporting` reports: of that); None
            (default) for an incremental cache, and where this application did not build it.
        table: what a plain join, in SQL or with DataFrames, calls its table; None (default) for
            :func:`bsjoin.join`.
        open_ms: milliseconds that the tasks waited for the table's files, summed over all; None
            (default) in Python, which does not time them.
        source: the version of the table's source that ``table_version`` has; None (default) where
            this application has not made that version of a source whose versions are known:
            :meth:`bsjoin.BatchTable.versions` has that, too.
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
    lookup_ms: float | None
    mode: Literal["full", "incremental"]
    table_version: int | None
    cache: CacheProgress | None
    partition: PartitionProgress
    runtime: Literal["jvm", "python"]
    runtime_reason: str
    placement: PlacementProgress | None = None
    refresh: RefreshProgress | None = None
    table: str | None = None
    open_ms: float | None = None
    source: SourceVersion | None = None

    @property
    def hit_rate(self) -> float:
        """Hits per row of the stream; 0 without rows."""
        return self.hits / self.rows_in if self.rows_in else 0.0


def hit_ratio(cycle: CycleProgress) -> float | None:
    """The share of rows with a match; None without rows."""
    return cycle.hit_rate if cycle.rows_in else None


def cached_ratio(cycle: CycleProgress) -> float | None:
    """The share of rows answered from an incremental cache; None without rows that have a key."""
    cache = cycle.cache
    return cache.hit_rate if cache and cache.hits + cache.negative_hits + cache.misses else None
