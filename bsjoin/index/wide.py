"""128-bit integers: decimals of more than 18 digits.

They have Arrow's layout: two words of 64 bits, the low word first. For comparisons they are
converted to strings of 16 bytes (:class:`bsjoin.index.OrderedDictionary`); for additions they stay
two words. For decimals of up to 18 digits the low word is the code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bsjoin.index.arrays import Bools, Int64s, UInt64s
from bsjoin.index.encoding import GREATEST, LEAST, SIGN
from bsjoin.index.nearest import Later
from bsjoin.index.ordered_dictionary import ByteStrings

_LOW_WORD = (1 << 64) - 1
_LARGEST = (1 << 127) - 1
_DIGITS, _HALF = 9, np.uint64((1 << 32) - 1)  # 10**9 times 32 bits fits into 64


def wide_texts(words: Int64s) -> ByteStrings:
    """Encode numbers as texts of 16 bytes with the same order (big-endian, sign bit inverted).

    Args:
        words: int64[n, 2], low word and high word: the buffer of an Arrow decimal128 array.

    Complexity: O(n).
    """
    swapped = np.empty((len(words), 2), ">u8")
    swapped[:, 0] = words[:, 1].view(np.uint64) ^ SIGN
    swapped[:, 1] = words[:, 0].view(np.uint64)
    offsets = np.arange(len(words) + 1, dtype=np.int64) * 16
    return ByteStrings(offsets, swapped.view(np.uint8).ravel())


def words_of_texts(texts: ByteStrings, rows: Int64s) -> Int64s:
    """Decode the numbers of given rows; the inverse of :func:`wide_texts`.

    Args:
        texts: the result of :func:`wide_texts`.
        rows: int64[m], which.

    Returns:
        int64[m, 2].
    """
    swapped = texts.data.view(">u8").reshape(-1, 2).take(rows, axis=0)
    words = np.empty((len(rows), 2), np.uint64)
    words[:, 0] = swapped[:, 1]
    words[:, 1] = swapped[:, 0] ^ SIGN
    return words.view(np.int64)


def clamped(words: Int64s) -> Int64s:
    """The numbers as int64, saturated at the limits of 64 bits.

    Args:
        words: int64[n, 2].

    Returns:
        int64[n].
    """
    low, high = words[:, 0], words[:, 1]
    fits = high == (low >> 63)  # then the high word only repeats the sign
    return np.where(fits, low, np.where(high < 0, LEAST, GREATEST))


def add_wide(words: Int64s, delta: int) -> Int64s:
    """Add a number to each, saturated at the limits of 128 bits.

    Args:
        words: int64[n, 2].
        delta: an integer, in units of the decimals' last digit.

    Returns:
        int64[n, 2].

    Complexity: O(n).
    """
    # Further than from one limit to the other is the same.
    sums, left = words, max(-4 * _LARGEST, min(4 * _LARGEST, delta))
    while left:
        piece = max(-_LARGEST, min(_LARGEST, left))
        sums = _add(sums, piece)
        left -= piece
    return sums


def _add(words: Int64s, delta: int) -> Int64s:
    low, high = words[:, 0].view(np.uint64), words[:, 1]
    low_sum = low + np.uint64(delta & _LOW_WORD)
    carry = (low_sum < low).astype(np.int64)
    upper = delta >> 64  # Keeps the sign; fits in a word.
    high_sum = high + np.int64(upper) + carry
    # Without overflow, adding a positive number gives a sum that is not below the summand.
    wrapped = (high_sum < high) if delta >= 0 else (high_sum > high)
    sums = np.stack([low_sum.view(np.int64), high_sum], axis=1)
    if wrapped.any():
        end = _LARGEST if delta >= 0 else -_LARGEST - 1
        sums[wrapped, 0] = -1 if delta >= 0 else 0
        sums[wrapped, 1] = end >> 64
    return sums


def divide_wide(words: Int64s, digits: int) -> tuple[Int64s, Bools]:
    """Divide by a power of ten, rounding towards negative infinity.

    Args:
        words: int64[n, 2].
        digits: the exponent, 0 or more.

    Returns:
        int64[n, 2], the quotients; bool[n], whether there is a remainder.

    Complexity: O(n * digits).

    Example:
        >>> quotients, rest = divide_wide(np.array([[-25, -1], [30, 0]]), 1)
        >>> quotients[:, 0].tolist(), rest.tolist()
        ([-3, 3], [True, False])
    """
    if not digits:
        return words, np.zeros(len(words), np.bool_)
    negative = words[:, 1] < 0
    # For negative x: -1 - x is not negative, and floor(x / d) is -1 - floor((-1 - x) / d).
    limbs = _limbs(np.where(negative[:, None], ~words, words))
    left = np.zeros(len(words), np.bool_)
    while digits > 0:
        divisor = np.uint64(10 ** min(_DIGITS, digits))
        rest = np.zeros(len(words), np.uint64)
        for limb in reversed(limbs):
            rest = (rest << np.uint64(32)) | limb
            limb[:] = rest // divisor
            rest %= divisor
        left |= rest != np.where(negative, divisor - np.uint64(1), np.uint64(0))
        digits -= _DIGITS
    quotients = _of_limbs(limbs)
    return np.where(negative[:, None], ~quotients, quotients), left


def multiply_wide(words: Int64s, digits: int) -> Int64s:
    """Multiply by a power of ten; the product must fit into 128 bits.

    Args:
        words: int64[n, 2].
        digits: the exponent, 0 or more.

    Complexity: O(n * digits).
    """
    if not digits:
        return words
    limbs = _limbs(words)  # the product of two's complements is that of the numbers
    while digits > 0:
        factor = np.uint64(10 ** min(_DIGITS, digits))
        carry = np.zeros(len(words), np.uint64)
        for limb in limbs:
            carry += limb * factor
            limb[:] = carry & _HALF
            carry >>= np.uint64(32)
        digits -= _DIGITS
    return _of_limbs(limbs)


def _limbs(words: Int64s) -> list[UInt64s]:
    """The four 32-bit words, the lowest first."""
    parts = np.ascontiguousarray(words).view(np.uint32).reshape(-1, 4)
    return [parts[:, i].astype(np.uint64) for i in range(4)]


def _of_limbs(limbs: list[UInt64s]) -> Int64s:
    low, high = (limbs[i] | (limbs[i + 1] << np.uint64(32)) for i in (0, 2))
    return np.stack([low, high], axis=1).view(np.int64)


def later_wide(values: Callable[[Int64s], Int64s], probes: Int64s) -> Later:
    """Compare distances of 128-bit integers exactly; for :func:`bsjoin.index.nearest`.

    Args:
        values: a function from int64[k], rows, to int64[k, 2], their numbers.
        probes: int64[m, 2], the probes' numbers.
    """

    def later(positions: Int64s, before: Int64s, behind: Int64s) -> Bools:
        point = probes.take(positions, axis=0)
        back_low, back_high = _difference(point, values(before))
        ahead_low, ahead_high = _difference(values(behind), point)
        less = (ahead_high == back_high) & (ahead_low < back_low)
        return np.asarray((ahead_high < back_high) | less)

    return later


def _difference(above: Int64s, below: Int64s) -> tuple[UInt64s, UInt64s]:
    """The difference of two numbers as an unsigned 128-bit integer.

    Args:
        above: int64[n, 2].
        below: int64[n, 2], none of them greater.

    Returns:
        uint64[n] and uint64[n], the low word and the high word.
    """
    first, second = above.view(np.uint64), below.view(np.uint64)
    low = first[:, 0] - second[:, 0]
    borrow = (first[:, 0] < second[:, 0]).astype(np.uint64)
    return low, first[:, 1] - second[:, 1] - borrow
