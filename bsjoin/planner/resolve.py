"""Names and types of a join, resolved in one place for every entry point.

A call names columns as a user spells them. Here each name becomes the column's own spelling, the
types of both sides are compared, and what the result is called is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from bsjoin.conditions import Band, chooses, without_aggregates
from bsjoin.errors import ArgumentError, ColumnError, suggest
from bsjoin.planner.aggregates import ResolvedAggregate, check_aggregates, resolved_aggregates
from bsjoin.planner.arguments import JoinCall
from bsjoin.planner.char_columns import char_length, check_char_pair
from bsjoin.planner.collecting import collected_as, resolved_collection
from bsjoin.planner.columns import Names, names_of, result_names, selected
from bsjoin.planner.keys import check_key_types
from bsjoin.planner.range_columns import check_range_types
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.planner.table_sides import BuiltTable, UnbuiltTable

_MOST_SAFE_KEYS = 63


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
        added=call.added,
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
