"""Sums, counts, least and greatest values of any rows that follow each other, in O(log n).

The rows of a column are in blocks of 16, 8 blocks are a node of the next level, and so on: a run
of rows is the values at its two ends and a few nodes between them. There are no prefix sums: a sum
is of its own rows only, so that a double loses nothing to large values elsewhere, and no infinity
or NaN outside of the rows is in it.

A level is made when it is first needed, from the column itself, and is in memory, not in a file: 8
bytes per block for each part (:data:`PARTS`), a seventh more for the levels above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.encoding import GREATEST, LEAST, codes
from bsjoin.index.row_pairs import expand

__all__ = ["AggregateTree", "Part"]

Int64s = NDArray[np.int64]
Part = Literal["count", "whole", "high", "low", "total", "least", "greatest"]

PARTS: dict[Part, tuple[np.ufunc, Any]] = {
    "count": (np.add, np.int64(0)),
    "whole": (np.add, np.int64(0)),
    "high": (np.add, np.int64(0)),
    "low": (np.add, np.int64(0)),
    "total": (np.add, np.float64(0)),
    "least": (np.minimum, np.int64(GREATEST)),
    "greatest": (np.maximum, np.int64(LEAST)),
}
"""What there is of rows, how it is put together, and what it is without a value.

``whole`` is the sum of whole numbers of at most 32 bits. ``high`` and ``low`` are the sums of the
upper and the lower 32 bits of wider ones, so that neither overflows in a segment: the sum is
``high * 2**32 + low``. ``total`` is the sum in double. ``least`` and ``greatest`` are codes of the
values, see :func:`bsjoin.index.codes`.
"""

BLOCK, FAN = 16, 8
_BUILT_TOGETHER = 4096 * BLOCK
_PROBED_TOGETHER = 1 << 12


class AggregateTree:
    """The blocks of a column, for whole batches of runs of rows.

    Args:
        values: [n], whole numbers or floats.
        valid: a bitmap of the rows that are not null, the lowest bit first; None (default) if all
            are.
        offset: the bit of the first row in it; default 0.

    Example:
        >>> tree = AggregateTree(np.arange(1000))
        >>> tree.of(["total"], np.array([0, 10]), np.array([1000, 12]))["total"].tolist()
        [499500.0, 21.0]
    """

    def __init__(
        self, values: NDArray[Any], valid: NDArray[np.uint8] | None = None, offset: int = 0
    ):
        self._rows, self._valid, self._offset = values, valid, offset
        self._levels: dict[Part, list[NDArray[Any]]] = {}

    def of(self, parts: Sequence[Part], firsts: Int64s, stops: Int64s) -> dict[Part, NDArray[Any]]:
        """The parts of m runs of rows.

        Args:
            parts: which.
            firsts: int64[m], the first row of each.
            stops: int64[m], one past the last, not below the first.

        Returns:
            For each part float64[m] (``total``) or int64[m].

        Complexity: O(log n) a run, however long.
        """
        step = _PROBED_TOGETHER
        # Without nulls a run has as many values as rows.
        added = [part for part in parts if part != "count" or self._valid is not None]
        pieces = [
            self._of(added, firsts[at : at + step], stops[at : at + step])
            for at in range(0, max(len(firsts), 1), step)
            if added
        ]
        found = {part: np.concatenate([piece[part] for piece in pieces]) for part in added}
        return {part: found[part] if part in found else stops - firsts for part in parts}

    def _of(self, parts: Sequence[Part], firsts: Int64s, stops: Int64s) -> dict[Part, NDArray[Any]]:
        begins, ends = -(-firsts // BLOCK), stops // BLOCK
        inside = begins < ends  # the run has a whole block
        before, behind = (np.where(inside, blocks * BLOCK, stops) for blocks in (begins, ends))
        found = self._both(parts, None, (firsts, before), (behind, stops))
        begins, ends = np.where(inside, begins, 0), np.where(inside, ends, 0)
        level = 0
        while (begins < ends).any():
            over, under = -(-begins // FAN), ends // FAN
            is_top = len(self._level(parts[0])) == level + 1
            inside = (over < under) & (not is_top)
            before, behind = (np.where(inside, n * FAN, ends) for n in (over, under))
            for part, more in self._both(parts, level, (begins, before), (behind, ends)).items():
                found[part] = _put_together(part, found[part], more)
            begins, ends = np.where(inside, over, 0), np.where(inside, under, 0)
            level += 1
        return found

    def _both(
        self,
        parts: Sequence[Part],
        level: int | None,
        left: tuple[Int64s, Int64s],
        right: tuple[Int64s, Int64s],
    ) -> dict[Part, NDArray[Any]]:
        """The parts of nodes of a level (None: of rows) in two ranges for each run."""
        firsts = np.concatenate([left[0], right[0]])
        counts = np.concatenate([left[1], right[1]]) - firsts
        _, places = expand(firsts, counts)
        some = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts).take(some)
        found = {}
        for part in parts:
            function, nothing = PARTS[part]
            result = np.full(len(counts), nothing)
            if len(some):
                values = (
                    self._values(part, places)
                    if level is None
                    else self._level(part)[level].take(places)
                )
                with np.errstate(invalid="ignore", over="ignore"):
                    result[some] = function.reduceat(values, starts)
            half = len(counts) // 2
            found[part] = _put_together(part, result[:half], result[half:])
        return found

    def _values(self, part: Part, rows: Int64s) -> NDArray[Any]:
        """The part of each of some rows."""
        there = None
        if self._valid is not None:
            bits = rows + self._offset
            there = (self._valid.take(bits >> 3) >> (bits & 7).astype(np.uint8)) & 1
        if part == "count":
            assert there is not None  # otherwise nobody counts
            return there.astype(np.int64)
        values = self._rows.take(rows)
        if part == "whole":
            values = values.astype(np.int64)
        elif part == "high":
            values = values.astype(np.int64) >> 32
        elif part == "low":
            values = values.astype(np.int64) & 0xFFFFFFFF
        elif part == "total":
            values = values.astype(np.float64)
        else:
            values = codes(values)
        return values if there is None else np.where(there, values, PARTS[part][1])

    def _level(self, part: Part) -> list[NDArray[Any]]:
        """The nodes of each level, the lowest one first; the last one has no level above."""
        found = self._levels.get(part)
        if found is None:
            function, _ = PARTS[part]
            many, pieces = len(self._rows), []
            with np.errstate(invalid="ignore", over="ignore"):
                for at in range(0, many, _BUILT_TOGETHER):
                    rows = np.arange(at, min(at + _BUILT_TOGETHER, many))
                    starts = np.arange(0, len(rows), BLOCK)
                    pieces.append(function.reduceat(self._values(part, rows), starts))
                found = [np.concatenate(pieces)]
                while len(found[-1]) > FAN:
                    starts = np.arange(0, len(found[-1]), FAN)
                    found.append(function.reduceat(found[-1], starts))
            self._levels[part] = found
        return found


def _put_together(part: Part, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        found: NDArray[Any] = PARTS[part][0](one, other)
    return found
