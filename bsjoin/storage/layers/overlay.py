"""Finding keys through layers: one index in memory of the keys of all layers.

Most keys of a batch are in no layer. A table of flags, by the leading bits of the hash, tells those
that may be; they are searched in a hash index whose entry of a key has its row in the newest layer
that has it. Both are made when a version is opened, of hashes that are checked anyway: no file has
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import HashIndex, hashes_of_integers
from bsjoin.storage.opening import OpenLayer
from bsjoin.storage.range_index import run_starts
from bsjoin.storage.segment import Segment, find_keys

__all__ = ["Overlay", "distinct_keys", "row_hashes"]

Int64s = NDArray[np.int64]

_FLAGS_PER_KEY, _MOST_BITS = 64, 22
_GONE = -1


def row_hashes(segment: Segment) -> Int64s:
    """The hash of each row's key, also where rows are sorted by an integer key."""
    hashes = segment.index.hashes[:-1]
    return hashes_of_integers(hashes) if segment.index.dense else hashes


def distinct_keys(hashes: Int64s, keys: Sequence[pa.Array]) -> Int64s:
    """The position of the first entry of each key, in the order of their hashes.

    Args:
        hashes: int64[n], of some keys, in any order, with duplicates.
        keys: the compared columns of these.

    Complexity: O(n log n).

    Example:
        >>> distinct_keys(np.array([5, 3, 5, 5]), [pa.array(["a", "b", "a", "c"])]).tolist()
        [1, 0, 3]
    """
    if not keys:
        order = np.argsort(hashes, kind="stable")  # those of each segment are in order
        sorted_ = hashes.take(order)
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = sorted_[1:] != sorted_[:-1]
        return order[is_first]
    names = [str(number) for number in range(1 + len(keys))]
    table = pa.table([pa.array(hashes), *keys], names)
    table = table.append_column("place", pa.array(np.arange(len(hashes))))
    found = table.group_by(names).aggregate([("place", "min")]).column("place_min").to_numpy()
    order = np.lexsort((found, hashes.take(found)))
    return np.asarray(found[order], np.int64)


class Overlay:
    """The rows that the keys of layers have.

    Args:
        layers: oldest first, at least one.
        compared: how many keys are compared where hashes are equal.
        first_rows: int64[n]: the number, across the version, of the first row of each segment with
            rows, in the order of the layers.

    Attributes:
        hashes: int64[k]: of the keys of all layers, once each, ascending.
        keys: the compared columns of the same keys.
    """

    hashes: Int64s
    keys: list[pa.Array]

    def __init__(self, layers: Sequence[OpenLayer], compared: int, first_rows: Int64s):
        hashes, rows, keys = [], [], []
        number = len(first_rows)
        for layer in reversed(layers):  # of entries of one key the first is kept
            parts = [(layer.gone, _GONE)]
            if layer.rows is not None:
                number -= 1
                parts.append((layer.rows, int(first_rows[number])))
            for segment, first in parts:
                if segment is not None:
                    starts = run_starts(segment.index)
                    hashes.append(row_hashes(segment).take(starts))
                    rows.append(np.full(len(starts), _GONE) if first < 0 else starts + first)
                    keys.append([segment.take(i, starts) for i in range(compared)])
        every = np.concatenate(hashes)
        columns = [pa.concat_arrays(column) for column in zip(*keys, strict=True)]
        chosen = distinct_keys(every, columns)
        self.hashes = every.take(chosen)
        self.keys = [column.take(pa.array(chosen)) for column in columns]
        self._rows = np.concatenate(rows).take(chosen)
        self._index = None
        if compared:  # of few hashes a binary search is the faster one
            self._index = HashIndex.build(self.hashes, np.zeros(len(chosen) - 1, np.bool_))
        bits = min(_MOST_BITS, max(10, (_FLAGS_PER_KEY * len(chosen)).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._flags = np.zeros(1 << bits, np.bool_)
        self._flags[self._slots(self.hashes)] = True

    def _slots(self, hashes: Int64s) -> Int64s:
        return (hashes.view(np.uint64) >> self._shift).view(np.int64)

    def put(self, hashes: Int64s, keys: Sequence[pa.Array], rows: Int64s) -> None:
        """Replace the rows of keys that layers have; -1 for those that have none any more.

        Args:
            hashes: int64[m].
            keys: the compared columns of the m keys.
            rows: int64[m]: the rows that the base has, changed in place.

        Complexity: O(m), a read of one flag for keys that no layer has.
        """
        places = np.flatnonzero(self._flags.take(self._slots(hashes)))
        if not len(places):
            return
        searched = hashes.take(places)
        if self._index is not None:
            indices = pa.array(places)
            wanted = [key.take(indices) for key in keys]
            entries = find_keys(self._index, self.keys, searched, wanted)
            there = entries >= 0
        else:
            entries = np.searchsorted(self.hashes, searched)
            there = self.hashes.take(entries, mode="clip") == searched
        rows[places[there]] = self._rows.take(entries[there])
