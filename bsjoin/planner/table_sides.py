"""The table's side of a call: what it can be joined on, before it is built and as it was built."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import Condition, chooses
from bsjoin.errors import ArgumentError, ColumnError, TableMismatchError, suggest
from bsjoin.planner.char_columns import char_length
from bsjoin.planner.columns import Names, On, check_free, join_keys, schema_of
from bsjoin.planner.keys import type_name, type_of
from bsjoin.planner.range_columns import needs_places, range_columns, searched_ends
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.storage import Manifest, RangeColumns
from bsjoin.values.sort_order import SortOrder

_log = logging.getLogger("bsjoin")

_noted: set[str] = set()  # tables of earlier versions, by their paths


@dataclass(frozen=True)
class UnbuiltTable:
    """A DataFrame or a source, for a call: it can be joined on any of its columns.

    Args:
        columns: its columns.
        side: how errors name it.
    """

    columns: T.StructType
    side: str

    def selectable(self, case_sensitive: bool) -> Names:
        """All its columns."""
        return Names(self.columns.names, self.side, case_sensitive)

    def searched(self, conditions: Sequence[Condition], stream: Names) -> Condition | None:
        """Which of the conditions the table is sorted for: one that takes rows, or the first."""
        return next(filter(chooses, conditions), next(iter(conditions), None))

    def conditions(self, stream: Names) -> tuple[Condition, ...]:
        """None, if the call has none."""
        return ()

    def key_pairs(
        self, on: On, conditions: Sequence[Condition], stream: Names
    ) -> list[tuple[str, str]]:
        """The keys of the call; by default the shared names that are not in the conditions."""
        table = self.selectable(stream.case_sensitive)
        table.check_distinct()
        if not conditions:
            return join_keys(on, stream, table)
        if on is not None:
            return [] if on == [] else join_keys(on, stream, table)
        used = [
            name
            for when in conditions
            for name in (
                *when.stream_columns,
                *when.table_columns,
                *(order.column for order in (when.orders if chooses(when) else ())),
            )
        ]
        ranged = Names(used, "when", stream.case_sensitive)
        left, right = (
            Names([n for n in side.columns if n not in ranged], side.side, side.case_sensitive)
            for side in (stream, table)
        )
        if not any(name in right for name in left.columns):
            raise ArgumentError(
                "on=None joins on the column names that both sides share besides those of when=, "
                f"and there are none: {stream.side} has {stream.columns}, {table.side} has "
                f"{table.columns}. Give on=..., or on=[] for a pure range join"
            )
        return join_keys(None, left, right)

    def nulls_equal(
        self, pairs: Sequence[tuple[str, str]], wanted: Sequence[bool]
    ) -> tuple[bool, ...] | None:
        """The null-safe keys of the call; None where there are none."""
        if not any(wanted):
            return None
        check_free(self.columns.names)
        return tuple(wanted)

    def key_type(self, name: str) -> T.DataType:
        """The column's type."""
        return self.columns[name].dataType

    def char_length(self, name: str) -> int | None:
        """As the column's metadata says."""
        return char_length(self.columns[name].metadata)

    def range_columns(self, when: Condition, stream: Names) -> RangeColumns:
        """The columns of the condition, as they will be sorted."""
        return range_columns(when, self.columns, self.selectable(stream.case_sensitive))


