"""The points of a batch of probes, in the codes of one range index.

A condition needs four things of a point: its code; the codes of the ends of a band around it; how
far a tolerance reaches; and which of two rows is nearer. Each kind of column has its own way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import (
    Later,
    add_saturated,
    add_wide,
    clamped,
    codes,
    later_float,
    later_int,
    later_wide,
    reach,
    wide_texts,
    words_of_texts,
)
from bsjoin.index.encoding import GREATEST, LEAST
from bsjoin.store.ranged import RangeIndex, codes_of, is_ranked, texts_of, words_of

__all__ = ["BandEnd", "Points", "points_of"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Width = Fraction | float


@dataclass(frozen=True)
class BandEnd:
    """One end of a band around each point.

    Args:
        codes: int64[m].
        is_closed: whether it is closed in any case, because no value lies on it.
        beyond: bool[m], where it lies beyond the ends of 64 bits, so that its code is the
            nearest there is; None for nowhere.
    """

    codes: Int64s
    is_closed: bool = False
    beyond: Bools | None = None


class Points(ABC):
    """Points of probes, and what is done with them."""

    codes: Int64s
    """int64[m]; anything where a point is null."""

    def band_end(self, delta: Width, whole: Callable[[Width], int]) -> BandEnd:
        """The points, moved by a width.

        Args:
            delta: the width, in the units of the codes.
            whole: how a fraction of a unit becomes a whole: ``math.ceil`` for the lower end of
                a band, ``math.floor`` for the upper.
        """
        if isinstance(delta, float) and math.isinf(delta):
            return BandEnd(np.full(len(self.codes), GREATEST if delta > 0 else LEAST), True)
        step = whole(delta)
        return self._moved(step, step != delta)

    @abstractmethod
    def _moved(self, step: int, is_closed: bool) -> BandEnd: ...

    def reach(self, tolerance: Width | None) -> tuple[Int64s, Int64s] | None:
        """The least and the greatest code that is near enough; None for any."""
        if tolerance is None or math.isinf(tolerance):
            return None
        low = self.band_end(-tolerance, math.ceil)
        return low.codes, self.band_end(tolerance, math.floor).codes

    @abstractmethod
    def later(self, index: RangeIndex) -> Later:
        """Which of two rows of the index is nearer to a point."""


class _Exact(Points):
    """Integers, dates, timestamps, short decimals: values are codes."""

    def __init__(self, array: pa.Array):
        self.codes = codes_of(array)

    def _moved(self, step: int, is_closed: bool) -> BandEnd:
        ends = add_saturated(self.codes, step)
        limit = GREATEST if step > 0 else LEAST
        beyond = (ends == limit) & (self.codes != limit - step)
        return BandEnd(ends, is_closed, beyond if step and beyond.any() else None)

    def later(self, index: RangeIndex) -> Later:
        return later_int(index.starts.values, self.codes)


class _Floating(Points):
    """Doubles: distances are computed in double, as Spark does."""

    def __init__(self, array: pa.Array):
        self._values = np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
        self.codes = codes(self._values)

    def band_end(self, delta: Width, whole: Callable[[Width], int]) -> BandEnd:
        return BandEnd(codes(add_saturated(self._values, float(delta))))

    def _moved(self, step: int, is_closed: bool) -> BandEnd:
        raise AssertionError("doubles move by any width")

    def reach(self, tolerance: Width | None) -> tuple[Int64s, Int64s] | None:
        return reach(self._values, None if tolerance is None else float(tolerance))

    def later(self, index: RangeIndex) -> Later:
        return later_float(index.starts.values, self.codes)


class _Wide(Points):
    """Decimals of more than 18 digits, looked for among such, or among shorter ones.

    Shorter ones are codes themselves and none of them is near the ends of 64 bits, so what is
    beyond these ends may stop before them.
    """

    def __init__(self, array: pa.Array, index: RangeIndex):
        self._words, self._ranks = words_of(array), index.ranks
        self.codes = self._coded(self._words)

    def _coded(self, words: Int64s) -> Int64s:
        if self._ranks is not None:
            return self._ranks.codes(wide_texts(words))
        return np.clip(clamped(words), LEAST + 1, GREATEST - 1)

    def _moved(self, step: int, is_closed: bool) -> BandEnd:
        return BandEnd(self._coded(add_wide(self._words, step)), is_closed)

    def later(self, index: RangeIndex) -> Later:
        values, ranks = index.starts.values, self._ranks

        def words(rows: Int64s) -> Int64s:
            found = values.take(rows)
            if ranks is not None:
                return words_of_texts(ranks.texts, found >> 1)
            return np.stack([found, found >> 63], axis=1)

        return later_wide(words, self._words)


class _Ordered(Points):
    """Texts and binaries: they have an order and no distances."""

    def __init__(self, array: pa.Array, index: RangeIndex):
        assert index.ranks is not None
        self.codes = index.ranks.codes(texts_of(array))

    def _moved(self, step: int, is_closed: bool) -> BandEnd:
        raise TypeError("texts have no distances")

    def later(self, index: RangeIndex) -> Later:
        raise TypeError("texts have no distances")


def points_of(array: pa.Array, index: RangeIndex) -> Points:
    """The points of probes.

    Args:
        array: the m points, of the type that the index has, or longer decimals.
        index: where they are looked for.
    """
    if pa.types.is_decimal128(array.type):
        wide = is_ranked(array.type) or index.ranks is not None
        return _Wide(array, index) if wide else _Exact(array)
    if is_ranked(array.type):
        return _Ordered(array, index)
    return _Floating(array) if pa.types.is_floating(array.type) else _Exact(array)
