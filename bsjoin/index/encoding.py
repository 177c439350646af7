"""Order-preserving codes: every range column is searched as int64.

Two values compare as their codes do, so that one set of kernels serves all types. Equal values have
equal codes. (Algorithm 3 of the BS-Join paper pads digits with zeros instead, so that text compares
like numbers; negative numbers and fractions would compare incorrectly. Doubles are encoded by the
well-known bit trick: the bits of an IEEE 754 number, as a sign and magnitude integer, have its
order.)

Text, binary and decimals of more than 18 digits do not fit into 64 bits: see
:mod:`bsjoin.index.ordered_dictionary`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.arrays import Float64s, Int64s

LEAST = int(np.iinfo(np.int64).min)
GREATEST = int(np.iinfo(np.int64).max)
SIGN = np.uint64(1 << 63)
_ALL_BUT_SIGN = np.int64(GREATEST)


def codes(values: NDArray[Any]) -> Int64s:
    """Encode numbers and times so that codes compare as Spark compares the values.

    Args:
        values: [m] of any integer, boolean, float, datetime64 or timedelta64 type. Floats follow
            Spark: NaN is greater than all and equal to itself, and -0.0 equals 0.0. NaT is the
            least value.

    Returns:
        int64[m]; the same array if no value changes.

    Raises:
        TypeError: the values have another type.

    Complexity: O(m).

    Example:
        >>> codes(np.array([float("-inf"), -1.5, -0.0, 0.0, float("nan")])).argsort().tolist()
        [0, 1, 2, 3, 4]
    """
    kind = values.dtype.kind
    if kind == "f":
        return _float_codes(values)
    if kind == "u" and values.dtype.itemsize == 8:
        return (values.astype(np.uint64, copy=False) ^ SIGN).view(np.int64)
    if kind in "iub":
        return values.astype(np.int64, copy=False)
    if kind in "mM":
        return np.ascontiguousarray(values).view(np.int64)
    raise TypeError(f"values of type {values.dtype} have no code of 64 bits; use OrderedDictionary")


def _float_codes(values: NDArray[Any]) -> Int64s:
    # Adding 0.0 turns -0.0 into 0.0, and makes a copy that may be changed.
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    # The bits of negative doubles are in reverse order: invert all of them but the sign.
    return bits ^ ((bits >> np.int64(63)) & _ALL_BUT_SIGN)


def floats(encoded: Int64s) -> Float64s:
    """The doubles that the codes of floats stand for; the inverse of :func:`codes`."""
    bits = encoded ^ ((encoded >> np.int64(63)) & _ALL_BUT_SIGN)
    return bits.view(np.float64)


def add_saturated(values: NDArray[Any], delta: float) -> NDArray[Any]:
    """Add a width to a column with saturation: the sum stops at the limits of the type.

    A band ``[value - before, value + after]`` keeps its meaning: no value of the type is beyond its
    limits.

    Args:
        values: int64[m] (numbers, days, microseconds; narrower types first become int64) or
            float64[m].
        delta: what to add; an integer of any size for int64. Floats are added as doubles, where
            the infinities are the ends already.

    Returns:
        An array of the same type.

    Raises:
        TypeError: the values have another type, or a fraction is added to integers.

    Complexity: O(m).

    Example:
        >>> add_saturated(np.array([5, 2**63 - 3]), 10).tolist() == [15, 2**63 - 1]
        True
    """
    if values.dtype == np.float64:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values + np.float64(delta))
    if values.dtype.kind not in "iu" or values.dtype == np.uint64 or delta != int(delta):
        raise TypeError(f"{delta!r} cannot be added to values of type {values.dtype}")
    # Further than from one limit to the other is the same; more than 64 bits are added in pieces.
    sums, left = values.astype(np.int64), max(2 * LEAST, min(-2 * LEAST, int(delta)))
    while left:
        piece = max(LEAST, min(GREATEST, left))
        room = GREATEST - max(piece, 0), LEAST - min(piece, 0)
        sums = np.clip(sums, room[1], room[0]) + np.int64(piece)
        left -= piece
    return sums


def reach(values: NDArray[Any], tolerance: float | None = None) -> tuple[Int64s, Int64s]:
    """The range of codes within a tolerance of a point; for :func:`bsjoin.index.nearest`.

    NaN has no distance to any value; equal infinities have distance 0; any other distance to an
    infinity exceeds every tolerance.

    Args:
        values: int64[m] or float64[m], the points.
        tolerance: the maximum distance, 0 or more; ``None`` (default) for any.

    Returns:
        int64[m] and int64[m]: the least and the greatest code. For NaN the first is above every
        code of a float and the second below, so that nothing matches.

    Raises:
        ValueError: the tolerance is negative.

    Complexity: O(m).
    """
    if tolerance is not None and not tolerance >= 0:
        raise ValueError(f"a tolerance is 0 or more, not {tolerance!r}")
    if values.dtype != np.float64:
        if tolerance is None:
            return np.full(len(values), LEAST), np.full(len(values), GREATEST)
        return add_saturated(values, -tolerance), add_saturated(values, tolerance)
    if tolerance is None:
        lowest, highest = np.full(len(values), -np.inf), np.full(len(values), np.inf)
    else:
        # A finite point has a distance to finite rows only, an infinity to itself only.
        largest = np.finfo(np.float64).max
        finite = np.isfinite(values)
        lowest = np.where(finite, np.maximum(add_saturated(values, -tolerance), -largest), values)
        highest = np.where(finite, np.minimum(add_saturated(values, tolerance), largest), values)
    least, greatest = codes(lowest), codes(highest)
    nowhere = np.isnan(values)
    least[nowhere], greatest[nowhere] = GREATEST, LEAST
    return least, greatest
