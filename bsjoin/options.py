"""Options of the caches: frozen dataclasses, checked when they are created."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from bsjoin._secrets import described
from bsjoin.errors import ArgumentError, suggest
from bsjoin.values.durations import seconds
from bsjoin.values.sort_order import sort_orders

ON_COMMIT = "on_commit"
"""The value of ``refresh`` of a table that follows its source."""

EVICTIONS = ("lru", "s3-fifo")
"""The names of :data:`bsjoin.cache.policy.POLICIES`."""

_SMALLEST_SEGMENT, _LARGEST_SEGMENT = 1 << 20, (1 << 31) - (1 << 26)
_MOST_KEPT = (1 << 31) - 2  # the rows that a segment may have, and so a key


@dataclass(frozen=True, kw_only=True, repr=False)
class Full:
    """Full cache: the whole table is indexed once and memory-mapped by every worker.

    Args:
        store: the folder of the table: a local path or an fsspec URL that the driver and all
            workers can access. The table is reused after a restart and is rebuilt only when its
            source has changed. ``None`` (default): a temporary folder on this machine, removed when
            the application ends. In a ``foreachBatch`` function the next micro-batch reuses that
            temporary table; the source is read again unless it cannot have changed. The table of a
            micro-batch is removed when the second micro-batch after it starts, so use a result
            within the call that returned it. (In threads started by the application, and under
            Spark Connect without :func:`bsjoin.reporting`, every call builds its own table.)
        refresh: the interval at which the source is looked at while streams run, and read if it is
            not known to be unchanged (see ``fingerprint``): a ``timedelta``,
            a text such as ``"10 minutes"`` or a number of seconds. A changed table is published as
            a new version, and every stream switches to it at a micro-batch boundary. ``None``
            (default): the source is read once. ``cache="auto"`` sets 10 minutes for a source of
            :mod:`bsjoin.sources`. Or ``"on_commit"``: the version of the source is asked for
            several times a second, as cheaply as it can be, and the table follows it: what has
            changed is applied where the source tells it, else the source is read whole. A join
            of a batch reads the source as it is then, and begins none of this outside of
            ``foreachBatch``.
        version: with ``refresh="on_commit"``, a query of the source's version, for sources that
            tell none: SQL that returns one value, which is another one after each change, such as
            ``"SELECT max(batch) FROM db.loads"``. Name tables in full: each look analyses it in the
            session as it is then. ``None`` (default): the versions of what the DataFrame reads.
        fail_on_data_loss: with ``refresh="on_commit"``, what is done if the source does not have
            the changes any more that it should tell: since its history was vacuumed, a feed was
            switched off, or a slot of PostgreSQL is a new one. False (default): it is read whole,
            with a warning in the log. True: the table stays as it is, and each look fails; as a
            stream goes on, give ``max_staleness``, too.
        max_staleness: how old rows may be at the most, as ``refresh``: a micro-batch before which
            the source was not read, or found unchanged, within that time is not answered, and the
            query ends with a :class:`bsjoin.errors.StaleTableError`. It must be longer than
            ``refresh`` and a refresh together. After a refresh that succeeds, the query continues
            from its checkpoint. ``None`` (default): rows of any age are used.
        unique: whether to declare that no key occurs twice in the table. If True, a build or
            refresh fails on a duplicate key, and the join uses its fastest plan. Default False: a
            table that cannot change during the query still gets that plan if its keys are unique.
        latest_by: one or more columns of the table: of each key it has only the latest row by
            them, the first in their order, as ``row_number()`` in Spark numbers them. Each is a
            name, or a text such as ``"version ASC NULLS LAST"``; without a direction the greatest
            value comes first, and null last. Rows that are equal in these columns are in the order
            of all columns, ascending; so all columns of the source are read, whatever is selected.
            With a range condition: the latest row of a key and point, or interval. Rows whose key
            is null match nothing, and all stay. Default ``()``: all rows; in a ``store`` whose
            table was built with ``latest_by``, the rows by that.
        keep: how many rows of a key ``latest_by`` keeps, 1 to 2147483646; default 1, and keys are
            then ``unique``.
        fingerprint: a text that identifies the state of the source, such as the day of an export.
            With a ``store``, the table is rebuilt if and only if the text differs from the stored
            one. ``None`` (default): tables of Delta and Iceberg are identified by their versions,
            local files by names, sizes and times; every other source is read again at the start.
        segment_bytes: the maximum size of one segment of the table in bytes, 1 MiB to just below 2
            GiB; default 1 GiB. Fewer segments make look-ups faster; a task that writes one needs up
            to twice its size in memory. A table that is there has it from its next version on.

    Raises:
        ArgumentError: a value is out of its range.

    Example:
        >>> Full(refresh="10 minutes").refresh_s
        600.0
        >>> Full(latest_by=["updated_at", "version"]).latest_by
        ('updated_at DESC NULLS LAST', 'version DESC NULLS LAST')
    """

    store: str | os.PathLike[str] | None = None
    refresh: timedelta | str | float | None = None
    version: str | None = None
    fail_on_data_loss: bool = False
    max_staleness: timedelta | str | float | None = None
    unique: bool = False
    latest_by: str | Sequence[str] = ()
    keep: int = 1
    fingerprint: str | None = None
    segment_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        self._check_following()
        if self.refresh is not None and not self.follows and not self.refresh_s > 0:
            raise ArgumentError(f"refresh={self.refresh!r}: an interval must be above zero")
        if self.max_staleness is not None and not self.max_staleness_s > self.refresh_s:
            raise ArgumentError(
                f"max_staleness={self.max_staleness!r}: it must be above zero, and longer than "
                f"refresh={self.refresh!r}: rows grow that old between two refreshes"
            )
        if self.store is not None and not (
            isinstance(self.store, str | os.PathLike) and os.fspath(self.store)
        ):
            raise ArgumentError(
                f"store={self.store!r}: give a folder or URL, or None for a temporary folder"
            )
        if not isinstance(self.unique, bool):
            raise ArgumentError(f"unique={self.unique!r}: give True or False")
        latest_by = sort_orders(self.latest_by, "latest_by", descending=True)
        object.__setattr__(self, "latest_by", latest_by)
        if type(self.keep) is not int or not 1 <= self.keep <= _MOST_KEPT:
            raise ArgumentError(f"keep={self.keep!r}: give a whole number from 1 to {_MOST_KEPT}")
        if self.keep > 1 and not latest_by:
            raise ArgumentError(
                f"keep={self.keep} needs latest_by=: the columns that say which rows of a key are "
                "the latest"
            )
        if self.fingerprint is not None and not (
            isinstance(self.fingerprint, str) and self.fingerprint
        ):
            raise ArgumentError(f"fingerprint={self.fingerprint!r}: give a text, or None")
        if type(self.segment_bytes) is not int:
            raise ArgumentError(f"segment_bytes={self.segment_bytes!r}: give a whole number")
        if not _SMALLEST_SEGMENT <= self.segment_bytes <= _LARGEST_SEGMENT:
            raise ArgumentError(
                f"segment_bytes={self.segment_bytes!r}: it must be {_SMALLEST_SEGMENT} to "
                f"{_LARGEST_SEGMENT}: every segment costs time in every micro-batch, and Arrow "
                "holds less than 2 GiB of text in one column"
            )

    def _check_following(self) -> None:
        if self.version is not None and not (isinstance(self.version, str) and self.version):
            raise ArgumentError(f"version={self.version!r}: give a query in SQL, or None")
        if not isinstance(self.fail_on_data_loss, bool):
            raise ArgumentError(f"fail_on_data_loss={self.fail_on_data_loss!r}: give True or False")
        for name in ("version", "fail_on_data_loss"):
            if getattr(self, name) and not self.follows:
                raise ArgumentError(
                    f"{name}= has no meaning with refresh={self.refresh!r}: give "
                    f'refresh="{ON_COMMIT}", or leave it out'
                )
        if self.follows and self.fingerprint is not None:
            raise ArgumentError(
                f'fingerprint= has no meaning with refresh="{ON_COMMIT}", which asks for the '
                "version of the source: leave it out"
            )

    __repr__ = described

    @property
    def follows(self) -> bool:
        """Whether the table follows the versions of its source."""
        return self.refresh == ON_COMMIT

    @property
    def refresh_s(self) -> float:
        """The refresh interval in seconds; 0 for none, and for a table that follows its source."""
        if self.refresh is None or self.follows:
            return 0.0
        return seconds(self.refresh, "refresh")

    @property
    def max_staleness_s(self) -> float:
        """The greatest age of rows in seconds; 0 for any age."""
        return 0.0 if self.max_staleness is None else seconds(self.max_staleness, "max_staleness")


_Duration = timedelta | str | float


@dataclass(frozen=True, kw_only=True, repr=False)
class Incremental:
    """Incremental cache: the table stays in its source, queried only for the keys in the stream.

    Results of look-ups, including keys that do not exist (negative caching, RFC 2308), are kept in
    memory that all workers of a host share. The cache is bounded and evicts the least recently used
    keys (LRU), or those that ``eviction`` chooses. The bounds apply per host, for any number of
    workers, and per cache: joins of one application share a cache if they use the same source
    object, columns, keys and options. A bound is required: ``max_rows``, ``max_bytes`` or both.

    Args:
        max_rows: the maximum number of rows; a negative entry counts as one row. ``None``
            (default): no bound on rows.
        max_bytes: the maximum number of bytes, keys and metadata included: a number, or a text such
            as ``"512 MB"``. The files in memory take up to twice that, and briefly three times
            during a compaction. ``None`` (default): no bound on bytes.
        eviction: which keys leave a full cache. ``"lru"`` (default): the least recently used ones.
            ``"s3-fifo"``: a key that is used once leaves soon, and keys that were used again stay:
            more hits where many keys occur once, as in scans, and where few keys are hot for
            long; fewer where the hot keys change and the cache is large (J. Yang et al., "FIFO
            queues are all you need for cache eviction", SOSP 2023). It takes up to 32 bytes a key
            beside ``max_bytes`` and more time for an eviction, so it is for sources that are slower
            than that. Joins with different policies have caches of their own.
        ttl: time to live of a row: how long it is used before the source is queried again. A
            ``timedelta``, a text such as ``"10 minutes"`` or a number of seconds. ``None``
            (default): without limit, or until ``source.invalidate``.
        idle_ttl: rows that have not been used for this long are queried again. ``None`` (default):
            no such limit.
        negative: whether to cache that a key does not exist; default True.
        negative_ttl: time to live of a negative entry. ``None`` (default): the same as ``ttl``.
        stale_while_revalidate: how long after its ``ttl`` a row may still be used while the source
            is queried for it in the background, as in RFC 5861. ``None`` (default): not at all; the
            micro-batch waits for the source.
        warm_up: keys to load before the first batch on each host: a list of values, a list of
            tuples for several key columns, or a query that returns the keys (SQL sources). Earlier
            keys are evicted last. ``None`` (default): the cache starts empty.
        on_error: what to do when a look-up and all its retries have failed. ``"fail"`` (default)
            fails the micro-batch; Spark runs it again after a restart. ``"stale"`` uses expired
            rows, and fails if a key has none. ``"null"`` treats the keys as not found, and does not
            cache that. A fault of the data (:class:`bsjoin.errors.DataError`) is not retried and
            starts no cooldown; it concerns only the keys whose rows have it.
        retries: how often a failed look-up is repeated, and the call's question for the columns;
            default 3.
        backoff: the maximum pause before the first retry; default 200 ms. It doubles with each
            retry up to 30 seconds, and the actual pause is a random part of it: exponential backoff
            with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
            2015).
        failure_cooldown: how long the source is not queried after all retries have failed, unless
            ``on_error="fail"``; default 5 seconds. It is the open state of a circuit breaker (M. T.
            Nygard, "Release It!", 2007).
        max_connections: how many workers of a host may be connected to the source's database at the
            same time; default 8. Joins with tables of one database share connections.
        folder: the folder of the cache on every host. ``None`` (default): ``/dev/shm`` if it has
            space when the first worker starts, otherwise the folder for temporary files.
        invalidation_log: a folder or URL that the driver and all workers can access, for
            ``source.invalidate``. ``None`` (default): a temporary folder on this machine, which
            suffices if all workers run on it.

    Raises:
        ArgumentError: a value is out of its range, or the cache would be unbounded.

    Example:
        >>> Incremental(max_rows=100_000, ttl="10 minutes").ttl_s
        600.0
    """

    max_rows: int | None = None
    max_bytes: int | str | None = None
    eviction: Literal["lru", "s3-fifo"] = "lru"
    ttl: _Duration | None = None
    idle_ttl: _Duration | None = None
    negative: bool = True
    negative_ttl: _Duration | None = None
    stale_while_revalidate: _Duration | None = None
    warm_up: Sequence[Any] | str | None = field(default=None, hash=False)
    on_error: Literal["fail", "stale", "null"] = "fail"
    retries: int = 3
    backoff: _Duration = "200 ms"
    failure_cooldown: _Duration = "5 seconds"
    max_connections: int = 8
    folder: str | os.PathLike[str] | None = None
    invalidation_log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.max_rows is None and self.max_bytes is None:
            raise ArgumentError(
                "Incremental() needs max_rows= or max_bytes=: a cache without a bound grows "
                "until the host has no memory left"
            )
        for name, least in (("max_rows", 1), ("retries", 0), ("max_connections", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ArgumentError(f"{name}={value!r}: give a whole number of {least} or more")
        if self.max_bytes is not None:
            _bytes(self.max_bytes, "max_bytes")
        for name in (
            "ttl",
            "idle_ttl",
            "negative_ttl",
            "stale_while_revalidate",
            "backoff",
            "failure_cooldown",
        ):
            value = getattr(self, name)
            if value is not None and not seconds(value, name) > 0:
                raise ArgumentError(f"{name}={value!r}: it must be above zero, or left out")
        if not isinstance(self.negative, bool):
            raise ArgumentError(f"negative={self.negative!r}: give True or False")
        if not self.negative and self.negative_ttl is not None:
            raise ArgumentError("negative_ttl has no meaning with negative=False; leave it out")
        if (
            self.stale_while_revalidate is not None
            and self.ttl is None
            and self.negative_ttl is None
        ):
            raise ArgumentError(
                "stale_while_revalidate= needs ttl=: without it no entry ever expires"
            )
        for name, names in (("on_error", ("fail", "stale", "null")), ("eviction", EVICTIONS)):
            value = getattr(self, name)
            if value not in names:
                raise ArgumentError(
                    f"{name}={value!r} is none of {', '.join(map(repr, names))}. "
                    + suggest(str(value), names)
                )
        for name in ("folder", "invalidation_log"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str | os.PathLike) and str(value)):
                raise ArgumentError(f"{name}={value!r}: give a folder, or None")

    __repr__ = described

    @property
    def ttl_s(self) -> float | None:
        """The time to live in seconds; None for no limit."""
        return None if self.ttl is None else seconds(self.ttl, "ttl")

    @property
    def most_bytes(self) -> int | None:
        """``max_bytes`` as a number of bytes; None for no limit."""
        return None if self.max_bytes is None else _bytes(self.max_bytes, "max_bytes")


_BYTES = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SMALLEST_CACHE = 1 << 10


def _bytes(value: int | str, name: str) -> int:
    """Read a number of bytes: a whole number, or a text such as "512 MB"."""
    number: float | None = None
    if isinstance(value, str):
        part = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", value)
        if part and part[2].lower() in _BYTES:
            number = float(part[1]) * _BYTES[part[2].lower()]
    elif type(value) is int:
        number = value
    if number is None or number < _SMALLEST_CACHE:
        raise ArgumentError(
            f"{name}={value!r}: give a whole number of bytes, {_SMALLEST_CACHE} or more, or a text "
            'such as "512 MB" or "2 GiB"'
        )
    return int(number)
