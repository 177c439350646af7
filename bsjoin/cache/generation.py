"""The files of a cache between two compactions: entries, a hash table over them, and rows.

Files are append-only, except for what the eviction policy keeps of an entry (``used``, ``queue``,
``visits``), when it was last ``seen``, whether it is ``dead``, and the entry that a slot of the
hash table refers to. So readers need no lock: they read the number of entries (briefly under the
lock) and then only these entries.
Dead entries stay until a compaction copies the live ones to the next generation. The hash table
uses open addressing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bsjoin.cache.columns import Columns
from bsjoin.cache.memory import Arena, Bools, GrowingArray, Int64s

ENTRY = np.dtype(
    [
        ("hash", np.int64),  # of the key
        ("first", np.int64),  # number of its first row
        ("born", np.int64),  # when the source was queried, in microseconds of the host's clock
        ("seen", np.int64),  # when it was last used; maintained only with an idle time to live
        ("used", np.int64),  # the cache's count of uses at its last use, if the policy is LRU
        ("bytes", np.int64),  # its size
        ("count", np.int32),  # the number of its rows; 0: a negative entry
        ("owner", np.int32),  # of a pending entry: the process that queries the source
        ("previous", np.int32),  # of a pending entry: the expired entry of the key, or -1
        ("dead", np.int8),
        ("queue", np.int8),  # of the eviction policy: which of its queues the entry is in
        ("visits", np.int8),  # of the eviction policy
        ("spare", np.int8),
    ]
)
"""64 bytes, one cache line of the CPU."""

PENDING = -1
"""The count of a pending entry."""

_FEWEST_SLOTS = 1 << 10


class Generation:
    """One generation, mapped by this process."""

    def __init__(
        self,
        folder: Path,
        number: int,
        keys: Sequence[pa.DataType],
        rows: Sequence[pa.DataType],
        exact: bool,
    ):
        self.number = number
        self.exact = exact
        self.path = folder / f"g{number}"
        self._arena = Arena(self.path)
        self._entries = self._arena.array("entries", ENTRY)
        self.keys = Columns(self._arena, "key", keys)
        self.rows = Columns(self._arena, "row", rows)
        size = (self.path / "slots").stat().st_size // 4
        self.slots = self._arena.array("slots", np.int32).view(size)
        self.refresh()

    def refresh(self) -> None:
        """Map the data that other processes have added."""
        self._arena.refresh()

    @staticmethod
    def prepare(folder: Path, number: int, entries: int) -> None:
        """Create the folder of a generation with space for ``entries`` entries."""
        path = folder / f"g{number}"
        shutil.rmtree(path, ignore_errors=True)  # of a writer that died
        path.mkdir(mode=0o700)
        slots = max(_FEWEST_SLOTS, 1 << (4 * entries - 1).bit_length()) if entries else 0
        GrowingArray(path / "slots", np.int32).reserve(slots or _FEWEST_SLOTS)

    def remove_others(self) -> None:
        """Remove the files of all others; processes that have mapped them can still read them.

        A process that dies here leaves some of them to the next one that compacts.
        """
        for path in self.path.parent.glob("g[0-9]*"):
            if path != self.path:
                shutil.rmtree(path, ignore_errors=True)

    def entries(self, count: int) -> NDArray[np.void]:
        """The first ``count`` entries."""
        return self._entries.view(count)

    def find(self, hashes: Int64s, keys: Sequence[pa.Array], count: int) -> tuple[Int64s, Int64s]:
        """Find the entry of each key among the first ``count`` entries.

        Args:
            hashes: int64[m].
            keys: the m keys, column by column.
            count: the number of entries that the caller has read under the lock.

        Returns:
            int64[m]: the entry, or -1; int64[m]: the slot that refers to it, or the free slot
            that ends the search. An entry beyond ``count`` also ends the search with -1.

        Complexity: O(m) expected.
        """
        mask = np.int64(len(self.slots) - 1)
        slots = hashes & mask
        found = self.slots.take(slots).astype(np.int64) - 1
        found[found >= count] = -1
        if not count:
            return found, slots
        stored = self.entries(count)["hash"]
        open_ = np.flatnonzero(found >= 0)
        same = self._same(found, hashes, keys, open_, stored)
        wrong = open_[~same]
        while wrong.size:
            slots[wrong] = (slots.take(wrong) + 1) & mask
            there = self.slots.take(slots.take(wrong)).astype(np.int64) - 1
            there[there >= count] = -1
            found[wrong] = there
            wrong = wrong[there >= 0]
            wrong = wrong[~self._same(found, hashes, keys, wrong, stored)]
        return found, slots

    def _same(
        self,
        found: Int64s,
        hashes: Int64s,
        keys: Sequence[pa.Array],
        where: Int64s,
        stored: Int64s,
    ) -> Bools:
        """Whether the entries found at some positions have the keys searched there."""
        at = found.take(where)
        same: Bools = stored[at] == hashes.take(where)
        if self.exact or not same.any():
            return same
        doubtful = np.flatnonzero(same)
        everywhere = doubtful.size == len(hashes)
        probes = pa.array(where.take(doubtful))
        equal = np.ones(doubtful.size, np.bool_)
        for kept, wanted in zip(self.keys.gather(at.take(doubtful)), keys, strict=True):
            equal &= _equal(kept, wanted if everywhere else wanted.take(probes))
        same[doubtful] = equal
        return same

    def append(self, at: int, entries: NDArray[np.void], keys: Sequence[pa.Array]) -> None:
        """Write entries and their keys from an entry number on."""
        self.keys.append(at, keys)
        self._entries.write(at, entries)

    def link(self, ids: Int64s, found: Int64s, slots: Int64s) -> int:
        """Insert entries of different keys into the hash table.

        Args:
            ids: the entries.
            found: the entries of their keys from :meth:`find`, to be replaced, or -1.
            slots: the slots from :meth:`find`.

        Returns:
            The number of slots that were free before.
        """
        self.slots[slots[found >= 0]] = ids[found >= 0] + 1
        fresh, slots = ids[found < 0], slots[found < 0]
        mask = np.int64(len(self.slots) - 1)
        added = len(fresh)
        while fresh.size:
            taken = self.slots.take(slots) != 0
            self.slots[slots[~taken]] = fresh[~taken] + 1  # of several, the last one wins
            lost = self.slots.take(slots) != fresh + 1
            fresh, slots = fresh[lost], (slots[lost] + 1) & mask
        return added

    def linked(self, count: int) -> Int64s:
        """The entries that the hash table refers to, ascending."""
        led_to = np.zeros(count + 2, np.bool_)
        led_to[np.minimum(self.slots, count + 1)] = True  # a free slot is 0
        return np.flatnonzero(led_to[1 : count + 1])


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    """Whether values are equal bit by bit; floating-point values are canonical."""
    if pa.types.is_floating(left.type):
        bits = np.int64 if left.type == pa.float64() else np.int32
        return np.asarray(_plain(left).view(bits) == _plain(right).view(bits))
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)


def _plain(array: pa.Array) -> NDArray[np.generic]:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
