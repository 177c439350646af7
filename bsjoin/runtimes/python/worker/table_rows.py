"""The rows of a table as a join returns them: its columns, in its types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bsjoin.index import AggregateTree, Int64s
from bsjoin.plan import JoinPlan
from bsjoin.storage.open_table import OpenTable
from bsjoin.values.retype import retyped


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, with some of its columns; row -1 has nulls.

    A column that the version lacks, since it was added later, is null. The plan says which columns,
    and their types in the result.
    """

    table: OpenTable
    plan: JoinPlan

    def gather(self, rows: Int64s, numbers: Sequence[int] | None = None) -> list[pa.Array]:
        """The values of the columns (or of those numbered) at some rows."""
        columns, types = self.plan.columns, self.plan.types
        chosen = range(len(columns)) if numbers is None else numbers
        there = tuple(columns[i] for i in chosen if self.table.has(columns[i]))
        found = dict(zip(there, self.table.gather(there, rows), strict=True))
        return [
            retyped(found[columns[i]], types[i])
            if columns[i] in found
            else pa.nulls(len(rows), types[i])
            for i in chosen
        ]

    def tree(self, number: int, first_row: int) -> AggregateTree | None:
        """What aggregates a column of the segment with this first row; None without the column."""
        column = self.plan.columns[number]
        return self.table.tree(column, first_row) if self.table.has(column) else None
