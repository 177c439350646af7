"""Keys that a cache has evicted lately, by their hashes, shared by all processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from bsjoin.cache.header import Header
from bsjoin.cache.memory import Bools, GrowingArray, Int64s

_LOW = np.int64(0xFFFFFFFF)
_FEWEST = 1 << 10


class Ghosts:
    """A memory of the last evicted keys, as many as the cache has entries.

    A table of 8 bytes a slot, two to four slots for each entry of the cache when it was made: the
    upper half of a hash, and the number of its eviction. A hash has one slot and overwrites what is
    there. It may forget a key, and confuse one with another once in 2^32 times; neither makes an
    answer wrong. Without memory it remembers nothing.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self._folder, self._header = folder, header
        self._table: Int64s = np.zeros(0, np.int64)

    def add(self, hashes: Int64s) -> None:
        """Remember keys with these hashes, the last ones longest."""
        if not len(hashes):
            return
        with contextlib.suppress(OSError):
            self._grow()
            table, header = self._mapped(), self._header
            numbers = np.arange(header.ghosts + 1, header.ghosts + 1 + len(hashes))
            table[hashes & (len(table) - 1)] = (hashes & ~_LOW) | (numbers & _LOW)
            header.ghosts += len(hashes)

    def contain(self, hashes: Int64s) -> Bools:
        """bool[m], whether each key is remembered."""
        header = self._header
        if not header.ghost_slots:
            return np.zeros(len(hashes), np.bool_)
        try:
            table = self._mapped()
        except OSError:
            return np.zeros(len(hashes), np.bool_)
        slots = table.take(hashes & (len(table) - 1))
        ages = (header.ghosts - slots) & _LOW
        same = ((slots ^ hashes) & ~_LOW == 0) & (slots != 0)
        return np.asarray(same & (ages < header.live), np.bool_)

    def _mapped(self) -> Int64s:
        slots = self._header.ghost_slots
        if len(self._table) != slots:
            self._table = GrowingArray(self._path(slots), np.int64).view(slots)
        return self._table

    def _grow(self) -> None:
        """Make a table, or an empty one if the cache has outgrown it."""
        header = self._header
        before = header.ghost_slots
        if before and before >= header.live:
            return
        slots = max(_FEWEST, 1 << (2 * header.live).bit_length())
        GrowingArray(self._path(slots), np.int64).reserve(slots)
        header.ghost_slots = slots
        if before:
            self._path(before).unlink(missing_ok=True)

    def _path(self, slots: int) -> Path:
        return self._folder / f"ghosts{slots}"
