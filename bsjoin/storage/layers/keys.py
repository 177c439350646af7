"""Join keys: which there are in rows or in layers, each once, and where others are among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from bsjoin.index import HashIndex, hashes_of_integers
from bsjoin.index.arrays import Bools, Int64s
from bsjoin.storage.range_index import run_starts
from bsjoin.storage.segment import Segment, find_keys


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


@dataclass(frozen=True, eq=False)
class Keys:
    """Distinct join keys, in the order of their hashes.

    ``places`` says where each of them is first among those that they were chosen from.
    """

    hashes: Int64s
    keys: list[pa.Array]
    places: Int64s

    @classmethod
    def of(cls, hashes: Int64s, keys: list[pa.Array]) -> Keys:
        """Those of some rows, in any order."""
        chosen = distinct_keys(hashes, keys)
        return cls(hashes.take(chosen), [key.take(pa.array(chosen)) for key in keys], chosen)

    @classmethod
    def of_segments(cls, segments: Iterable[Segment], compared: int) -> Keys:
        """Those of segments, at least one; ``places`` counts the keys of each after another."""
        found = [keys_in(segment, compared)[1:] for segment in segments]
        hashes, columns = zip(*found, strict=True)
        keys = [pa.concat_arrays(column) for column in zip(*columns, strict=True)]
        return cls.of(np.concatenate(hashes), keys)

    def __len__(self) -> int:
        return len(self.hashes)

    def find(self, hashes: Int64s, keys: Sequence[pa.Array]) -> Int64s:
        """Which of them others are; -1 for none of them."""
        if not len(self.hashes):
            return np.full(len(hashes), -1)
        return find_keys(self._index, self.keys, hashes, keys)

    @cached_property
    def _index(self) -> HashIndex:
        return HashIndex.build(self.hashes, np.zeros(len(self.hashes) - 1, np.bool_))

    def chosen(self, flags: Bools) -> Keys:
        """Some of them."""
        chosen = np.flatnonzero(flags)
        keys = [key.take(pa.array(chosen)) for key in self.keys]
        return Keys(self.hashes.take(chosen), keys, self.places.take(chosen))


def keys_in(segment: Segment, compared: int) -> tuple[Int64s, Int64s, list[pa.Array]]:
    """The first row of each key of a segment, the keys' hashes, and their compared columns."""
    starts = run_starts(segment.index)
    keys = [segment.take(number, starts) for number in range(compared)]
    return starts, row_hashes(segment).take(starts), keys
