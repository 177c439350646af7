"""Sums, counts, least and greatest values of any rows that follow each other, in O(log n).

The rows of a column are in blocks of 16, 8 blocks are a node of the next level, and so on: a run
of rows is the values at its two ends and a few nodes between them. What is added up exactly has the
sum of all blocks before each one instead of levels: blocks that follow each other are one
difference. Sums of doubles have not: a sum is of its own rows only, so that it loses nothing to
large values elsewhere, and no infinity or NaN outside of the rows is in it.

A level is made when it is first needed, from the column itself, and is in memory, not in a file: 8
bytes per block for each part (:data:`PARTS`), for levels a seventh more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.index.encoding import GREATEST, LEAST, codes

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
_EXACT: tuple[Part, ...] = ("count", "whole", "high", "low")
_BUILT_TOGETHER = 4096 * BLOCK
_PROBED_TOGETHER = 1 << 11
"""So many runs at once: what is computed for their ends stays in a core's caches."""


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
        whole = len(values) // BLOCK * BLOCK
        self._grid = values[:whole].reshape(-1, BLOCK)
        self._tail = np.zeros(BLOCK, values.dtype)  # the last rows, which are no whole block
        self._tail[: len(values) - whole] = values[whole:]
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
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of different signs
            pieces = [
                self._of(added, firsts[at : at + step], stops[at : at + step])
                for at in range(0, max(len(firsts), 1), step)
                if added
            ]
        found = {part: np.concatenate([piece[part] for piece in pieces]) for part in added}
        return {part: found[part] if part in found else stops - firsts for part in parts}

    def _of(self, parts: Sequence[Part], firsts: Int64s, stops: Int64s) -> dict[Part, NDArray[Any]]:
        groups, inside = _ends(firsts, stops, BLOCK)
        if self._valid is not None and len(self._rows):
            inside &= self._there(groups)
        kept, found = _bits(inside), {}
        for part, values in _values(parts, self._blocks_at(groups)).items():
            found[part] = _reduced(part, values, kept)
        begins, ends, level = firsts // BLOCK + 1, stops // BLOCK, 0
        others = [part for part in parts if part not in _EXACT]
        for part in found.keys() - others:
            (sums,) = self._level(part)
            found[part] += sums.take(ends) - sums.take(np.minimum(begins, ends))
        while others and (begins < ends).any():
            groups, inside = _ends(begins, ends, FAN)
            kept = _bits(inside)
            for part in others:
                nodes = self._level(part)[level].take(groups, axis=0, mode="clip")
                more = _reduced(part, np.ascontiguousarray(nodes.T), kept)
                found[part] = PARTS[part][0](found[part], more)
            begins, ends, level = begins // FAN + 1, ends // FAN, level + 1
        return found

    def _blocks_at(self, blocks: Int64s) -> NDArray[Any]:
        """The rows of some blocks, [16, m]. What is behind the last row is any value."""
        whole = len(self._grid)
        if not whole:
            return np.repeat(self._tail[:, None], len(blocks), axis=1)
        if self._grid.flags.c_contiguous:
            found = self._grid.take(blocks, axis=0, mode="clip")
        else:  # of decimals, which `take` would copy all before
            found = self._grid[np.minimum(blocks, whole - 1)]
        found[blocks >= whole] = self._tail
        return np.ascontiguousarray(found.T)

    def _there(self, blocks: Int64s) -> Bools:
        """Which of the rows of blocks are not null, [16, m]."""
        assert self._valid is not None
        rows = blocks * BLOCK + np.arange(BLOCK)[:, None]
        bits = np.minimum(rows, len(self._rows) - 1) + self._offset
        there = self._valid.take(bits >> 3) >> (bits & 7).astype(np.uint8)
        found: Bools = (there & 1).view(np.bool_)
        return found

    def _level(self, part: Part) -> list[NDArray[Any]]:
        """The nodes of each level, in groups, the lowest one first; above the last one is none.

        Of what is exact one level: before each block and behind the last one the sum of all before.
        """
        found = self._levels.get(part)
        if found is None:
            function, nothing = PARTS[part]
            many = len(self._rows)
            nodes = [
                self._blocks(part, at, min(at + _BUILT_TOGETHER, many))
                for at in range(0, many, _BUILT_TOGETHER)
            ]
            if part in _EXACT:
                found = [np.cumsum(np.concatenate([np.zeros(1, np.int64), *nodes]))]
            else:
                found = [_padded(np.concatenate(nodes), nothing)]
            while part not in _EXACT and len(found[-1]) > 1:
                found.append(_padded(function.reduce(found[-1], axis=1), nothing))
            self._levels[part] = found
        return found

    def _blocks(self, part: Part, first: int, stop: int) -> NDArray[Any]:
        """The part of each block of some rows."""
        function, nothing = PARTS[part]
        values = _values([part], self._rows[first:stop])[part]
        if self._valid is not None:
            begin, end = first + self._offset, stop + self._offset
            bits = np.unpackbits(self._valid[begin >> 3 : (end + 7) >> 3], bitorder="little")
            there = bits[begin & 7 :][: stop - first].view(np.bool_)
            values = np.where(there, values, nothing)
        found: NDArray[Any] = function.reduceat(values, np.arange(0, stop - first, BLOCK))
        return found


