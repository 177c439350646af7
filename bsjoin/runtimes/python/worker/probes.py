"""The points of a batch of probes, as codes of one range index.

A condition needs four operations on a point: its code; the codes of the ends of a band around it;
the range of codes within a tolerance; and which of two rows is nearer. Each kind of column has its
own implementation.

A point may be between two codes, if it has more digits than the table's column or is moved by a
fraction of a unit, or beyond the limits of 64 bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from bsjoin.index import (
    Int64s,
    Later,
    add_saturated,
    add_wide,
    clamped,
    codes,
    divide_wide,
    later_float,
    later_int,
    later_wide,
    multiply_wide,
    reach,
    wide_texts,
    words_of_texts,
)
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.storage.range_index import RangeIndex, codes_of, is_ranked, texts_of, words_of

Width = Fraction | float


@dataclass(frozen=True)
class Cuts:
    """The positions of points among codes.

    Args:
        codes: int64[m].
        shifts: int64[m], -1 or 1 if a point is just below or above its code
            (:meth:`bsjoin.index.SortedRows.search`); None (default) if all points are at their
            codes.
    """

    codes: Int64s
    shifts: Int64s | None = None


class Points(ABC):
    """The points of probes and the operations on them."""

    cuts: Cuts
    """The positions of the points; arbitrary for null points."""

    def moved(self, delta: Width) -> Cuts:
        """The positions of the points moved by a width, in units of the probes' codes."""
        if abs(delta) == math.inf:
            end, shift = (GREATEST, 1) if delta > 0 else (LEAST, -1)
            many = len(self.cuts.codes)
            return Cuts(np.full(many, end), np.full(many, shift))
        step = math.floor(delta)
        return self._moved(step, step != delta)

    @abstractmethod
    def _moved(self, step: int, further: bool) -> Cuts:
        """Like :meth:`moved`; ``further``: by a fraction of a unit more than the step."""

    def reach(self, tolerance: Width | None) -> tuple[Int64s, Int64s] | None:
        """The least and the greatest code within the tolerance; None for any."""
        if tolerance is None:
            return None
        low, high = self.moved(-tolerance), self.moved(tolerance)
        least, greatest = low.codes, high.codes
        if low.shifts is not None:
            above = low.shifts > 0
            nowhere = above & (least == GREATEST)
            least = np.where(nowhere, GREATEST, least + (above & ~nowhere))
            greatest = np.where(nowhere, LEAST, greatest)
        if high.shifts is not None:  # below its code only if that is the least
            nowhere = high.shifts < 0
            least = np.where(nowhere, GREATEST, least)
        return least, greatest

    @abstractmethod
    def later(self, index: RangeIndex) -> Later:
        """A function that compares the distances of two rows of the index to a point."""


class _Exact(Points):
    """Integers, dates, timestamps, short decimals: the values are the codes."""

    def __init__(self, array: pa.Array):
        self.cuts = Cuts(codes_of(array))

    def _moved(self, step: int, further: bool) -> Cuts:
        codes = self.cuts.codes
        ends = add_saturated(codes, step)
        limit, shift = (GREATEST, 1) if step > 0 else (LEAST, -1)
        beyond = (ends == limit) & (codes != limit - step)
        if not (further or (step and beyond.any())):
            return Cuts(ends)
        return Cuts(ends, np.where(beyond & (step != 0), shift, int(further)))

    def later(self, index: RangeIndex) -> Later:
        return later_int(index.starts.values, self.cuts.codes)


class _Floating(Points):
    """Doubles: distances are computed in double, as Spark does."""

    def __init__(self, array: pa.Array):
        self._values = np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
        self.cuts = Cuts(codes(self._values))

    def moved(self, delta: Width) -> Cuts:
        if abs(delta) == math.inf:  # no limit, of an infinity and NaN neither
            return super().moved(delta)
        return Cuts(codes(add_saturated(self._values, float(delta))))

    def _moved(self, step: int, further: bool) -> Cuts:
        raise AssertionError("doubles move by any width")

    def reach(self, tolerance: Width | None) -> tuple[Int64s, Int64s] | None:
        return reach(self._values, None if tolerance is None else float(tolerance))

    def later(self, index: RangeIndex) -> Later:
        return later_float(index.starts.values, self.cuts.codes)


class _Wide(Points):
    """Decimals of more than 18 digits, searched among such decimals, shorter ones or integers."""

    def __init__(self, array: pa.Array, index: RangeIndex, finer: int):
        self._words, self._ranks, self._finer = words_of(array), index.ranks, finer
        self.cuts = self._moved(0, False)

    def _moved(self, step: int, further: bool) -> Cuts:
        words, above = divide_wide(add_wide(self._words, step), self._finer)
        above |= further
        if self._ranks is not None:
            ranks = self._ranks.codes(wide_texts(words))
            return Cuts(ranks + (above & (ranks & 1 == 1)))  # even codes are between two values
        codes, high = clamped(words), words[:, 1]
        fits = high == (words[:, 0] >> 63)
        shifts = np.where(fits, above.astype(np.int64), np.where(high < 0, -1, 1))
        return Cuts(codes, shifts if shifts.any() else None)

    def later(self, index: RangeIndex) -> Later:
        values, ranks, finer = index.starts.values, self._ranks, self._finer

        def words(rows: Int64s) -> Int64s:
            found = values.take(rows)
            if ranks is not None:
                return multiply_wide(words_of_texts(ranks.texts, found >> 1), finer)
            return multiply_wide(np.stack([found, found >> 63], axis=1), finer)

        return later_wide(words, self._words)


class _Ordered(Points):
    """Texts and binaries: they have an order but no distance."""

    def __init__(self, array: pa.Array, index: RangeIndex):
        assert index.ranks is not None
        self.cuts = Cuts(index.ranks.codes(texts_of(array)))

    def _moved(self, step: int, further: bool) -> Cuts:
        raise TypeError("texts have no distances")

    def later(self, index: RangeIndex) -> Later:
        raise TypeError("texts have no distances")


def points_of(array: pa.Array, index: RangeIndex, finer: int) -> Points:
    """The points of probes, of the type that the index has, or longer decimals.

    These have ``finer`` more fractional digits than those of the table's column.
    """
    if pa.types.is_decimal128(array.type):
        wide = is_ranked(array.type) or index.ranks is not None or finer
        return _Wide(array, index, finer) if wide else _Exact(array)
    if is_ranked(array.type):
        return _Ordered(array, index)
    return _Floating(array) if pa.types.is_floating(array.type) else _Exact(array)
