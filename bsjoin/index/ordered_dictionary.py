"""Order-preserving dictionary encoding of text and binary: ranks among the stored values.

A text of any length has no code of 64 bits of its own, but a search only compares probes with
stored values. So the distinct stored values are numbered in order: the value of rank ``r`` has the
code ``2 r + 1``, and a probe between two stored values has the even code between theirs. Then text
is searched like integers. (Dictionaries of this kind: C. Binnig, S. Hildenbrand, F. Färber,
"Dictionary-based Order-preserving String Compression for Main Memory Column Stores", SIGMOD 2009.)

Texts are compared eight bytes at a time, a whole batch in one vectorised step; only those that are
equal so far continue with the next eight bytes (MSD radix sort with digits of eight bytes). Byte
order is the order of Spark's strings (UTF-8) and binaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.index.checks import chunks, refuse
from bsjoin.index.encoding import SIGN
from bsjoin.index.row_pairs import pairs
from bsjoin.index.skiplist import SkipList

_PIECE = 8
_CHUNK = 1 << 20
_FEW = 64  # texts up to which comparing one by one is faster
_ALONG = np.arange(_PIECE, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ByteStrings:
    """Texts in Arrow's layout; the buffers of an Arrow array can be used without a copy.

    Args:
        offsets: int32 or int64[n + 1], the start of each text in the data, then the end of the last
            one.
        data: uint8, the bytes.
    """

    offsets: NDArray[Any]
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def piece(self, rows: Int64s, number: int) -> tuple[Int64s, Int64s]:
        """Eight bytes of each text, and whether the text ends with them.

        Args:
            rows: int64[m], which texts.
            number: which eight bytes, 0 for the first eight.

        Returns:
            int64[m]: the bytes as a number in their order, padded with zeros. int64[m]: the number
            of bytes, 0 to 8, and 9 if more follow. The number, then the count, order the texts by
            these bytes; texts equal in both are equal, or both continue.
        """
        begins = self.offsets.take(rows).astype(np.int64) + number * _PIECE
        counts = np.clip(self.offsets.take(rows + 1) - begins, 0, _PIECE + 1)
        if not self.data.size:
            return np.full(len(rows), int(SIGN) - (1 << 64)), counts
        found = self.data.take(begins[:, None] + _ALONG, mode="clip")
        found[counts[:, None] <= _ALONG] = 0
        numbers = found.view(">u8").ravel().astype(np.uint64)
        return (numbers ^ SIGN).view(np.int64), counts

    def bytes(self, row: int) -> NDArray[np.uint8]:
        """The bytes of one text, as a view."""
        return self.data[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def validate(self) -> None:
        """Check that the texts are contiguous and fill the data.

        Raises:
            ValueError: says what is wrong, and where.
        """
        if not len(self.offsets):
            raise ValueError("texts without an offset")
        begins, ends = int(self.offsets[0]), int(self.offsets[-1])
        if (begins, ends) != (0, len(self.data)):
            raise ValueError(f"texts go from {begins} to {ends} in {len(self.data)} bytes")
        for begin, end in chunks(len(self)):
            falls = self.offsets[begin + 1 : end + 1] < self.offsets[begin:end]
            refuse(falls, begin, "the length is negative of the text")

    def are_below_next(self, rows: Int64s) -> Bools:
        """Whether each of the given texts is below the next one.

        Complexity: O(common bytes), in steps of eight.
        """
        below: Bools = np.zeros(len(rows), np.bool_)
        going, number = np.arange(len(rows), dtype=np.int64), 0
        while len(going) > _FEW:
            at = rows.take(going)
            (text, length), (next_text, next_length) = (
                self.piece(at, number),
                self.piece(at + 1, number),
            )
            same = text == next_text
            below[going] = (text < next_text) | (same & (length < next_length))
            going = going[same & (length == next_length) & (length > _PIECE)]
            number += 1
        for place in going.tolist():
            row = int(rows[place])
            below[place] = self.bytes(row).tobytes() < self.bytes(row + 1).tobytes()
        return below

    def take(self, rows: Int64s) -> ByteStrings:
        """Copy the given texts.

        Args:
            rows: int64[m], which.

        Complexity: O(m + bytes).
        """
        begins = self.offsets.take(rows).astype(np.int64)
        lengths = self.offsets.take(rows + 1) - begins
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        done = 0
        for _, places in pairs(begins, begins + lengths, _CHUNK):
            self.data.take(places, out=data[done : done + len(places)])
            done += len(places)
        return ByteStrings(offsets, data)

    @classmethod
    def concat(cls, parts: Sequence[ByteStrings]) -> ByteStrings:
        """Concatenate texts.

        Complexity: O(n + bytes).
        """
        lengths = [np.diff(part.offsets) for part in parts]
        data = [part.data[int(part.offsets[0]) : int(part.offsets[-1])] for part in parts]
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        return cls(offsets, np.concatenate(data))


@dataclass(frozen=True, eq=False)
class OrderedDictionary:
    """The distinct values of a stored column, in order.

    Args:
        texts: the d distinct values, ascending.
        prefixes: int64[d], their first eight bytes (:meth:`ByteStrings.piece`) after the common
            prefix of all of them.

    Example:
        >>> column = ByteStrings(np.array([0, 1, 3, 4]), np.frombuffer(b"bccb", np.uint8))
        >>> ranks, stored = OrderedDictionary.build(column)
        >>> stored.tolist(), ranks.codes(ByteStrings(np.array([0, 2]), column.data[1:3])).tolist()
        ([1, 3, 1], [3])
    """

    texts: ByteStrings
    prefixes: Int64s

    @classmethod
    def build(cls, texts: ByteStrings) -> tuple[OrderedDictionary, Int64s]:
        """Rank the values of a column.

        Args:
            texts: n texts in any order; the text of a null row is arbitrary.

        Returns:
            The dictionary: a copy of the distinct values, and 16 bytes for each. And int64[n], the
            codes of the rows.

        Complexity: O(n log n) for each eight bytes that many texts share.
        """
        order, new = _sorted(texts)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.cumsum(new) - 1
        distinct = texts.take(order[new])
        prefixes, _ = distinct.piece(np.arange(len(distinct)), _shared(distinct))
        return cls(distinct, prefixes), 2 * ranks + 1

    def codes(self, probes: ByteStrings) -> Int64s:
        """Encode probes for comparison with the codes of the stored rows.

        Args:
            probes: m texts.

        Returns:
            int64[m]: odd for a stored value, even between two of them; 0 is below all.

        Complexity: O(log d) per probe for each eight bytes that it shares with some stored values
            but not with all.
        """
        codes = np.zeros(len(probes), np.int64)
        going = np.arange(len(probes), dtype=np.int64)
        number, many = _shared(self.texts), len(self.texts)
        for shared in range(number):
            if not going.size:
                return codes
            wanted, counts = probes.piece(going, shared)
            stored, _ = self.texts.piece(np.zeros(1, np.int64), shared)
            codes[going[wanted > stored]] = 2 * many
            going = going[(wanted == stored) & (counts > _PIECE)]
        wanted, _ = probes.piece(going, number)
        prefixes = SkipList(self.prefixes)
        low = prefixes.search(wanted, "left")
        codes[going] = 2 * low
        # The stored values in [low, high) equal the probe in all pieces so far.
        high = prefixes.search(wanted, "right", low, np.full(len(low), many))
        some = low < high
        going, low, high = going[some], low[some], high[some]
        while going.size:
            wanted, counts = probes.piece(going, number)
            pieces = number, wanted, counts
            first = _bounds(low, high, partial(self._are_before, *pieces, False))
            stop = _bounds(first, high, partial(self._are_before, *pieces, True))
            codes[going] = 2 * first
            some = first < stop
            ends = counts <= _PIECE
            codes[going[some & ends]] += 1
            on = some & ~ends
            going, low, high, number = going[on], first[on], stop[on], number + 1
        return codes

    def _are_before(
        self,
        number: int,
        wanted: Int64s,
        counts: Int64s,
        or_equal: bool,
        places: Int64s,
        probes: Int64s,
    ) -> Bools:
        """Whether stored values are below the probes, judged by one piece of their text."""
        stored, lengths = self.texts.piece(places, number)
        text, length = wanted.take(probes), counts.take(probes)
        shorter = lengths <= length if or_equal else lengths < length
        return np.asarray((stored < text) | ((stored == text) & shorter))

    def validate(self) -> None:
        """Check everything that encoding relies on.

        Raises:
            ValueError: says what is wrong, and where.

        Complexity: O(bytes) time, O(1) memory.
        """
        self.texts.validate()
        many = len(self.texts)
        if len(self.prefixes) != many:
            raise ValueError(f"there are {len(self.prefixes)} prefixes of {many} distinct values")
        shared = _shared(self.texts)
        for begin, end in chunks(many - 1):
            rows = np.arange(begin, end)
            refuse(~self.texts.are_below_next(rows), begin + 1, "the distinct values fall at rank")
        for begin, end in chunks(many):
            found, _ = self.texts.piece(np.arange(begin, end), shared)
            refuse(found != self.prefixes[begin:end], begin, "a prefix is wrong at rank")


def _shared(texts: ByteStrings) -> int:
    """Count the pieces of eight bytes that all texts (sorted) share, with more behind them."""
    if len(texts) < 2:
        return 0
    first, last = texts.bytes(0), texts.bytes(len(texts) - 1)
    shortest = min(len(first), len(last))
    for begin in range(0, shortest, _CHUNK):
        end = min(begin + _CHUNK, shortest)
        differs = first[begin:end] != last[begin:end]
        if differs.any():
            return (begin + int(differs.argmax())) // _PIECE
    return max(0, shortest - 1) // _PIECE


def _bounds(lows: Int64s, highs: Int64s, moves: Callable[[Int64s, Int64s], Bools]) -> Int64s:
    """Vectorised binary search in many ranges; ``moves(places, positions)``: where to go right."""
    low, high = lows.copy(), highs.copy()
    going = np.flatnonzero(low < high)
    while going.size:
        middle = (low[going] + high[going]) >> 1
        passed = moves(middle, going)
        low[going[passed]] = middle[passed] + 1
        high[going[~passed]] = middle[~passed]
        going = going[low[going] < high[going]]
    return low


def _sorted(texts: ByteStrings) -> tuple[Int64s, Bools]:
    """The rows in the order of their texts, and whether a text differs from the previous one."""
    order: Int64s = np.arange(len(texts), dtype=np.int64)
    new: Bools = np.zeros(len(texts), np.bool_)
    new[:1] = True
    # Positions in the order whose texts equal a neighbour's so far and continue.
    open_places, number = order.copy(), 0
    while open_places.size:
        rows = order.take(open_places)
        families = np.cumsum(new.take(open_places))
        numbers, counts = texts.piece(rows, number)
        by = np.lexsort((counts, numbers, families))
        order[open_places] = rows.take(by)
        numbers, counts = numbers.take(by), counts.take(by)
        differs = np.ones(len(by), np.bool_)
        differs[1:] = (numbers[1:] != numbers[:-1]) | (counts[1:] != counts[:-1])
        new[open_places] |= differs
        # Equal texts are adjacent; a text that differs from both neighbours is finished.
        last = np.ones(len(by), np.bool_)
        last[:-1] = new[open_places[1:]]
        goes_on = (counts > _PIECE) & ~(new[open_places] & last)
        open_places, number = open_places[goes_on], number + 1
    return order, new
