"""Finding keys through layers: in those of the newest first, and then in the base.

Most keys of a batch are in no layer. A bitmap, by the leading bits of the hash, tells those that
may be, small enough for the caches of a core. They are searched in the indexes of the layers' own
segments, so that nothing but the bitmap is made when a version is opened, of hashes that are
checked anyway: no file has it. Each segment costs a batch some calls, however few keys it is
searched for. So a version of which much is asked gets one index of all of them, unless they are so
many that these calls are no matter: each process has the index for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index.arrays import Int64s, UInt64s
from bsjoin.storage.layers.keys import Keys, keys_in, row_hashes
from bsjoin.storage.opening import OpenLayer
from bsjoin.storage.segment import Segment

_BITS_PER_KEY, _MOST_BITS = 32, 22  # one other key in 32 to 64 passes
_AT_ONCE = 1 << 18
_MOST_KEYS, _MOST_BYTES = 1 << 22, 1 << 28  # of an index of all keys
_GONE, _NOWHERE = -1, -2
_ONE, _THREE, _SEVEN = np.uint8(1), np.uint64(3), np.uint8(7)


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
        self._keys = sum(segment.info.keys for segment, _ in self._segments)
        self._asked = 0  # keys
        self._together: tuple[Keys, Int64s] | None = None  # all keys, and their rows
        bits = min(_MOST_BITS, max(10, (_BITS_PER_KEY * self._keys).bit_length()))
        self._shift = np.uint64(64 - bits)
        slots = [some for segment, _ in self._segments for some in self._slots_of(segment)]
        self._bitmap = _bitmap(slots, bits)

    def _slots(self, hashes: Int64s) -> UInt64s:
        return hashes.view(np.uint64) >> self._shift

    def _slots_of(self, segment: Segment) -> list[Int64s]:
        """The slots of the rows of a segment, in parts that are ascending each."""
        hashes = row_hashes(segment)
        slots = self._slots(hashes).view(np.int64)
        if segment.index.dense:
            return [np.sort(slots)]
        negative = int(hashes.searchsorted(0))  # whose slots are greater
        return [slots[negative:], slots[:negative]]

    def _may_have(self, hashes: Int64s) -> Int64s:
        """The positions of hashes that a key of a layer may have."""
        slots = self._slots(hashes)
        found = self._bitmap.take((slots >> _THREE).view(np.int64))
        found >>= slots.astype(np.uint8) & _SEVEN
        found &= _ONE
        return np.flatnonzero(found.view(np.bool_))

    def put(
        self, hashes: Int64s, keys: Sequence[pa.Array], rows: Int64s, *, once: bool = False
    ) -> None:
        """Replace the rows of keys that layers have, in place; -1 for those that have none now.

        ``once`` is for many keys at once, which need no index of all.

        Complexity: O(m), a read of one bit for keys that no layer has. Once as many keys were asked
            for as the layers have: O(keys of the layers * log), and as much memory, if these are at
            most 4 million of 256 MiB.
        """
        left = self._may_have(hashes)
        self._asked += 0 if once else len(hashes)
        if not len(left):
            return
        indices = pa.array(left)
        found = self._found(hashes.take(left), [key.take(indices) for key in keys], once=once)
        there = found != _NOWHERE
        rows[left[there]] = found[there]

    def _found(self, hashes: Int64s, keys: Sequence[pa.Array], *, once: bool) -> Int64s:
        """The rows of keys; -1 for those that have none any more, -2 for those of no layer."""
        together = self._together
        if together is None and not once and self._is_worthwhile(len(keys)):
            together = self._together = self._put_together(len(keys))
        if together is not None:
            known, rows = together
            places = known.find(hashes, keys)
            return np.where(places < 0, _NOWHERE, rows.take(places))
        found = np.full(len(hashes), _NOWHERE)
        left = np.arange(len(hashes))
        for segment, first in self._segments:
            indices = pa.array(left)
            some = segment.find(hashes.take(left), [key.take(indices) for key in keys])
            there = some >= 0
            found[left[there]] = _GONE if first == _GONE else some[there] + first
            left = left[~there]
        return found

    def forget(self) -> None:
        """Let go of the index of all keys, which is made again for as many as they are."""
        self._together, self._asked = None, 0

    def _is_worthwhile(self, compared: int) -> bool:
        """Whether to make the index of all keys."""
        if len(self._segments) < 2 or not self._keys <= min(self._asked, _MOST_KEYS):
            return False
        sizes = (segment.info.sizes[1 : 1 + compared] for segment, _ in self._segments)
        return sum(map(sum, sizes)) <= _MOST_BYTES

    def _put_together(self, compared: int) -> tuple[Keys, Int64s]:
        rows = []
        for segment, first in self._segments:
            starts = keys_in(segment, 0)[0]
            rows.append(np.full(len(starts), _GONE) if first == _GONE else starts + first)
        known = Keys.of_segments((segment for segment, _ in self._segments), compared)
        return known, np.concatenate(rows).take(known.places)


def _bitmap(slots: Sequence[Int64s], bits: int) -> NDArray[np.uint8]:
    """A bit for each slot below 2**bits: whether it occurs.

    It is made in pieces that stay in a core's caches, and are small beside what a process has.

    Args:
        slots: ascending each.
        bits: 3 or more.
    """
    size = min(1 << bits, _AT_ONCE)
    begins = np.arange(0, (1 << bits) + 1, size)
    parts = [(some, some.searchsorted(begins).tolist()) for some in slots]
    flags, bitmap = np.empty(size, np.bool_), np.empty(1 << bits >> 3, np.uint8)
    for number, begin in enumerate(begins[:-1].tolist()):
        flags[:] = False
        for some, places in parts:
            first, end = places[number], places[number + 1]
            if first < end:
                flags[some[first:end] - begin] = True
        bitmap[begin >> 3 : begin + size >> 3] = np.packbits(flags, bitorder="little")
    return bitmap
