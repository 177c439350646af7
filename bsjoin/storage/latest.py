"""The latest rows of each key: what a table keeps of a history.

The rows of a key meet where runs are merged into a segment, so that is where they are chosen: no
second pass over the source, and no shuffle. A task that writes a run chooses of its own rows, too,
which are then fewer to write and to merge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bsjoin.index.arrays import Int32s, Int64s
from bsjoin.storage import fields
from bsjoin.storage.segment_entries import MOST_ROWS
from bsjoin.storage.segment_writer import Rows, one_column, pieces, taken
from bsjoin.storage.ties import Tie, break_all_ties, first_rows
from bsjoin.values.sort_order import SortOrder, respelled, sort_orders


@dataclass(frozen=True)
class LatestBy:
    """Which rows of a key a table keeps.

    Args:
        order: normal forms of :class:`~bsjoin.values.sort_order.SortOrder`: the first in this order
            are kept.
        keep: how many.
    """

    order: tuple[str, ...]
    keep: int

    def spelled(self, name_of: Callable[[str], str]) -> LatestBy:
        """The same, the columns under other names."""
        return replace(self, order=respelled(self.order, name_of))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the order."""
        return tuple(SortOrder.parse(text).column for text in self.order)

    @classmethod
    def from_json(cls, data: Any) -> LatestBy:
        """Read the field of a manifest.

        Raises:
            ValueError: it is not what bsjoin writes.
        """
        order = sort_orders(fields.texts(data, "order"), "order")
        if not order:
            raise ValueError("the order of the latest rows names no column")
        return cls(order, fields.whole(data, "keep", 1, MOST_ROWS))


@dataclass(frozen=True)
class Latest:
    """The choice of the latest rows, among rows whose columns have numbers.

    Args:
        identity: how many leading columns tell the keys apart that have the same hash: the compared
            keys, then the range columns.
        ties: the columns that order the rows of a key, the latest first.
        keep: how many rows of a key are kept.
    """

    identity: int
    ties: tuple[Tie, ...]
    keep: int

    def positions(self, hashes: Int64s, rows: Rows) -> Int32s | None:
        """The rows that are kept, by key, the latest of each key first.

        Args:
            hashes: int64[n]: the hash of each row's key.
            rows: the n rows in the same order.

        Returns:
            int32[m], in the order of the hashes; None if no key occurs twice.

        Complexity: O(n log n) time. Memory: one column at a time, and 13 bytes a row.

        >>> rows = pa.table({"at": [3, 5, None, 4], "name": ["a", "b", "c", "d"]})
        >>> ties = (Tie(0, descending=True, nulls_last=True), Tie(1))
        >>> Latest(0, ties, 1).positions(np.array([7, 7, 6, 6]), rows).tolist()
        [3, 1]
        """
        # NumPy sorts values much faster than positions, and keys often occur once.
        if not _has_equals(hashes) and not _has_equals(np.sort(hashes)):
            return None
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        in_order = hashes.take(order)
        same = np.zeros(len(order), np.bool_)
        same[1:] = in_order[1:] == in_order[:-1]
        del in_order
        some = pieces(np.flatnonzero(~same), len(order))
        column = partial(one_column, rows)
        break_all_ties(order, same, column, [*map(Tie, range(self.identity))], some)
        if self.keep == 1:
            return first_rows(order, same, column, self.ties, some)
        starts = np.flatnonzero(~same)
        break_all_ties(order, same, column, self.ties, some)
        lengths = np.diff(starts, append=len(order))
        places = np.arange(len(order)) - np.repeat(starts, lengths)
        return order[places < self.keep]


def _has_equals(hashes: Int64s) -> bool:
    """Whether two neighbours are equal."""
    return bool((hashes[1:] == hashes[:-1]).any())


class PickedRows:
    """Some rows of others, in an order of their own."""

    def __init__(self, hashes: Int64s, rows: Rows, positions: Int32s):
        self._hashes = hashes
        self._rows = rows
        self._positions = positions

    def given_hashes(self) -> Int64s:
        """The hashes, which are forgotten here: the caller may free them."""
        hashes, self._hashes = self._hashes, self._hashes[:0].copy()
        return hashes

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return self._rows.num_columns

    def column(self, number: int) -> pa.ChunkedArray:
        """A column by its number."""
        return pa.chunked_array([taken(self._rows, number, self._positions)])
