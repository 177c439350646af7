"""Records of joins that travel: what is counted of one, and what it is called.

Tasks of Python write these records (``runtimes/python/worker/``), and operators of the JVM
(``Figures.java``); :mod:`bsjoin.metrics.progress` reads them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(kw_only=True)
class LookupMetrics:
    """The counts of one look-up in an incremental cache; ``CacheProgress`` says of what.

    Args:
        partition: of the task; None (default) if it is unknown.
        load_ms: the duration of each query, in milliseconds.
        sampled: how many rows.
        hottest: keys as texts, and how often each is among the sampled rows.
        host: its name; empty (default) if it is unknown.
    """

    partition: int | None = None
    hits: int = 0
    negative_hits: int = 0
    misses: int = 0
    keys_queried: int = 0
    load_ms: list[float] = field(default_factory=list)
    retries: int = 0
    failed_keys: int = 0
    stale_rows: int = 0
    evictions: int = 0
    sampled: int = 0
    hottest: list[tuple[str, int]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    host: str = ""

    @property
    def looked_up(self) -> int:
        """All rows of the stream that had a key."""
        return self.hits + self.negative_hits + self.misses


@dataclass(kw_only=True)
class JoinMetrics:
    """The counts of one join; ``CycleProgress`` says of what.

    Args:
        lookup_ns: nanoseconds of look-ups and reading, in Python.
        open_ns: nanoseconds that tasks waited for the table's files, in the JVM.
        version: the newest version of the table that was used; None (default) without one.
        cache: of each look-up in an incremental cache.
    """

    rows_in: int = 0
    hits: int = 0
    matches: int = 0
    rows_out: int = 0
    lookup_ns: int = 0
    open_ns: int = 0
    version: int | None = None
    cache: list[LookupMetrics] = field(default_factory=list)

    def add(self, other: JoinMetrics) -> None:
        """Add what was counted of other rows of the same join."""
        self.rows_in += other.rows_in
        self.hits += other.hits
        self.matches += other.matches
        self.rows_out += other.rows_out
        self.lookup_ns += other.lookup_ns
        self.open_ns += other.open_ns
        if other.version is not None:
            self.version = max(other.version, self.version or 0)
        self.cache += other.cache

    def count(self, how: str, rows: int, hits: int, matches: int) -> None:
        """Count rows of the stream; in semi and anti joins those with a match are the matches."""
        misses = rows - hits
        matches = hits if how in ("semi", "anti") else matches
        self.rows_in += rows
        self.hits += hits
        self.matches += matches
        self.rows_out += {
            "inner": matches, "left": matches + misses, "semi": hits, "anti": misses
        }[how]  # fmt: skip

    @contextlib.contextmanager
    def timed(self) -> Iterator[JoinMetrics]:
        """Add the time of a block to that of look-ups."""
        begun = time.perf_counter_ns()
        yield self
        self.lookup_ns += time.perf_counter_ns() - begun


@dataclass(frozen=True, kw_only=True)
class JoinLabel:
    """The facts about a join that are known before it runs.

    Args:
        label: its number in the application and its columns of the stream, ``'7:["k"]'``.
        mode: of its cache.
        partitioned: how its rows are sent to partitions.
        runtime: what runs it.
        reason: why it is not the JVM; empty by default.
        batch: Spark's id of the query, or what stands for it, and the number of the micro-batch
            that the join was planned for; None (default) where it is not planned for a single one.
    """

    label: str
    mode: Literal["full", "incremental"]
    partitioned: Literal["none", "hash", "hotspot"]
    runtime: Literal["jvm", "python"]
    reason: str = ""
    batch: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class OperatorMetrics:
    """A join that an operator of the JVM has executed.

    Args:
        batch: the number of the micro-batch.
        execution: Spark's id of the action.
        inner: whether that is of a function for ``foreachBatch``.
        label: what :func:`bsjoin.metrics.observing.label_of` says; None for a plain join.
        kind: the type of the join, in the JVM's words.
        table: what the query calls the table.
        path: of the table.
        on: the stream's key columns.
        metrics: what was counted.
    """

    batch: int
    execution: str | None
    inner: bool
    label: JoinLabel | None
    kind: str
    table: str | None
    path: str
    on: tuple[str, ...]
    metrics: JoinMetrics
