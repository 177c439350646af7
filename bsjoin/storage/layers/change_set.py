"""Changes of rows that are told apart by some columns: of each row the last change counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.errors import ArgumentError
from bsjoin.index.arrays import Bools, Float64s, Int64s
from bsjoin.storage.segment import bools
from bsjoin.storage.ties import order_codes
from bsjoin.values.plain import has_inside, plain
from bsjoin.values.python_values import reprs

PRE_IMAGE, DELETE, UPSERT = 0, 1, 2
"""What a change is: a row as it was before an update, one that is removed, one as it is now."""


@dataclass(frozen=True)
class ChangeSet:
    """Some changes of a table.

    Args:
        hashes: int64[n], of the join key of each row; null where a part of it is null.
        rows: the n rows: the compared keys, then the columns of the table. Of a row that is
            removed only the columns that tell it apart count.
        kinds: int8[n], one of :data:`PRE_IMAGE`, :data:`DELETE`, :data:`UPSERT`.
        order: n values, of which the greatest is the last change of a row; None if there is none.
        ranked: whether of changes with the same order a row that is there now counts more than one
            that is removed, as in the change feeds of table formats. Default False.
    """

    hashes: pa.Int64Array
    rows: pa.Table
    kinds: NDArray[np.int8]
    order: pa.Array | None = None
    ranked: bool = False

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, places: Int64s) -> ChangeSet:
        """Some of the changes, or all in another order."""
        indices = pa.array(places)
        return replace(
            self,
            hashes=self.hashes.take(indices),
            rows=self.rows.take(indices),
            kinds=self.kinds.take(places),
            order=None if self.order is None else self.order.take(indices),
        )

    def check_identity(self, identity: Mapping[str, int]) -> None:
        """Refuse a change whose row is not known, by the columns of ``identity`` and their numbers.

        Raises:
            ArgumentError: a column that tells rows apart, or the order, is null.
        """
        for name, place in identity.items():
            column = self.rows.column(place)
            if column.null_count:
                number = int(np.argmax(bools(column.combine_chunks().is_null())))
                raise ArgumentError(
                    f"a change has null in {name!r}, which tells rows apart: "
                    f"{self._shown(number)}. Leave such rows out, or give other columns as key="
                )
        if not identity and self.hashes.null_count:
            number = int(np.argmax(bools(self.hashes.is_null())))
            raise ArgumentError(
                f"a change has a null join key, whose rows cannot be replaced: "
                f"{self._shown(number)}. Leave such rows out, or give key="
            )
        if self.order is not None and self.order.null_count:
            number = int(np.argmax(bools(self.order.is_null())))
            raise ArgumentError(
                f"a change has null as its sequence: {self._shown(number)}. Fill it, or leave "
                "such rows out"
            )

    def last(self, groups: Int64s, *, several: bool) -> ChangeSet:
        """The last change of each row.

        Args:
            groups: int64[n], which changes are of one row, by :func:`group_ids`.
            several: whether a row may have several last changes: the rows of one key, which are
                replaced together.

        Raises:
            ArgumentError: two changes of a row are not in order.
        """
        if int(groups.max(initial=-1)) + 1 == len(self):  # each is of another row
            return self
        order = (
            np.zeros(len(self), np.int64)
            if self.order is None
            else order_codes(self.order, exact=False)
        )
        # A row as it was is no change if its row has another one.
        ranks = self.kinds if self.ranked or several else np.minimum(self.kinds, 1)
        sorting = np.lexsort((np.arange(len(self)), ranks, order, groups))
        places = np.asarray(sorting, np.int64)
        sorted_ = groups.take(places), order.take(places), ranks.take(places)
        ends = np.ones(len(places), np.bool_)
        ends[:-1] = sorted_[0][1:] != sorted_[0][:-1]
        # The last change of each group, at the place of each of its changes.
        last = np.flatnonzero(ends).take(np.cumsum(ends) - ends)
        tied = sorted_[1] == sorted_[1].take(last)
        equal = tied & (sorted_[2] == sorted_[2].take(last))
        kept = equal if several else ends
        moved = self._moved(groups).take(places) & (self.kinds.take(places.take(last)) == UPSERT)
        doubtful = ~ends & (equal & (sorted_[2] > PRE_IMAGE) | tied & moved)
        if not several and doubtful.any():
            self._check_same(places, doubtful, np.asarray(last, np.int64))
        return self.take(np.sort(places[kept]))

    def _moved(self, groups: Int64s) -> Bools:
        """The rows as they were before an update that has made other rows of them.

        An update that keeps its row has it behind the one before. What comes from table formats has
        another order, in which nothing moves twice.
        """
        if self.ranked:
            return np.zeros(len(self), np.bool_)
        stays = np.zeros(len(self), np.bool_)
        stays[:-1] = (groups[1:] == groups[:-1]) & (self.kinds[1:] == UPSERT)
        return np.asarray((self.kinds == PRE_IMAGE) & ~stays, np.bool_)

    def _check_same(self, places: Int64s, doubtful: Bools, last: Int64s) -> None:
        """Let changes that are delivered twice pass, and refuse others that are not in order."""
        ones, others = places[doubtful], places[last[doubtful]]
        if self.order is not None and self._are_same(ones, others):  # mostly, and many
            return
        for i, (one, other) in enumerate(zip(ones.tolist(), others.tolist(), strict=True)):
            if self.order is not None and self._are_same(ones[i : i + 1], others[i : i + 1]):
                continue
            why = "no order" if self.order is None else f"the sequence {self.order[one]} both"
            raise ArgumentError(
                f"two changes of one row have {why}: {self._shown(one)} and {self._shown(other)}. "
                "Give sequence= a column that grows with each change"
            )

    def _are_same(self, ones: Int64s, others: Int64s) -> bool:
        """Whether changes are pairwise the same: NaN is NaN, but 0.0 is not -0.0."""
        return np.array_equal(self.kinds.take(ones), self.kinds.take(others)) and all(
            _exact(column.take(pa.array(ones))).equals(_exact(column.take(pa.array(others))))
            for column in self.rows.columns
        )

    def _shown(self, number: int) -> str:
        columns = (column.combine_chunks() for column in self.rows.slice(number, 1).columns)
        row = dict(zip(self.rows.column_names, map(reprs, columns), strict=True))
        what = ("before an update", "delete", "upsert")[self.kinds[number]]
        values = ", ".join(f"{name!r}: {value}" for name, (value,) in row.items())
        return f"{what} {{{values}}}"[:300]


def values_of(column: pa.Array) -> pa.Array:
    """Values that are equal where Spark takes those of a column for equal: of floats the bits.

    Example:
        >>> values_of(pa.array([0.0, 1.0])).equals(values_of(pa.array([-0.0, 1.0])))
        True
    """
    if not pa.types.is_floating(column.type):
        return column
    return _bits(column, np.asarray(column.to_numpy(zero_copy_only=False), np.float64) + 0.0)


def _exact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that are equal where those of a column are the same: of floats the bits."""

    def leaf(array: pa.Array) -> pa.Array:
        if not pa.types.is_floating(array.type):
            return array
        return _bits(array, np.asarray(array.to_numpy(zero_copy_only=False), np.float64))

    if not has_inside(column.type, pa.types.is_floating):
        return column
    return pa.chunked_array([plain(chunk, leaf) for chunk in column.chunks])


def _bits(column: pa.Array, numbers: Float64s) -> pa.Array:
    """The bits of numbers, with one NaN; null where a column is."""
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    return pa.array(bits, mask=bools(column.is_null()) if column.null_count else None)


def group_ids(columns: Sequence[pa.Array]) -> Int64s:
    """Numbers of rows from 0 on, none left out: the same where all columns are equal, only there.

    Args:
        columns: one or more, of one length; their types are those of keys.

    Complexity: O(n) expected.

    Example:
        >>> group_ids([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])]).tolist()
        [0, 1, 0]
    """
    found, *others = map(_numbered, columns)
    for numbers in others:
        both = found * (int(numbers.max(initial=0)) + 1) + numbers
        found = _numbered(pa.array(both))
    return found


def _numbered(column: pa.Array) -> Int64s:
    """Numbers of the values of a column in the order in which they come; null is one of them."""
    encoded = values_of(column).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(), np.int64)
