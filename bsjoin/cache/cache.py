"""The cache of a host: looks up, claims, stores and invalidates whole batches of keys.

An entry is a key with all its rows; an entry without rows is a negative entry: the key does not
exist. Readers hold the lock while they read two numbers; writers hold it for the whole operation,
but never during a query of the source (docs/decisions/0005-shared-cache.md).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bsjoin.cache.columns import row_bytes
from bsjoin.cache.content import Content
from bsjoin.cache.entry_state import CacheLimits, Found, State, classify
from bsjoin.cache.generation import ENTRY, Generation
from bsjoin.cache.locks import HostLock
from bsjoin.cache.memory import Int64s

_log = logging.getLogger("bsjoin")

ENTRY_BYTES = ENTRY.itemsize + 16
"""The bytes of an entry besides its key and its rows: its record and its slots."""


class HostCache:
    """A bounded cache that all processes of a host share; its eviction policy is LRU by default.

    Args:
        folder: the cache's folder, which must exist. The first process creates the cache in it.
        keys: the types of the key columns. Floating-point keys must be canonical: one NaN, no
            -0.0.
        rows: the types of the columns of a row.
        limits: the bounds, times to live and eviction policy; the same in every process.
        exact: whether equal hashes mean equal keys.

    Raises:
        OSError: there is no space for the cache, or the system has no ``flock`` (Windows).
        ArgumentError: the cache in ``folder`` has another eviction policy.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> limits = CacheLimits(max_rows=100)
        >>> types = [pa.int64()], [pa.string()]
        >>> cache = HostCache(Path(folder.name), *types, limits, exact=True)
        >>> hashes, keys = np.array([7, 8]), [pa.array([7, 8])]
        >>> found, ticks = cache.find(hashes, keys, now_us=0)
        >>> cache.claim(hashes, keys, ticks, now_us=0).states.tolist() == [State.MINE] * 2
        True
        >>> rows = [pa.array(["a"])]  # key 7 has one row, key 8 has none
        >>> cache.put(hashes, keys, np.array([1, 0]), rows, ticks, now_us=0, invalidations=0)
        0
        >>> found, _ = cache.find(hashes, keys, now_us=1)
        >>> found.states.tolist() == [State.HIT, State.ABSENT]
        True
        >>> found.view.rows.gather(found.first[:1])[0].to_pylist()
        ['a']
        >>> folder.cleanup()
    """

    def __init__(
        self,
        folder: Path,
        keys: Sequence[pa.DataType],
        rows: Sequence[pa.DataType],
        limits: CacheLimits,
        *,
        exact: bool,
    ):
        self._folder, self.limits = folder, limits
        self._lock = HostLock(folder / "lock")
        with self._lock.exclusive():
            self._content = Content(folder, (tuple(keys), tuple(rows), exact), limits)
        self.header = self._content.header

    def find(self, hashes: Int64s, keys: Sequence[pa.Array], now_us: int) -> tuple[Found, Int64s]:
        """Look up keys, and record their uses in the order of the batch.

        The search itself takes no lock. The uses of the whole batch are then recorded atomically,
        under the lock, so that the uses of all processes have one total order.

        Args:
            hashes: int64[m].
            keys: the m keys, column by column; no null.
            now_us: the time, in microseconds, by a clock of the host.

        Returns:
            The state and the rows of each key; and int64[m] ticks, the position of each key in the
            order of uses, to be passed to :meth:`claim` and :meth:`put` for the missing keys.

        Complexity: O(m) expected.
        """
        with self._lock.shared():
            view, count = self._content.view()
            writes = self.header.writes
        found = self._states(view, count, hashes, keys, now_us)
        hits = found.usable
        with self._lock.exclusive():
            ticks = np.arange(self.header.ticks, self.header.ticks + len(hashes))
            self.header.ticks += len(hashes)
            used, which = found, hits
            if self.header.writes != writes:
                used = self._as_of_now(found, hashes, keys, now_us)
                which = used.usable
            ids, uses = used.ids, ticks
            if not which.all():
                ids, uses = ids[which], ticks[which]
            self._content.touch(used.view, ids, uses, now_us, newest=True)
        return found, ticks

    def _as_of_now(
        self, found: Found, hashes: Int64s, keys: Sequence[pa.Array], now_us: int
    ) -> Found:
        """The state of the keys, under the lock: ``found``, or a new result if entries moved."""
        view, count = self._content.view()
        ids = found.ids[found.usable]
        if view is found.view and not (len(ids) and view.entries(count)["dead"][ids].any()):
            return found
        return self._states(view, count, hashes, keys, now_us)

    def _states(
        self,
        view: Generation,
        count: int,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        now_us: int,
    ) -> Found:
        return classify(view, view.find(hashes, keys, count)[0], count, self.limits, now_us)

    def held(self) -> tuple[int, int]:
        """The number of rows and bytes in the cache; within the bounds."""
        with self._lock.shared():
            return self.header.live_rows, self.header.live_bytes

    def claim(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        ticks: Int64s,
        now_us: int,
        *,
        refresh: bool = False,
    ) -> Found:
        """Claim missing keys, so that only one process queries the source for each (single flight).

        Args:
            hashes: int64[d], of different keys.
            keys: the d keys.
            ticks: int64[d], the last use of each key, from :meth:`find`; recorded for keys that
                another process has loaded meanwhile.
            now_us: the time, in microseconds, by a clock of the host.
            refresh: whether to claim stale entries too; default False.

        Returns:
            The current state of each key; ``MINE`` for the claimed keys, for which the caller must
            call :meth:`put` or :meth:`release`. A claim ends with its process. Without memory for
            the claims every missing key is ``MINE``.
        """
        try:
            with self._writing():
                return self._content.claim(hashes, keys, ticks, now_us, refresh=refresh)
        except OSError as error:  # no memory: every process queries the keys it needs
            self._complain(error)
            with self._lock.shared():
                view, count = self._content.view()
            found = self._states(view, count, hashes, keys, now_us)
            found.states[~found.usable] = State.MINE
            return found

    def put(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        counts: Int64s,
        rows: Sequence[pa.Array],
        ticks: Int64s,
        now_us: int,
        invalidations: int,
    ) -> int:
        """Store the rows of claimed keys, and evict what the policy chooses.

        Args:
            hashes: int64[d], of different keys that this process has claimed.
            keys: the d keys.
            counts: int64[d], the number of rows of each key; 0 makes a negative entry.
            rows: the columns of these rows, key after key.
            ticks: int64[d], the last use of each key, from :meth:`find`.
            now_us: the time of the query, in microseconds, by the same clock.
            invalidations: ``header.invalidations`` at the time of the query; nothing is stored
                if it has changed since.

        Returns:
            The number of evicted entries.

        Complexity: O(d) amortised, the copies of compactions included.
        """
        sizes = row_bytes(keys, len(hashes)) + ENTRY_BYTES
        sizes += _sums(row_bytes(rows, int(counts.sum())), counts)
        try:
            with self._writing():
                if invalidations != self.header.invalidations:
                    self._content.release(hashes, keys, restore=True)
                    return 0
                ticks = self._content.last_uses(hashes, keys, ticks)
                keep, gone_before = self._content.policy.admit(self.limits, counts, sizes, ticks)
                if not keep.all():
                    rest, kept = np.flatnonzero(~keep), np.flatnonzero(keep)
                    self._content.release(hashes[rest], _take(keys, rest), restore=False)
                    rows = _take(rows, np.flatnonzero(np.repeat(keep, counts)))
                    hashes, keys, counts = hashes[kept], _take(keys, kept), counts[kept]
                    sizes, ticks = sizes[kept], ticks[kept]
                if not len(hashes):
                    return 0
                self._content.store(hashes, keys, counts, rows, sizes, ticks, now_us)
                return self._content.evict(gone_before)
        except OSError as error:  # no memory: the result is correct without a cache too
            self._complain(error)
            self.release(hashes, keys)
            return 0

    def release(self, hashes: Int64s, keys: Sequence[pa.Array]) -> None:
        """Release the claims on ``keys`` with these ``hashes``; restores their previous state."""
        try:
            with self._writing():
                self._content.release(hashes, keys, restore=True)
        except OSError as error:
            self._complain(error)
            with self._lock.exclusive():
                self._content.join()  # as a new member: the claims then belong to a dead process

    def invalidate(self, hashes: Int64s | None, keys: Sequence[pa.Array]) -> int:
        """Invalidate some ``keys`` with their ``hashes``, or all keys (``hashes=None``).

        Results of queries in progress are not stored either.

        Returns:
            The number of invalidated entries.
        """
        try:
            with self._writing():
                return self._content.invalidate(hashes, keys)
        except OSError as error:  # no memory to recover what a writer has left: marks need none
            self._complain(error)
            with self._lock.exclusive():
                return self._content.invalidate(hashes, keys)

    def begin_invalidations(self, last: int) -> None:
        """Count invalidations from the one after ``last`` on, unless another process has begun."""
        with self._lock.exclusive():
            if self.header.last_invalidation == 0:
                self.header.last_invalidation = last + 1

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock.exclusive():
            if self.header.dirty:  # a writer died or failed: recover what it had completed
                self._content.compact()
            self.header.writes += 1
            self.header.dirty = 1
            yield
            self.header.dirty = 0

    def _complain(self, error: OSError) -> None:
        _log.warning("bsjoin: the cache in %s has no room (%s)", self._folder, error)


def _take(arrays: Sequence[pa.Array], where: Int64s) -> list[pa.Array]:
    indices = pa.array(where)
    return [array.take(indices) for array in arrays]


def _sums(values: Int64s, counts: Int64s) -> Int64s:
    """Sums over consecutive runs of ``counts`` values."""
    ends = np.concatenate(([0], np.cumsum(values)))
    last = np.cumsum(counts)
    return np.asarray(ends[last] - ends[last - counts])