def _padded(nodes: NDArray[Any], nothing: Any) -> NDArray[Any]:
    """The nodes of a level, in groups."""
    room = np.full(-len(nodes) % FAN, nothing)
    return np.concatenate([nodes, room]).reshape(-1, FAN)


def _ends(begins: Int64s, ends: Int64s, size: int) -> tuple[Int64s, Bools]:
    """The groups of ``size`` rows or nodes in which m ranges begin, and those in which they end.

    Returns:
        int64[2 * m], the groups, and bool[size, 2 * m], whether a range has what is in them; of
        what is in one group only that in which the range begins.
    """
    left, right = begins // size, ends // size
    low = begins - left * size
    last = (ends - right * size) * (right > left)
    high = np.concatenate([np.minimum(ends - left * size, size), last])
    step = np.arange(size, dtype=np.int8)[:, None]
    inside = step < high.astype(np.int8)
    inside[:, : len(begins)] &= step >= low.astype(np.int8)
    return np.concatenate([left, right]), inside


def _bits(inside: Bools) -> Int64s:
    """All bits of 64 where it is so, else none."""
    found: Int64s = -inside.astype(np.int64)
    return found


def _values(parts: Sequence[Part], values: NDArray[Any]) -> dict[Part, NDArray[Any]]:
    """The parts of single values."""
    found = dict[Part, NDArray[Any]]()
    encoded = None
    if values.dtype.kind == "i":
        values = values.astype(np.int64, copy=False)
    for part in parts:
        if part in ("least", "greatest"):
            encoded = codes(values) if encoded is None else encoded
            found[part] = encoded
        elif part == "count":
            found[part] = np.broadcast_to(np.int64(1), values.shape)
        elif part == "high":
            found[part] = values >> 32
        elif part == "low":
            found[part] = values & 0xFFFFFFFF
        else:
            found[part] = values if part == "whole" else values.astype(np.float64, copy=False)
    return found


def _reduced(part: Part, values: NDArray[Any], kept: Int64s) -> NDArray[Any]:
    """The part of each range, from what is in the two groups of :func:`_ends`.

    What is not in it gives way to nothing by its bits: `np.where` takes three times as long.
    """
    function, _ = PARTS[part]
    if part == "least":
        values = np.maximum(values, kept ^ GREATEST)
    elif part == "greatest":
        values = np.minimum(values, kept ^ LEAST)
    elif part == "total":
        values = (values.view(np.int64) & kept).view(np.float64)
    else:
        values = values & kept
    both = function.reduce(values, axis=0)
    half = len(both) // 2
    found: NDArray[Any] = function(both[:half], both[half:])
    return found
