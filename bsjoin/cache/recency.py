"""The exact order of the fields ``used`` of many entries, without a linked list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bsjoin.cache.entry_state import CacheLimits
from bsjoin.cache.generation import PENDING
from bsjoin.cache.memory import Bools, Int64s

_FEWEST = 4096
_QUEUED = np.dtype([("id", np.int64), ("used", np.int64)])


def live_entries(entries: NDArray[np.void]) -> Int64s:
    """The entries that are alive and not pending."""
    return np.flatnonzero((entries["dead"] == 0) & (entries["count"] != PENDING))


class Recency:
    """The entries with the lowest ``used``, the least recently used ones under LRU, lowest first.

    It contains the least recently used quarter of the entries at one moment. The recorded use of an
    entry only grows, so all other entries are more recent; entries are taken from the front of the
    queue, skipping those used since, until it is empty. An entry that is added with a use before
    that moment, because loading it took long, invalidates the queue; so does a use before that
    moment that is recorded late, by a process that waited for the entry. Exact, and O(1) amortised.

    Args:
        queue: only entries of this ``queue``. None (default): all.
        part: the queue contains one ``part``-th of the entries; default 4, a quarter.
    """

    def __init__(self, queue: int | None = None, part: int = 4) -> None:
        self._of, self._part = queue, part
        self.forget()

    def forget(self) -> None:
        """Reset the queue: the entries have new numbers."""
        self._queue = np.zeros(0, _QUEUED)
        self._until = -1  # the latest use in the queue when it was filled
        self._checked = 0  # entries before this one are in the queue, or were used later

    def take(
        self, entries: NDArray[np.void], rows: int, size: int, most: int | None = None
    ) -> Int64s:
        """Take the oldest entries that together have ``rows`` rows and ``size`` bytes.

        Oldest first, and at most ``most``. Fewer entries if the queue ends before: call again.
        Empty if nothing is left.
        """
        if not len(self._queue) or self._is_void(entries):
            self._fill(entries)
        chunk, records = self._front(entries)
        if self._is_reordered(chunk, records):
            self._fill(entries)
            chunk, records = self._front(entries)
        rest = self._queue[_FEWEST:]
        still = (records["used"] == chunk["used"]) & (records["dead"] == 0)
        if self._of is not None:
            still &= records["queue"] == self._of
        chunk, records = chunk[still], records[still]
        freed_rows = np.cumsum(np.maximum(records["count"], 1))
        freed_bytes = np.cumsum(records["bytes"])
        needed = int(np.sum((freed_rows < rows) | (freed_bytes < size))) + 1
        if most is not None:
            needed = min(needed, most)
        self._queue = rest if needed >= len(chunk) else np.concatenate((chunk[needed:], rest))
        return np.asarray(chunk["id"][:needed])

    def _is_void(self, entries: NDArray[np.void]) -> bool:
        """Whether an entry was added whose last use is before one in the queue."""
        added = entries[self._checked :]
        self._checked = len(entries)
        return bool((added["used"][self._members(added)] < self._until).any())

    def _front(self, entries: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """The first entries of the queue, and their records as they are now."""
        chunk = self._queue[:_FEWEST]
        return chunk, entries.take(chunk["id"])

    def _is_reordered(self, chunk: NDArray[np.void], records: NDArray[np.void]) -> bool:
        """Whether a late use of an entry at the front is still before one in the queue."""
        moved = (records["used"] != chunk["used"]) & (records["dead"] == 0)
        return bool((records["used"][moved] < self._until).any())

    def _members(self, entries: NDArray[np.void]) -> Int64s:
        ids = live_entries(entries)
        return ids if self._of is None else ids[entries["queue"][ids] == self._of]

    def _fill(self, entries: NDArray[np.void]) -> None:
        ids = self._members(entries)
        used = entries["used"][ids]
        size = min(len(ids), max(_FEWEST, len(ids) // self._part))
        if size < len(ids):
            oldest = np.argpartition(used, size - 1)[:size]
            ids, used = ids[oldest], used[oldest]
        order = np.argsort(used, kind="stable")
        self._queue = np.zeros(size, _QUEUED)
        self._queue["id"], self._queue["used"] = ids[order], used[order]
        self._until = int(used.max(initial=-1))
        self._checked = len(entries)


def admissible(
    limits: CacheLimits, counts: Int64s, sizes: Int64s, ticks: Int64s
) -> tuple[Bools, int]:
    """Choose the new entries that would remain in the cache if they were stored one by one.

    An entry larger than a bound is not stored. Of the others the most recent ones that fit remain:
    the content of an LRU cache is the longest suffix of the order of uses that fits.

    Returns:
        bool[d], and a tick: entries used before it would be evicted.
    """
    keep = np.ones(len(counts), np.bool_) if limits.negative else counts > 0
    weighted = [
        (bound, weights)
        for bound, weights in (
            (limits.max_rows, np.maximum(counts, 1)),
            (limits.max_bytes, sizes),
        )
        if bound is not None
    ]
    for bound, weights in weighted:
        keep &= weights <= bound
    latest_first = np.argsort(-ticks, kind="stable")
    ends = np.ones(len(counts), np.bool_)
    for bound, weights in weighted:
        ends &= np.cumsum(np.where(keep, weights, 0)[latest_first]) <= bound
    crowded_out = latest_first[keep[latest_first] & ~ends]
    keep[crowded_out] = False
    return keep, int(ticks[crowded_out].max(initial=-1))