@dataclass(frozen=True)
class BuiltTable:
    """A stored table, for a call: it is joined on the keys, and for the condition, of its build.

    Args:
        manifest: its newest version.
        path: how errors name it.
    """

    manifest: Manifest
    path: str

    @property
    def columns(self) -> T.StructType:
        """The columns that are stored."""
        return schema_of(self.manifest)

    @property
    def _keys(self) -> list[str]:
        return [key.name for key in self.manifest.keys]

    def selectable(self, case_sensitive: bool) -> Names:
        """The columns that are stored."""
        return Names(self.manifest.columns, "the table", case_sensitive)

    def searched(self, conditions: Sequence[Condition], stream: Names) -> Condition | None:
        """Which of the conditions is searched: one that takes rows, or the first it answers."""
        built = self.manifest.ranged
        if not conditions:
            return None
        if built is None:
            raise TableMismatchError(
                f"the table in {self.path!r} was built {_shown_ranges(built)}: build one with "
                "when=... for this join"
            )
        serving = (one for one in conditions if self._serves(one, built, stream))
        return next(filter(chooses, conditions), next(serving, conditions[0]))

    def conditions(self, stream: Names) -> tuple[Condition, ...]:
        """The conditions that the table was built with, for a stream that has their columns."""
        built, first = self.manifest.ranged, self.manifest.condition
        if built is None:
            return ()
        if first is None:
            raise TableMismatchError(
                f"the table in {self.path!r} was built {_shown_ranges(built)}, and its "
                "manifest does not hold the whole condition, since an earlier bsjoin wrote it: "
                "give when=..., or build the table again"
            )
        found = (first, *(one.condition for one in self.manifest.boxes))
        for when, name in ((one, name) for one in found for name in one.stream_columns):
            if name not in stream:
                raise ColumnError(
                    f"the table in {self.path!r} was built with {when!r}, and the stream has no "
                    f"column {name!r}. {suggest(name, stream.columns)} Give when=... with the "
                    "stream's columns"
                )
        return found

    def key_pairs(
        self, on: On, conditions: Sequence[Condition], stream: Names
    ) -> list[tuple[str, str]]:
        """The table's keys, all of them."""
        keys = self._keys
        known = [*keys, *(name for name in self.manifest.columns if name not in keys)]
        table = Names(known, "the table", stream.case_sensitive)
        pure = bool(conditions) and not keys and on in (None, [])
        pairs = [] if pure else join_keys(keys if on is None else on, stream, table)
        by_key = {key: name for name, key in pairs}
        if sorted(by_key) != sorted(keys):
            raise TableMismatchError(
                f"the table in {self.path!r} was built for the keys {keys} and cannot be "
                f"joined on {list(by_key)}. Give all its keys and no other, or "
                "build another table"
            )
        return [(by_key[key], key) for key in keys]

    def nulls_equal(
        self, pairs: Sequence[tuple[str, str]], wanted: Sequence[bool]
    ) -> tuple[bool, ...] | None:
        """The null-safe keys of the call, if the table has the rows in which they are null."""
        built = {key.name for key in self.manifest.keys if key.nulls_equal}
        lacking = [
            key for (_, key), is_safe in zip(pairs, wanted, strict=True)
            if is_safe and key not in built
        ]  # fmt: skip
        if lacking:
            raise TableMismatchError(
                f"the table in {self.path!r} was built without nulls_equal for {lacking}: its "
                "index has no rows in which they are null. Build it with "
                f"nulls_equal={[*sorted(built), *lacking]!r}, at another path"
            )
        return tuple(wanted) if built else None

    def key_type(self, name: str) -> T.DataType:
        """The type that the key was built with."""
        return next(type_of(key.type) for key in self.manifest.keys if key.name == name)

    def char_length(self, name: str) -> int | None:
        """As the metadata of the column says, which is stored with it."""
        fields = json.loads(self.manifest.spark_schema)["fields"]
        metadata = (one.get("metadata", {}) for one in fields if one["name"] == name)
        return next(map(char_length, metadata), None)

    def range_columns(self, when: Condition, stream: Names) -> RangeColumns:
        """The columns that the table is sorted by, if they are what the condition needs."""
        built = self.manifest.ranged
        assert built is not None
        order_by, ordered = built.order_by, built.ordered  # no meaning for other conditions
        if chooses(when):
            ordered |= needs_places(when)
            order_by = tuple(_spelled(order, built, stream) for order in when.orders)
            self._note_unknown_order()
        given, closed = when.table_columns, searched_ends(when)
        wanted = RangeColumns(given, built.types, closed, order_by, ordered)
        if not self._serves(when, built, stream) or replace(wanted, names=built.names) != built:
            meets = "meets" in (
                getattr(one, "relation", None) for one in (when, self.manifest.condition)
            )
            touching = ": relation='meets' searches intervals with both ends" if meets else ""
            raise TableMismatchError(
                f"the table in {self.path!r} was built {_shown_ranges(built)} and cannot be "
                f"joined {_shown_ranges(wanted)}{touching}. Build another table"
            )
        return built

    @staticmethod
    def _serves(when: Condition, built: RangeColumns, stream: Names) -> bool:
        """Whether the table is sorted by the columns of a condition, and has its ends."""
        given = when.table_columns
        same = len(given) == len(built.names) and all(map(stream.same, given, built.names))
        return same and searched_ends(when) == built.closed

    def _note_unknown_order(self) -> None:
        if self.manifest.row is None and self.path not in _noted:
            _noted.add(self.path)
            _log.warning(
                "bsjoin: the table in %s was built by an earlier version, which ordered rows with "
                "the same key and the same point by a hash: an as-of join takes the first of them "
                "in that order. Build or refresh it to have them in the order of their columns",
                self.path,
            )

    def check_built_for(
        self,
        keys: Sequence[str],
        types: Sequence[T.DataType],
        ranged: RangeColumns | None,
        nulls_equal: Sequence[str],
    ) -> None:
        """Refuse a table of other keys or another condition, or that lacks null-safe keys.

        Raises:
            TableMismatchError: says what it was built for.
        """
        built = [(key.name, type_name(type_of(key.type))) for key in self.manifest.keys]
        wanted = list(zip(keys, map(type_name, types), strict=True))
        if built != wanted:
            raise TableMismatchError(
                f"the table in {self.path!r} was built for the keys {_shown(built)}, not "
                f"for {_shown(wanted)}. Join on its keys, or build another table at another path"
            )
        pairs = [(key, key) for key in keys]
        self.nulls_equal(pairs, [key in nulls_equal for key in keys])
        if self.manifest.ranged != ranged:
            raise TableMismatchError(
                f"the table in {self.path!r} was built {_shown_ranges(self.manifest.ranged)}, "
                f"not {_shown_ranges(ranged)}. Join as it was built, or build another "
                "table at another path"
            )

    def spelled(self, join: ResolvedJoin, stream: Names) -> ResolvedJoin:
        """A join that was resolved before the table was found, in the table's own spelling."""
        ranged = self.manifest.ranged
        own = [*self._keys, *self.manifest.columns, *(() if ranged is None else ranged.names)]

        def of(name: str) -> str:
            return name if name in own else next((n for n in own if stream.same(n, name)), name)

        condition, ranges = join.condition, None if join.ranged is None else join.ranged.spelled(of)
        if condition is not None and ranges is not None:
            condition = condition.renamed(condition.stream_columns, ranges.names)
            if chooses(condition):
                condition = replace(condition, order_by=ranges.order_by)
        own += [name for one in self.manifest.boxes for name in one.columns.names]
        checked = (
            one.renamed(one.stream_columns, tuple(map(of, one.table_columns)))
            for one in join.checked
        )
        return replace(
            join,
            checked=tuple(checked),
            keys=tuple((probe, of(key)) for probe, key in join.keys),
            columns=tuple(map(of, join.columns)),
            nulls_equal=(join.nulls_equal or (False,) * len(join.keys))
            if self.manifest.has_null_keys
            else None,
            ranged=ranges,
            condition=condition,
        )

    def check_serves(self, join: ResolvedJoin) -> None:
        """Refuse a table that has been replaced since the join was resolved.

        Raises:
            TableMismatchError: it has other keys, another condition, or lacks columns of the join.
        """
        self.check_built_for(join.table_keys, join.key_types, join.ranged, join.safe_keys)
        lacking = [name for name in join.columns if name not in self.manifest.columns]
        if lacking:
            raise TableMismatchError(
                f"the table in {self.path!r} has no column {lacking[0]!r}, which this join brings: "
                "another one was built at its path. Build another table at another path"
            )


def _shown(keys: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in keys)


def _shown_ranges(ranged: RangeColumns | None) -> str:
    """The range columns of a table, as errors name them."""
    if ranged is None:
        return "without a range condition"
    closed = "" if ranged.closed is None else f" (closed={ranged.closed!r})"
    order_by = f" (order_by={list(ranged.order_by)!r})" if ranged.order_by else ""
    places = ", with the place of each row in its key's order" * ranged.ordered
    return f"for ranges of {', '.join(ranged.names)}{closed}{order_by}{places}"


def _spelled(order: SortOrder, built: RangeColumns, stream: Names) -> str:
    """A sort order with its column as the table spells it, if the table is sorted by it."""
    for name in (SortOrder.parse(text).column for text in built.order_by):
        if stream.same(name, order.column):
            return str(replace(order, column=name))
    return str(order)
