"""A join whose names and types are settled: all that planning needs of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import Condition
from bsjoin.planner.aggregates import ResolvedAggregate
from bsjoin.planner.arguments import Partition
from bsjoin.planner.char_columns import with_length
from bsjoin.planner.cycle import Cycle
from bsjoin.planner.where import Where
from bsjoin.storage import BoxRange, RangeColumns


@dataclass(frozen=True, kw_only=True)
class ResolvedJoin:
    """A join whose columns and types are settled.

    Args:
        how: "inner", "left", "semi" or "anti". With ``where`` the join that finds candidates:
            "inner", or "left" for all others.
        keys: pairs of key columns, the stream's and the table's, in the order of the table's key.
        key_types: the table's types of them.
        condition: the range condition that is searched, on columns as both sides spell them.
        ranged: the table's range columns; None exactly where ``condition`` is.
        columns: the table's columns in the result, as the table spells them; then those of
            ``extra``. With ``aggregates`` the columns that they are of, or that an array has.
        names: what these, or the aggregates, are called in the result.
        partition: how the stream's rows are sent to partitions.
        nulls_equal: which keys are null-safe; None (default) where the index has no row with a null
            key.
        lengths: for each key, the lengths of CHAR(n) columns, the stream's and the table's, where
            they differ.
        cycle: the cycle of ``bsjoin.cycles`` that the join is of; None for any other.
        checked: further range conditions, which each pair of rows is checked for.
        where: what a pair of rows must fulfil besides, these included; None (default) for nothing.
        extra: so many columns, the last ones, are not in the result; default 0.
        added: columns of the stream that are not in the result either, see ``JoinCall``.
        match: the name of a column behind these that says whether there is a match; None (default)
            where nothing needs it.
        indicator: the name of the column that says whether there is a match; None (default) for no
            such column.
        boxes: the conditions among ``checked`` by which rows are found, too, with the table's
            columns: an index of boxes has them and ``condition``. Default: none.
        shares: for each of its ranges, what part of a key's rows a row of the stream meets, as the
            table was built.
        aggregates: what the result has instead of the columns; none (default) for these.
    """

    how: str
    keys: tuple[tuple[str, str], ...]
    key_types: tuple[T.DataType, ...]
    condition: Condition | None
    ranged: RangeColumns | None
    columns: tuple[str, ...]
    names: tuple[str, ...]
    partition: Partition
    lengths: tuple[tuple[int, int] | None, ...]
    nulls_equal: tuple[bool, ...] | None = None
    cycle: Cycle | None = field(default=None, repr=False, compare=False)
    checked: tuple[Condition, ...] = ()
    where: Where | None = field(default=None, repr=False, compare=False)
    extra: int = 0
    added: tuple[str, ...] = ()
    match: str | None = None
    indicator: str | None = None
    boxes: tuple[BoxRange, ...] = ()
    shares: tuple[float, ...] = ()
    aggregates: tuple[ResolvedAggregate, ...] = ()

    def key_values(self, column: Callable[[str], str]) -> list[str]:
        """The stream's keys in SQL, each as long as the table's; ``column`` gets columns in SQL."""
        return [
            with_length(column(name), lengths)
            for name, lengths in zip(self.stream_keys, self.lengths, strict=True)
        ]

    @property
    def stream_keys(self) -> tuple[str, ...]:
        """The stream's key columns."""
        return tuple(stream for stream, _ in self.keys)

    @property
    def table_keys(self) -> tuple[str, ...]:
        """The table's key columns."""
        return tuple(table for _, table in self.keys)

    def in_order_of(self, keys: Sequence[str]) -> ResolvedJoin:
        """The same join with its keys in another order of the table's; as it is for other keys."""
        if sorted(keys) != sorted(self.table_keys):
            return self
        places = [self.table_keys.index(key) for key in keys]
        return replace(
            self,
            keys=tuple(self.keys[place] for place in places),
            key_types=tuple(self.key_types[place] for place in places),
            lengths=tuple(self.lengths[place] for place in places),
            nulls_equal=self.nulls_equal and tuple(self.nulls_equal[place] for place in places),
        )

    @property
    def safe_keys(self) -> tuple[str, ...]:
        """The table's key columns that are null-safe."""
        flags = self.nulls_equal or ()
        return tuple(key for key, is_safe in zip(self.table_keys, flags, strict=False) if is_safe)

    @property
    def probes(self) -> tuple[str, ...]:
        """The stream's columns that ranges are searched by."""
        if self.condition is None:
            return ()
        searched = (self.condition, *(one.condition for one in self.boxes))
        return tuple(name for one in searched for name in one.stream_columns)
