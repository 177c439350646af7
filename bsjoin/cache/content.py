"""The content of a host's cache: entries, their rows, and the accounts of both.

Every method runs under the exclusive lock of the cache, but :meth:`Content.view`, for which the
shared one is enough. A method that fails leaves the header dirty, and the next writer compacts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.cache.compaction import copy, survivors
from bsjoin.cache.entry_state import CacheLimits, Found, State, classify
from bsjoin.cache.generation import ENTRY, PENDING, Generation
from bsjoin.cache.header import Header
from bsjoin.cache.locks import Membership
from bsjoin.cache.memory import Int64s
from bsjoin.cache.policy import policy_of
from bsjoin.cache.recency import live_entries

_log = logging.getLogger("bsjoin")

_SPARE = 4096
_SPARE_BYTES = 1 << 20
_MOST = np.iinfo(np.int64).max


class Content:
    """The entries of a cache as one process sees them.

    ``types``: of the key columns, of those of a row, and whether equal hashes mean equal keys.
    """

    def __init__(
        self,
        folder: Path,
        types: tuple[tuple[pa.DataType, ...], tuple[pa.DataType, ...], bool],
        limits: CacheLimits,
    ):
        self._folder, self._types, self._limits = folder, types, limits
        self.header = Header(folder)
        self.policy = policy_of(limits.eviction, folder, self.header)
        if not self.header.generation:
            Generation.prepare(folder, 1, 0)
            self.header.generation = 1
        self.join()
        self._generation: Generation | None = None
        self._seen = (0, 0)  # the generation and number of entries that this process has mapped

    def join(self) -> None:
        """Register this process as a new member of the cache; its claims so far have no owner."""
        self.header.members += 1
        self._membership = Membership(self._folder / "members", self.header.members)

    def view(self) -> tuple[Generation, int]:
        """The newest generation and its number of entries."""
        number, count = self.header.generation, self.header.entries
        if self._generation is None or self._generation.number != number:
            self._generation = Generation(self._folder, number, *self._types)
            self.policy.forget()
        elif self._seen != (number, count):
            self._generation.refresh()
        self._seen = (number, count)
        return self._generation, count

    def touch(
        self, view: Generation, ids: Int64s, ticks: Int64s, now_us: int, *, newest: bool = False
    ) -> None:
        """Record uses, ascending; if they are newest, no later use can have been recorded."""
        if len(ids):
            entries = view.entries(int(ids.max()) + 1)
            self.policy.use(entries, ids, ticks, newest=newest)
            if self._limits.idle_ttl_us is not None:
                entries["seen"][ids] = now_us

    def claim(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        ticks: Int64s,
        now_us: int,
        *,
        refresh: bool,
    ) -> Found:
        """Claim missing keys for this process; see :meth:`HostCache.claim`."""
        self._compact_if_due(len(hashes))
        view, count = self.view()
        ids, slots = view.find(hashes, keys, count)
        found = classify(view, ids, count, self._limits, now_us)
        self.touch(view, found.ids[found.usable], ticks[found.usable], now_us)
        owners = self._owners(view, ids, count)
        for owner in np.unique(owners[owners > 0]).tolist():
            if not self._membership.is_alive(owner):
                owners[owners == owner] = 0
        mine = (found.states == State.MISS) | ((found.states == State.WAIT) & (owners == 0))
        if refresh:
            mine |= (found.states == State.STALE) & (owners == 0)
        chosen = np.flatnonzero(mine)
        if len(chosen):
            pending = np.zeros(len(chosen), ENTRY)
            pending["hash"], pending["count"] = hashes[chosen], PENDING
            pending["owner"], pending["previous"] = self._membership.number, found.ids[chosen]
            self._append(view, pending, [key.take(pa.array(chosen)) for key in keys])
            fresh = np.arange(count, count + len(chosen))
            self.header.slots += view.link(fresh, ids[chosen], slots[chosen])
            found.states[chosen] = State.MINE
        return found

    def _owners(self, view: Generation, ids: Int64s, count: int) -> Int64s:
        """The owner of each pending entry; 0 for other entries."""
        if not count:
            return np.zeros(len(ids), np.int64)
        records = view.entries(count).take(np.maximum(ids, 0))
        pending = (ids >= 0) & (records["count"] == PENDING) & (records["dead"] == 0)
        return np.where(pending, records["owner"], 0).astype(np.int64)

    def last_uses(self, hashes: Int64s, keys: Sequence[pa.Array], ticks: Int64s) -> Int64s:
        """The later of ``ticks`` and the last use of the expired entries that are replaced."""
        if not self._limits.expires:
            return ticks
        view, count = self.view()
        ids, _ = view.find(hashes, keys, count)
        if not (ids >= 0).any():
            return ticks
        outdated = self._replaced(view, ids, count)
        used = view.entries(count).take(np.maximum(outdated, 0))["used"]
        return np.where(outdated >= 0, np.maximum(used, ticks), ticks)

    def _replaced(self, view: Generation, ids: Int64s, count: int) -> Int64s:
        """The expired entry that each pending entry replaces; -1 for none."""
        if not count:
            return np.full(len(ids), -1)
        previous = view.entries(count).take(np.maximum(ids, 0))["previous"]
        return np.where(ids >= 0, previous, -1).astype(np.int64)

    def _append(
        self, view: Generation, entries: NDArray[np.void], keys: Sequence[pa.Array]
    ) -> None:
        view.append(self.header.entries, entries, keys)
        self.header.entries += len(entries)
        self._seen = (view.number, self.header.entries)

    def store(
        self,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        counts: Int64s,
        rows: Sequence[pa.Array],
        sizes: Int64s,
        ticks: Int64s,
        now_us: int,
    ) -> None:
        """Append entries and their rows, in place of what the keys had before."""
        self._compact_if_due(len(hashes))
        view, count = self.view()
        ids, slots = view.find(hashes, keys, count)
        fresh = np.zeros(len(hashes), ENTRY)
        fresh["hash"], fresh["count"], fresh["bytes"] = hashes, counts, sizes
        fresh["first"] = self.header.rows + np.cumsum(counts) - counts
        fresh["born"], fresh["seen"], fresh["used"] = now_us, now_us, ticks
        fresh["previous"] = -1
        self.policy.store(fresh, view.entries(count), self._replaced(view, ids, count))
        view.rows.append(self.header.rows, rows)
        self.header.rows += int(counts.sum())
        self.header.bytes += int(sizes.sum())
        self._append(view, fresh, keys)
        self.header.slots += view.link(np.arange(count, count + len(fresh)), ids, slots)
        self._account(fresh, 1)
        if count:
            entries = view.entries(count)
            replaced = ids[ids >= 0]
            self._kill(entries, _with_previous(entries, replaced))
            entries["dead"][replaced] = 1

    def release(self, hashes: Int64s, keys: Sequence[pa.Array], *, restore: bool) -> None:
        """Remove this process's claims; what they replaced stays if it is to be restored."""
        view, count = self.view()
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

    def invalidate(self, hashes: Int64s | None, keys: Sequence[pa.Array]) -> int:
        """Remove some entries, or all (``hashes=None``); how many."""
        self.header.invalidations += 1
        view, count = self.view()
        if not count:
            return 0
        entries = view.entries(count)
        if hashes is None:
            ids = live_entries(entries)
        else:
            found, _ = view.find(hashes, keys, count)
            ids = np.unique(_with_previous(entries, found[found >= 0]))
        return self._kill(entries, ids)

    def _kill(self, entries: NDArray[np.void], ids: Int64s) -> int:
        ids = ids[entries.take(ids)["dead"] == 0]
        entries["dead"][ids] = 1
        self._account(entries.take(ids), -1)
        return len(ids)

    def _account(self, entries: NDArray[np.void], sign: int) -> None:
        held = entries[(entries["count"] != PENDING)]
        self.header.live += sign * len(held)
        self.header.small += sign * int((held["queue"] == 0).sum())
        self.header.live_rows += sign * int(np.maximum(held["count"], 1).sum())
        self.header.live_bytes += sign * int(held["bytes"].sum())

    def over(self) -> tuple[int, int]:
        """Rows and bytes above the bounds; negative if there is space."""
        limits, header = self._limits, self.header
        return (
            header.live_rows - (_MOST if limits.max_rows is None else limits.max_rows),
            header.live_bytes - (_MOST if limits.max_bytes is None else limits.max_bytes),
        )

    def evict(self, gone_before: int) -> int:
        """Evict entries used before a tick, and what the policy chooses, until the bounds hold."""
        view, count = self.view()
        entries = view.entries(count)
        evicted = 0
        if gone_before >= 0:
            alive = live_entries(entries)
            evicted += self._kill(entries, alive[entries["used"][alive] < gone_before])
        while max(over := self.over()) > 0:
            evicted += self._kill(entries, self.policy.victims(entries, *over))
        self.header.evictions += evicted
        return evicted

    def _compact_if_due(self, more: int) -> None:
        header = self.header
        view, _ = self.view()
        if (
            2 * (header.slots + more) > len(view.slots)
            or header.entries > 3 * header.live + _SPARE
            or header.rows > 1.5 * header.live_rows + _SPARE
            or header.bytes > 1.5 * header.live_bytes + _SPARE_BYTES
        ):
            self.compact(more)

    def compact(self, more: int = 0) -> None:
        """Copy the live entries to a new generation, and recount them."""
        old, count = self.view()
        kept, linked = survivors(old, count, self._membership.is_alive)
        number = old.number + 1
        try:
            Generation.prepare(self._folder, number, len(kept) + more)
            new = Generation(self._folder, number, *self._types)
            rows = copy(old, new, count, kept)
        except (OSError, MemoryError, pa.ArrowException) as error:
            _log.warning("bsjoin: the cache in %s is emptied (%s)", self._folder, error)
            kept, linked, rows = kept[:0], linked[:0], 0
            Generation.prepare(self._folder, number, more)
            new = Generation(self._folder, number, *self._types)
        records = new.entries(len(kept)) if len(kept) else np.zeros(0, ENTRY)
        ids = np.searchsorted(kept, linked)
        slots = records["hash"][ids] & np.int64(len(new.slots) - 1)
        used = new.link(ids, np.full(len(ids), -1), slots)
        size = int(records["bytes"].sum())
        self.header.start(number, entries=len(kept), rows=rows, bytes=size, slots=used)
        self.header.live = self.header.live_rows = self.header.live_bytes = 0
        self.header.small = 0
        self._account(records, 1)
        new.remove_others()
        self._generation, self._seen = new, (number, len(kept))
        self.policy.forget()


def _with_previous(entries: NDArray[np.void], ids: Int64s) -> Int64s:
    """Entries with content: the given ones; for pending ones the entries that they replace."""
    records = entries.take(ids)
    before = records["previous"].astype(np.int64)
    pending = records["count"] == PENDING
    return np.concatenate((ids[~pending], before[pending & (before >= 0)]))
