"""Eviction policies: which entries leave a full cache.

A policy keeps its state in three fields of each entry (``used``, ``queue``, ``visits``), which all
processes share and which compactions preserve, and in the header; an object of this process holds
no more than what it can read again from them. Every method runs under the exclusive lock of the
cache. A new policy is one class here, listed in ``POLICIES``
(docs/how-to/add-an-eviction-policy.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bsjoin.cache.entry_state import CacheLimits
from bsjoin.cache.ghosts import Ghosts
from bsjoin.cache.header import Header
from bsjoin.cache.memory import Bools, Int64s
from bsjoin.cache.recency import Recency, admissible
from bsjoin.errors import ArgumentError

Entries = NDArray[np.void]

_MOST_VISITS = 3


class EvictionPolicy(Protocol):
    """The questions of a cache to its policy; ``entries`` are records of ``generation.ENTRY``.

    It is made with the cache's folder, for a file of its own if it needs one, and its header.
    """

    def __init__(self, folder: Path, header: Header) -> None: ...

    def forget(self) -> None:
        """Drop what is known by the numbers of entries: a compaction has given them new ones."""

    def use(self, entries: Entries, ids: Int64s, ticks: Int64s, *, newest: bool) -> None:
        """Record uses of entries.

        Args:
            entries: all entries.
            ids: int64[m], those used; one may occur several times.
            ticks: int64[m], the position of each use in the order of all uses; ascending.
            newest: whether no later use can have been recorded.
        """

    def admit(
        self, limits: CacheLimits, counts: Int64s, sizes: Int64s, ticks: Int64s
    ) -> tuple[Bools, int]:
        """Choose the new entries that are stored; see :func:`bsjoin.cache.recency.admissible`.

        Together they must be within the bounds. Entries whose ``used`` is before the second result
        are evicted; -1 for none.
        """

    def store(self, fresh: Entries, entries: Entries, replaced: Int64s) -> None:
        """Set the state of new entries, whose ``used`` is their last use.

        Args:
            fresh: the d new records, to be written to.
            entries: all entries so far.
            replaced: int64[d], the expired entry that each replaces, or -1.
        """

    def victims(self, entries: Entries, rows: int, size: int) -> Int64s:
        """Choose entries to evict, none of them dead or pending.

        Args:
            entries: all entries; their state may be changed.
            rows: how many rows are too many.
            size: how many bytes are too many.

        Returns:
            int64[], different entries, and none that is not needed: without the last one too much
            would stay. It may be too few, or none at all: the cache asks again until its bounds
            hold, so every call must get nearer to that.
        """


class LRU:
    """The least recently used entry goes first, in the exact order of uses of all processes."""

    def __init__(self, folder: Path, header: Header) -> None:
        self._recency = Recency()

    def forget(self) -> None:
        """See :class:`EvictionPolicy`."""
        self._recency.forget()

    def use(self, entries: Entries, ids: Int64s, ticks: Int64s, *, newest: bool) -> None:
        """Write the ticks, unless a later one is there."""
        if not newest:
            later = ticks > entries["used"][ids]
            ids, ticks = ids[later], ticks[later]
        entries["used"][ids] = ticks  # the last of several uses in a batch wins

    def admit(
        self, limits: CacheLimits, counts: Int64s, sizes: Int64s, ticks: Int64s
    ) -> tuple[Bools, int]:
        """See :class:`EvictionPolicy`."""
        return admissible(limits, counts, sizes, ticks)

    def store(self, fresh: Entries, entries: Entries, replaced: Int64s) -> None:
        """Nothing to do: ``used`` is all."""

    def victims(self, entries: Entries, rows: int, size: int) -> Int64s:
        """The least recently used entries. Complexity: O(1) an entry, amortised."""
        return self._recency.take(entries, rows, size)


class S3FIFO:
    """Keys that are used once leave soon: a small queue on probation, and a main queue.

    S3-FIFO of J. Yang, Y. Zhang, Z. Qiu, Y. Yue and K. V. Rashmi, "FIFO queues are all you need for
    cache eviction", SOSP 2023. A new entry begins in the small queue, a tenth of the entries. At
    its end it moves to the main queue if it was used since, and is evicted otherwise; its key is
    then remembered for a while, and begins in the main queue if it comes back in that time. At the
    end of the main queue an entry that was used begins again there.

    Uses within one batch count as one, up to three; one suffices to leave the small queue (the
    paper: two). ``used`` is an entry's position in its queue.
    """

    _SMALL, _MAIN = 0, 1

    def __init__(self, folder: Path, header: Header) -> None:
        self._header = header
        self._ghosts = Ghosts(folder, header)
        self._small, self._main = Recency(self._SMALL, 1), Recency(self._MAIN)

    def forget(self) -> None:
        """See :class:`EvictionPolicy`."""
        self._small.forget()
        self._main.forget()

    def use(self, entries: Entries, ids: Int64s, ticks: Int64s, *, newest: bool) -> None:
        """Count a visit."""
        visits = entries["visits"]
        visits[ids] = np.minimum(visits[ids], _MOST_VISITS - 1) + 1

    def admit(
        self, limits: CacheLimits, counts: Int64s, sizes: Int64s, ticks: Int64s
    ) -> tuple[Bools, int]:
        """As many as fit: more would leave before they are used, and no older entry must go."""
        return admissible(limits, counts, sizes, ticks)[0], -1

    def store(self, fresh: Entries, entries: Entries, replaced: Int64s) -> None:
        """New entries go to the end of the small queue, known ones to the end of the main one."""
        fresh["queue"] = np.where(self._ghosts.contain(fresh["hash"]), self._MAIN, self._SMALL)
        again = np.flatnonzero(replaced >= 0)  # expired: its place was earned before
        for name in ("queue", "visits"):
            fresh[name][again] = entries[name][replaced[again]]
        order = np.argsort(fresh["used"], kind="stable")
        # In the order of storing, not of use: what was long in loading has no place before others.
        self._to_the_end(fresh, order)

    def victims(self, entries: Entries, rows: int, size: int) -> Int64s:
        """Of the small queue while it is too long, else of the main one.

        Complexity: O(1) an entry, amortised over its visits.
        """
        header = self._header
        excess = header.small - header.live // 10
        if excess > 0:
            ids = self._small.take(entries, rows, size, excess)
            visited = entries["visits"][ids] > 0
            promoted, gone = ids[visited], ids[~visited]
            entries["visits"][promoted] = 0
            entries["queue"][promoted] = self._MAIN
            header.small -= len(promoted)
            self._to_the_end(entries, promoted)
            self._ghosts.add(entries["hash"][gone])
            return gone
        ids = self._main.take(entries, rows, size)
        visited = entries["visits"][ids] > 0
        again = ids[visited]
        entries["visits"][again] -= 1
        self._to_the_end(entries, again)
        return ids[~visited]

    def _to_the_end(self, entries: Entries, ids: Int64s) -> None:
        """Give entries the last positions of their queue, in this order."""
        header = self._header
        entries["used"][ids] = np.arange(header.ticks, header.ticks + len(ids))
        header.ticks += len(ids)


POLICIES: Mapping[str, type[EvictionPolicy]] = MappingProxyType({"lru": LRU, "s3-fifo": S3FIFO})
"""The policies by the names that ``Incremental(eviction=)`` takes."""


def policy_of(name: str, folder: Path, header: Header) -> EvictionPolicy:
    """The policy of a cache in this process; the first process decides which it is."""
    number = _number(name)
    if header.policy not in (0, number):
        known = [other for other in POLICIES if _number(other) == header.policy]
        raise ArgumentError(
            f"eviction={name!r}: the cache in {folder} was created with "
            f"{known[0] if known else 'another policy'!r}, and all processes of a cache must evict "
            "by the same policy: use that one, or another folder"
        )
    header.policy = number
    return POLICIES[name](folder, header)


def _number(name: str) -> int:
    return zlib.crc32(name.encode())
