"""Finding keys through layers: in those of the newest first, and then in the base.

Most keys of a batch are in no layer. A bitmap, by the leading bits of the hash, tells those that
may be, small enough for the caches of a core. They are searched in the indexes of the layers' own
segments, so that nothing but the bitmap is made when a version is opened, of hashes that are
checked anyway: no file has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import hashes_of_integers
from bsjoin.storage.opening import OpenLayer
from bsjoin.storage.segment import Segment

Int64s = NDArray[np.int64]

_BITS_PER_KEY, _MOST_BITS = 32, 22  # one other key in 32 to 64 passes
_GONE = -1
_THREE = np.uint64(3)


def row_hashes(segment: Segment) -> Int64s:
    """The hash of each row's key, also where rows are sorted by an integer key."""
    hashes = segment.index.hashes[:-1]
    return hashes_of_integers(hashes) if segment.index.dense else hashes


class Overlay:
    """The rows that the keys of layers have.

    Args:
        layers: oldest first, at least one.
        first_rows: int64[n]: the number, across the version, of the first row of each segment with
            rows, in the order of the layers.
    """

    def __init__(self, layers: Sequence[OpenLayer], first_rows: Int64s):
        self._segments: list[tuple[Segment, int]] = []  # with their first rows, the newest first
        number = len(first_rows)
        for layer in reversed(layers):
            if layer.rows is not None:
                number -= 1
                self._segments.append((layer.rows, int(first_rows[number])))
            if layer.gone is not None:
                self._segments.append((layer.gone, _GONE))
        keys = sum(segment.info.keys for segment, _ in self._segments)
        bits = min(_MOST_BITS, max(10, (_BITS_PER_KEY * keys).bit_length()))
        self._shift = np.uint64(64 - bits)
        flags = np.zeros(1 << bits, np.bool_)
        for segment, _ in self._segments:
            flags[self._slots(row_hashes(segment)).view(np.int64)] = True
        self._bitmap = np.packbits(flags, bitorder="little")

    def _slots(self, hashes: Int64s) -> NDArray[np.uint64]:
        return hashes.view(np.uint64) >> self._shift

    def _may_have(self, hashes: Int64s) -> Int64s:
        """The positions of hashes that a key of a layer may have."""
        slots = self._slots(hashes)
        found = self._bitmap.take((slots >> _THREE).view(np.int64))
        found >>= slots.astype(np.uint8) & np.uint8(7)
        return np.flatnonzero(found & np.uint8(1))

    def put(self, hashes: Int64s, keys: Sequence[pa.Array], rows: Int64s) -> None:
        """Replace the rows of keys that layers have; -1 for those that have none any more.

        Args:
            hashes: int64[m].
            keys: the compared columns of the m keys.
            rows: int64[m]: the rows that the base has, changed in place.

        Complexity: O(m), a read of one bit for keys that no layer has.
        """
        left = self._may_have(hashes)
        for segment, first in self._segments:
            if not len(left):
                return
            wanted = [key.take(pa.array(left)) for key in keys]
            found = segment.find(hashes.take(left), wanted)
            there = found >= 0
            rows[left[there]] = _GONE if first == _GONE else found[there] + first
            left = left[~there]
