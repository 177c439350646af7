"""Exact least-recently-used order over many entries, without a list to keep in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bsjoin.shared.entry_state import CacheLimits
from bsjoin.shared.generation import PENDING

__all__ = ["Recency", "admissible", "live_entries"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FEWEST = 4096
_QUEUED = np.dtype([("id", np.int64), ("used", np.int64)])


def live_entries(entries: NDArray[np.void]) -> Int64s:
    """The entries that are alive and not pending."""
    return np.flatnonzero((entries["dead"] == 0) & (entries["count"] != PENDING))


class Recency:
    """A queue of the entries that were used least recently.

    It is made of the quarter of the entries that was used least recently at one moment. The
    recorded use of an entry only grows, so all others stay behind these; entries are taken from
    the front of the queue, past those used since, for as long as it lasts. An entry that is added
    with a use from before that moment, since loading it took long, makes the queue void. Exact,
    and O(1) amortised.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: the entries have other numbers now."""
        self._queue = np.zeros(0, _QUEUED)
        self._until = -1  # the latest use in the queue as it was made
        self._checked = 0  # entries before this one are in the queue, or were used later

    def take(self, entries: NDArray[np.void], rows: int, size: int) -> Int64s:
        """The oldest entries that together free so many rows and bytes; in their order.

        Fewer, if the queue ends before: call again. None if nothing is left.
        """
        if not len(self._queue) or self._is_void(entries):
            self._fill(entries)
        chunk, rest = self._queue[:_FEWEST], self._queue[_FEWEST:]
        records = entries.take(chunk["id"])
        still = (records["used"] == chunk["used"]) & (records["dead"] == 0)
        chunk, records = chunk[still], records[still]
        freed_rows = np.cumsum(np.maximum(records["count"], 1))
        freed_bytes = np.cumsum(records["bytes"])
        needed = int(np.sum((freed_rows < rows) | (freed_bytes < size))) + 1
        self._queue = rest if needed >= len(chunk) else np.concatenate((chunk[needed:], rest))
        return np.asarray(chunk["id"][:needed])

    def _is_void(self, entries: NDArray[np.void]) -> bool:
        """Whether an entry was added that was used before one in the queue."""
        added = entries[self._checked :]
        self._checked = len(entries)
        return bool((added["used"][live_entries(added)] < self._until).any())

    def _fill(self, entries: NDArray[np.void]) -> None:
        ids = live_entries(entries)
        used = entries["used"][ids]
        size = min(len(ids), max(_FEWEST, len(ids) // 4))
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
    """Which of some new entries would be there in the end if they were kept one by one.

    What is larger than a bound is not kept at all. Of the others the latest stay, as many as
    fit: the content of an LRU cache is the longest end of the order of uses that fits.

    Args:
        limits: the bounds.
        counts: int64[d], rows of each entry.
        sizes: int64[d], bytes of each entry.
        ticks: int64[d], when each was used.

    Returns:
        bool[d], and a tick: what was used before it would be gone in the end.
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
