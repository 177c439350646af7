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
from numpy.typing import NDArray

from bsjoin.shared.columns import row_bytes
from bsjoin.shared.compaction import copy, survivors
from bsjoin.shared.entry_state import CacheLimits, Found, State, classify
from bsjoin.shared.generation import ENTRY, PENDING, Generation
from bsjoin.shared.header import Header
from bsjoin.shared.locks import HostLock, Membership
from bsjoin.shared.recency import Recency, admissible, live_entries

__all__ = ["ENTRY_BYTES", "HostCache"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_log = logging.getLogger("bsjoin")

ENTRY_BYTES = ENTRY.itemsize + 16
"""The bytes of an entry besides its key and its rows: its record and its slots."""

_SPARE = 4096
_MOST = np.iinfo(np.int64).max


class HostCache:
    """A bounded LRU cache that all processes of a host share.

    Args:
        folder: the cache's folder, which must exist. The first process creates the cache in it.
        keys: the types of the key columns. Floating-point keys must be canonical: one NaN, no
            -0.0.
        rows: the types of the columns of a row.
        limits: the bounds and times to live; the same in every process.
        exact: whether equal hashes mean equal keys.

    Raises:
        OSError: there is no space for the cache, or the system has no ``flock`` (Windows).

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
        self._folder = folder
        self._types = (tuple(keys), tuple(rows), exact)
        self.limits = limits
        self._lock = HostLock(folder / "lock")
        with self._lock.exclusive():
            self.header = Header(folder)
            if not self.header.generation:
                Generation.prepare(folder, 1, 0)
                self.header.generation = 1
            self._join()
        self._generation: Generation | None = None
        self._seen = (0, 0)  # the generation and number of entries that this process has mapped
        self._recency = Recency()

    def find(self, hashes: Int64s, keys: Sequence[pa.Array], now_us: int) -> tuple[Found, Int64s]:
        """Look up keys, and record their uses in the order of the batch.

        The search itself takes no lock. The uses of the whole batch are then recorded atomically,
        under the lock, so that the uses of all processes have one total order.

        Args:
            hashes: int64[m].
            keys: the m keys, column by column; no null.
            now_us: the time, in microseconds since the epoch.

        Returns:
            The state and the rows of each key; and int64[m] ticks, the position of each key in the
            order of uses, to be passed to :meth:`claim` and :meth:`put` for the missing keys.

        Complexity: O(m) expected.
        """
        with self._lock.shared():
            view, count = self._view()
        found = classify(view, view.find(hashes, keys, count)[0], count, self.limits, now_us)
        with self._lock.exclusive():
            ticks = np.arange(self.header.ticks, self.header.ticks + len(hashes))
            self.header.ticks += len(hashes)
            used = self._as_of_now(found, hashes, keys, now_us)
            which = used.usable
            self._touch(used.view, used.ids[which], ticks[which], now_us)
        return found, ticks

    def _as_of_now(
        self, found: Found, hashes: Int64s, keys: Sequence[pa.Array], now_us: int
    ) -> Found:
        """The state of the keys, under the lock: ``found``, or a new result if entries moved."""
        view, count = self._view()
        ids = found.ids[found.usable]
        if view is found.view and not (len(ids) and view.entries(count)["dead"][ids].any()):
            return found
        return classify(view, view.find(hashes, keys, count)[0], count, self.limits, now_us)

    def held(self) -> tuple[int, int]:
        """The number of rows and bytes in the cache; within the bounds."""
        with self._lock.shared():
            return self.header.live_rows, self.header.live_bytes

    def _touch(self, view: Generation, ids: Int64s, ticks: Int64s, now_us: int) -> None:
        """Record uses, ascending, unless a later use is already recorded; under the lock."""
        if len(ids):
            entries = view.entries(int(ids.max()) + 1)
            later = ticks > entries["used"][ids]
            ids = ids[later]
            entries["used"][ids] = ticks[later]  # the last of several uses in a batch wins
            if self.limits.idle_ttl_us is not None:
                entries["seen"][ids] = now_us

    def _view(self) -> tuple[Generation, int]:
        """The newest generation and its number of entries; under the lock."""
        number, count = self.header.generation, self.header.entries
        if self._generation is None or self._generation.number != number:
            self._generation = Generation(self._folder, number, *self._types)
            self._recency.forget()
        elif self._seen != (number, count):
            self._generation.refresh()
        self._seen = (number, count)
        return self._generation, count

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
            now_us: the time, in microseconds since the epoch.
            refresh: whether to claim stale entries too; default False.

        Returns:
            The current state of each key; ``MINE`` for the claimed keys, for which the caller must
            call :meth:`put` or :meth:`release`. A claim ends with its process. Without memory for
            the claims every missing key is ``MINE``.
        """
        try:
            return self._claim(hashes, keys, ticks, now_us, refresh=refresh)
        except OSError as error:  # no memory: every process queries the keys it needs
            self._complain(error)
            with self._lock.shared():
                view, count = self._view()
            found = classify(view, view.find(hashes, keys, count)[0], count, self.limits, now_us)
            found.states[~found.usable] = State.MINE
            return found

    def _claim(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        ticks: Int64s,
        now_us: int,
        *,
        refresh: bool,
    ) -> Found:
        with self._writing():
            self._compact_if_due(len(hashes))
            view, count = self._view()
            ids, slots = view.find(hashes, keys, count)
            found = classify(view, ids, count, self.limits, now_us)
            self._touch(view, found.ids[found.usable], ticks[found.usable], now_us)
            owners = self._owners(view, ids, count)
            mine = found.states == State.MISS
            if refresh:
                mine |= (found.states == State.STALE) & (owners == 0)
            for owner in np.unique(owners[found.states == State.WAIT]).tolist():
                if not self._membership.is_alive(owner):
                    mine |= (found.states == State.WAIT) & (owners == owner)
            chosen = np.flatnonzero(mine)
            if len(chosen):
                pending = np.zeros(len(chosen), ENTRY)
                pending["hash"], pending["count"] = hashes[chosen], PENDING
                pending["owner"], pending["previous"] = self._membership.number, found.ids[chosen]
                self._append(view, pending, _take(keys, chosen))
                fresh = np.arange(count, count + len(chosen))
                self.header.slots += view.link(fresh, ids[chosen], slots[chosen])
                found.states[chosen] = State.MINE
            return found

    def _owners(self, view: Generation, ids: Int64s, count: int) -> Int64s:
        """The living owner of each pending entry; 0 if there is none."""
        if not count:
            return np.zeros(len(ids), np.int64)
        records = view.entries(count).take(np.maximum(ids, 0))
        pending = (ids >= 0) & (records["count"] == PENDING) & (records["dead"] == 0)
        return np.where(pending, records["owner"], 0).astype(np.int64)

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
        """Store the rows of claimed keys, and evict the least recently used entries.

        Args:
            hashes: int64[d], of different keys that this process has claimed.
            keys: the d keys.
            counts: int64[d], the number of rows of each key; 0 makes a negative entry.
            rows: the columns of these rows, key after key.
            ticks: int64[d], the last use of each key, from :meth:`find`.
            now_us: the time of the query, in microseconds since the epoch.
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
                    self._release(hashes, keys, restore=True)
                    return 0
                ticks = self._last_uses(hashes, keys, ticks)
                keep, gone_before = admissible(self.limits, counts, sizes, ticks)
                if not keep.all():
                    rest, kept = np.flatnonzero(~keep), np.flatnonzero(keep)
                    self._release(hashes[rest], _take(keys, rest), restore=False)
                    rows = _take(rows, np.flatnonzero(np.repeat(keep, counts)))
                    hashes, keys, counts = hashes[kept], _take(keys, kept), counts[kept]
                    sizes, ticks = sizes[kept], ticks[kept]
                if not len(hashes):
                    return 0
                self._store(hashes, keys, counts, rows, sizes, ticks, now_us)
                return self._evict(gone_before)
        except OSError as error:  # no memory: the result is correct without a cache too
            self._complain(error)
            self.release(hashes, keys)
            return 0

    def _last_uses(self, hashes: Int64s, keys: Sequence[pa.Array], ticks: Int64s) -> Int64s:
        """The later of ``ticks`` and the last use of the expired entries that are replaced."""
        if not self.limits.expires:
            return ticks
        view, count = self._view()
        ids, _ = view.find(hashes, keys, count)
        if not (ids >= 0).any():
            return ticks
        entries = view.entries(count)
        outdated = np.where(ids >= 0, entries.take(np.maximum(ids, 0))["previous"], -1)
        used = entries.take(np.maximum(outdated, 0))["used"]
        return np.where(outdated >= 0, np.maximum(used, ticks), ticks)

    def release(self, hashes: Int64s, keys: Sequence[pa.Array]) -> None:
        """Release the claims on ``keys`` with these ``hashes``; restores their previous state."""
        try:
            with self._writing():
                self._release(hashes, keys, restore=True)
        except OSError as error:
            self._complain(error)
            with self._lock.exclusive():
                self._join()  # as a new member: the claims then belong to a dead process

    def _complain(self, error: OSError) -> None:
        _log.warning("bsjoin: the cache in %s has no room (%s)", self._folder, error)

    def _join(self) -> None:
        """Register this process as a member of the cache; under the exclusive lock."""
        self.header.members += 1
        self._membership = Membership(self._folder / "members", self.header.members)

    def invalidate(self, hashes: Int64s | None, keys: Sequence[pa.Array]) -> int:
        """Invalidate some ``keys`` with their ``hashes``, or all keys (``hashes=None``).

        Results of queries in progress are not stored either.

        Returns:
            The number of invalidated entries.
        """
        with self._writing():
            self.header.invalidations += 1
            view, count = self._view()
            if not count:
                return 0
            entries = view.entries(count)
            if hashes is None:
                ids = live_entries(entries)
            else:
                found, _ = view.find(hashes, keys, count)
                ids = _with_previous(entries, found[found >= 0])
            return self._kill(entries, ids)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock.exclusive():
            if self.header.dirty:  # a writer died or failed: recover what it had completed
                self._compact()
            self.header.dirty = 1
            yield
            self.header.dirty = 0

    def _append(
        self, view: Generation, entries: NDArray[np.void], keys: Sequence[pa.Array]
    ) -> None:
        view.append(self.header.entries, entries, keys)
        self.header.entries += len(entries)
        self._seen = (view.number, self.header.entries)

    def _store(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        counts: Int64s,
        rows: Sequence[pa.Array],
        sizes: Int64s,
        ticks: Int64s,
        now_us: int,
    ) -> None:
        self._compact_if_due(len(hashes))
        view, count = self._view()
        ids, slots = view.find(hashes, keys, count)
        fresh = np.zeros(len(hashes), ENTRY)
        fresh["hash"], fresh["count"], fresh["bytes"] = hashes, counts, sizes
        fresh["first"] = self.header.rows + np.cumsum(counts) - counts
        fresh["born"], fresh["seen"], fresh["used"] = now_us, now_us, ticks
        fresh["previous"] = -1
        view.rows.append(self.header.rows, rows)
        self.header.rows += int(counts.sum())
        self._append(view, fresh, keys)
        self.header.slots += view.link(np.arange(count, count + len(fresh)), ids, slots)
        self._account(fresh, 1)
        if count:
            entries = view.entries(count)
            replaced = ids[ids >= 0]
            self._kill(entries, _with_previous(entries, replaced))
            entries["dead"][replaced] = 1

    def _release(self, hashes: Int64s, keys: Sequence[pa.Array], *, restore: bool) -> None:
        view, count = self._view()
        ids, slots = view.find(hashes, keys, count)
        mine = self._owners(view, ids, count) == self._membership.number
        ids, slots = ids[mine], slots[mine]
        if not len(ids):
            return
        entries = view.entries(count)
        if not restore:
            self._kill(entries, _with_previous(entries, ids))
        before = entries.take(ids)["previous"].astype(np.int64)
        there = before >= 0
        entries["dead"][ids] = 1
        view.link(before[there], ids[there], slots[there])

    def _kill(self, entries: NDArray[np.void], ids: Int64s) -> int:
        ids = ids[entries.take(ids)["dead"] == 0]
        entries["dead"][ids] = 1
        self._account(entries.take(ids), -1)
        return len(ids)

    def _account(self, entries: NDArray[np.void], sign: int) -> None:
        held = entries[(entries["count"] != PENDING)]
        self.header.live += sign * len(held)
        self.header.live_rows += sign * int(np.maximum(held["count"], 1).sum())
        self.header.live_bytes += sign * int(held["bytes"].sum())

    def _over(self) -> tuple[int, int]:
        """Rows and bytes above the bounds; negative if there is space."""
        limits, header = self.limits, self.header
        return (
            header.live_rows - (_MOST if limits.max_rows is None else limits.max_rows),
            header.live_bytes - (_MOST if limits.max_bytes is None else limits.max_bytes),
        )

    def _evict(self, gone_before: int) -> int:
        """Evict the entries used before a tick, and the oldest ones until the bounds hold."""
        view, count = self._view()
        entries = view.entries(count)
        evicted = 0
        if gone_before >= 0:
            alive = live_entries(entries)
            evicted += self._kill(entries, alive[entries["used"][alive] < gone_before])
        while max(over := self._over()) > 0:
            evicted += self._kill(entries, self._recency.take(entries, *over))
        self.header.evictions += evicted
        return evicted

    def _compact_if_due(self, more: int) -> None:
        header = self.header
        view, _ = self._view()
        if (
            2 * (header.slots + more) > len(view.slots)
            or header.entries > 3 * header.live + _SPARE
            or header.rows > 1.5 * header.live_rows + _SPARE
        ):
            self._compact(more)

    def _compact(self, more: int = 0) -> None:
        """Copy the live entries to a new generation, and recount them."""
        old, count = self._view()
        kept, linked = survivors(old, count, self._membership.is_alive)
        number = old.number + 1
        try:
            Generation.prepare(self._folder, number, len(kept) + more)
            new = Generation(self._folder, number, *self._types)
            rows = copy(old, new, count, kept)
        except OSError as error:
            _log.warning("bsjoin: the cache in %s is emptied (%s)", self._folder, error)
            kept, linked, rows = kept[:0], linked[:0], 0
            Generation.prepare(self._folder, number, more)
            new = Generation(self._folder, number, *self._types)
        records = new.entries(len(kept)) if len(kept) else np.zeros(0, ENTRY)
        ids = np.searchsorted(kept, linked)
        slots = records["hash"][ids] & np.int64(len(new.slots) - 1)
        used = new.link(ids, np.full(len(ids), -1), slots)
        self.header.start(number, entries=len(kept), rows=rows, slots=used)
        self.header.live = self.header.live_rows = self.header.live_bytes = 0
        self._account(records, 1)
        old.remove()
        self._generation, self._seen = new, (number, len(kept))
        self._recency.forget()

    def _check(self) -> None:
        """Assert the invariants; for the tests."""
        with self._lock.exclusive():
            header = self.header
            view, count = self._view()
            assert not header.dirty
            assert header.slots == int((view.slots != 0).sum())
            assert max(self._over()) <= 0
            entries = view.entries(count) if count else np.zeros(0, ENTRY)
            linked = view.linked(count)
            assert len(np.unique(linked)) == len(linked)
            held = live_entries(entries)
            assert set(held.tolist()) <= set(_with_previous(entries, linked).tolist())
            assert header.live == len(held)
            assert header.live_rows == int(np.maximum(entries["count"][held], 1).sum())
            assert header.live_bytes == int(entries["bytes"][held].sum())
            ends = entries["first"][held] + entries["count"][held]
            assert int(ends.max(initial=0)) <= header.rows


def _with_previous(entries: NDArray[np.void], ids: Int64s) -> Int64s:
    """Entries with content: the given ones; for pending ones the entries that they replace."""
    records = entries.take(ids)
    before = records["previous"].astype(np.int64)
    pending = records["count"] == PENDING
    return np.concatenate((ids[~pending], before[pending & (before >= 0)]))


def _take(arrays: Sequence[pa.Array], where: Int64s) -> list[pa.Array]:
    indices = pa.array(where)
    return [array.take(indices) for array in arrays]


def _sums(values: Int64s, counts: Int64s) -> Int64s:
    """Sums over consecutive runs of ``counts`` values."""
    ends = np.concatenate(([0], np.cumsum(values)))
    last = np.cumsum(counts)
    return np.asarray(ends[last] - ends[last - counts])
