"""Names and types of a join, resolved in one place for every entry point.

A call names columns as a user spells them. Here each name becomes the column's own spelling, the
types of both sides are compared, and what the result is called is settled. What comes out, a
:class:`ResolvedJoin`, is all that planning needs of the call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import (
    Band,
    Closed,
    Condition,
    Overlaps,
    Within,
    chooses,
    without_aggregates,
)
from bsjoin.errors import ArgumentError, ColumnError, TableMismatchError, suggest
from bsjoin.planner.aggregates import (
    ResolvedAggregate,
    check_aggregates,
    resolved_aggregates,
)
from bsjoin.planner.arguments import JoinCall, Partition
from bsjoin.planner.char_columns import char_length, check_char_pair, with_length
from bsjoin.planner.collecting import collected_as, resolved_collection
from bsjoin.planner.columns import (
    Names,
    On,
    check_free,
    join_keys,
    names_of,
    result_names,
    schema_of,
    selected,
)
from bsjoin.planner.cycle import Cycle
from bsjoin.planner.keys import check_key_types, type_name, type_of
from bsjoin.planner.range_columns import check_range_types, needs_places, range_columns
from bsjoin.planner.where import Where
from bsjoin.storage import BoxRange, Manifest, RangeColumns
from bsjoin.values.sort_order import SortOrder

__all__ = [
    "BuiltTable",
    "ResolvedJoin",
    "UnbuiltTable",
    "resolve",
    "safe_keys",
]

_log = logging.getLogger("bsjoin")

_MOST_SAFE_KEYS = 63

_noted: set[str] = set()  # tables of earlier versions, by their paths


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


def resolve(stream: DataFrame, table: UnbuiltTable | BuiltTable, call: JoinCall) -> ResolvedJoin:
    """Find the columns that a call means, and refuse what cannot be joined.

    Raises:
        ColumnError: a column is not there, is there twice, or names clash in the result.
        KeyTypeError: types that do not compare exactly, or not at all; or lengths of CHAR(n).
        ArgumentError: no key, a width that does not suit its column, or arguments that exclude
            each other.
        TableMismatchError: the table was built for other keys or another condition.
    """
    names, types = names_of(stream, "the stream"), stream.schema
    conditions = call.conditions or table.conditions(names)
    if call.how in ("semi", "anti"):  # aggregates are refused where the call asks for them
        conditions = tuple(
            one if call.conditions and isinstance(one, Band) else without_aggregates(one)
            for one in conditions
        )
    when = searched = table.searched(conditions, names)
    pairs = table.key_pairs(call.on, conditions, names)
    key_types = [table.key_type(key) for _, key in pairs]
    check_key_types(
        [(name, types[name].dataType) for name, _ in pairs],
        [(key, dtype) for (_, key), dtype in zip(pairs, key_types, strict=True)],
    )
    spark = stream.sparkSession

    def lengths(one: str, other: str, *, ordered: bool) -> tuple[int, int] | None:
        left, right = char_length(types[one].metadata), table.char_length(other)
        return check_char_pair(spark, (one, left), (other, right), ordered=ordered)

    ranged = None
    if when is not None:
        names.check_distinct()
        ranged = table.range_columns(when, names)
        probes = [names.find(name, "when") for name in when.stream_columns]
        check_range_types(when, [(name, types[name].dataType) for name in probes], ranged)
        for one in probes:
            for other in ranged.names:
                lengths(one, other, ordered=True)
        when = when.renamed(probes, ranged.names)
        if chooses(when):
            when = replace(when, order_by=ranged.order_by)
    if call.partition is not None and not pairs:
        raise ArgumentError(
            f"partition={call.partition!r}: rows are sent to partitions by their equality keys, "
            "and there are none; leave partition out"
        )
    selectable = table.selectable(names.case_sensitive)
    aggregates: tuple[ResolvedAggregate, ...] = ()
    columns: Sequence[str]
    collected = collected_as(conditions, call)
    if collected is not None:
        columns = selected(call.select, call.how, selectable, [key for _, key in pairs])
        aggregates = (resolved_collection(collected, columns, table.columns, names),)
        called = [collected]
    elif check_aggregates(conditions, call):
        found = resolved_aggregates(when, selectable, table.columns, names, spark)
        aggregates, columns = found
        called = [one.name for one in aggregates]
    else:
        columns = selected(call.select, call.how, selectable, [key for _, key in pairs])
        called = result_names(columns, names, call.suffix)
    return ResolvedJoin(
        how=call.how,
        keys=tuple(pairs),
        key_types=tuple(key_types),
        condition=when,
        ranged=ranged,
        columns=tuple(columns),
        names=tuple(called),
        partition=call.partition,
        lengths=tuple(lengths(one, other, ordered=False) for one, other in pairs),
        nulls_equal=table.nulls_equal(pairs, safe_keys(call.nulls_equal, pairs, names)),
        cycle=call.cycle,
        checked=tuple(one for one in conditions if one is not searched),
        aggregates=aggregates,
    )


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
        given, closed = when.table_columns, _searched_ends(when)
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
        return same and _searched_ends(when) == built.closed

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


def safe_keys(
    wanted: bool | Sequence[str], pairs: Sequence[tuple[str, str]], stream: Names
) -> list[bool]:
    """Which keys a call wants to be null-safe; named as in the stream, or as in the table.

    Raises:
        ArgumentError: there are no keys, or more than the 63 that one number tells apart.
        ColumnError: a name is no key.
    """
    if wanted and len(pairs) > _MOST_SAFE_KEYS:
        raise ArgumentError(
            f"nulls_equal={wanted!r}: there are {len(pairs)} keys, and null equals null in joins "
            f"on up to {_MOST_SAFE_KEYS}. Put some of them into one column"
        )
    if not wanted or wanted is True:
        found = [bool(wanted)] * len(pairs)
        if wanted and not pairs:
            raise ArgumentError("nulls_equal=True: there are no keys. Leave nulls_equal out")
        return found
    places = set()
    for name in wanted:
        same = [
            place
            for side in (0, 1)
            for place, pair in enumerate(pairs)
            if stream.same(name, pair[side])
        ]
        if not same:
            hint = suggest(name, [key for key, _ in pairs])
            raise ColumnError(f"nulls_equal: {name!r} is no key of this join. {hint}")
        places.add(same[0])
    return [place in places for place in range(len(pairs))]


def _searched_ends(when: Condition) -> Closed | None:
    return when.searched_ends if isinstance(when, Within | Overlaps) else None


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
