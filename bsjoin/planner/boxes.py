"""Boxes: several ranges of a table that one index answers together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import types as T  # noqa: N812

from bsjoin.conditions import Band, Condition, Overlaps, chooses
from bsjoin.errors import ArgumentError, KeyTypeError
from bsjoin.index import MOST_DIMENSIONS
from bsjoin.planner.columns import Names
from bsjoin.planner.contradictions import check_together
from bsjoin.planner.keys import is_floating, type_of
from bsjoin.planner.range_columns import range_columns, searched_ends, width_in_units
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.spark.arrow import arrow_fields
from bsjoin.storage import BoxRange, BoxSide, Manifest, RangeColumns
from bsjoin.storage.range_index import is_ranked
from bsjoin.values.widths import Width


def box_ranges(
    conditions: Sequence[Condition], schema: T.StructType, table: Names
) -> tuple[BoxRange, ...]:
    """The further ranges of a table that belongs to one join: those that boxes can have."""
    if not conditions or _why_not(conditions[0], schema, table):
        return ()
    found = [
        BoxRange(range_columns(one, schema, table), one)
        for one in conditions[1:]
        if not _why_not(one, schema, table)
    ]
    return tuple(found[: MOST_DIMENSIONS - 1])


def checked_ranges(
    conditions: Sequence[Condition], schema: T.StructType, table: Names
) -> tuple[BoxRange, ...]:
    """The further ranges of a table that is to be built for several conditions.

    Raises:
        ArgumentError: they are more than boxes can have, one is not a range of values, or some
            exclude each other.
        KeyTypeError: a column has no codes of 64 bits.
    """
    shown = f"when={list(conditions)!r}"
    if len(conditions) > MOST_DIMENSIONS:
        raise ArgumentError(
            f"{shown}: an index of boxes has at most {MOST_DIMENSIONS} ranges. Build the table for "
            "the most selective ones, and give the others to the join, which checks them"
        )
    for one in conditions:
        if chooses(one):
            raise ArgumentError(
                f"{shown}: boxes are found by bsjoin.Band, bsjoin.Within and bsjoin.Overlaps, "
                f"which have all their matches; {one!r} takes one row of several. Build the table "
                "for it alone, and give the others to the join"
            )
        if (why := _why_not(one, schema, table)) is not None:
            raise KeyTypeError(f"{shown}: {why}")
    columns = [range_columns(one, schema, table) for one in conditions]
    check_together(
        [
            (one.renamed(one.stream_columns, its.names), is_floating(type_of(its.types[0])))
            for one, its in zip(conditions, columns, strict=True)
        ]
    )
    return tuple(map(BoxRange, columns[1:], conditions[1:]))


def _why_not(when: Condition, schema: T.StructType, table: Names) -> str | None:
    """Why a condition cannot be a range of boxes; None if it can."""
    if chooses(when):
        return "it takes one row of several"
    columns = range_columns(when, schema, table)
    if not _is_ranked(columns):
        return None
    return (
        f"boxes are of numbers, dates and timestamps, and {columns.names[0]!r} is "
        f"{type_of(columns.types[0]).simpleString()}, whose values have no codes of 64 bits. Build "
        "the table for one condition, and give the others to the join, which checks them"
    )


def _is_ranked(columns: RangeColumns) -> bool:
    field = T.StructField("column", type_of(columns.types[0]))
    return any(is_ranked(one.type) for one in arrow_fields(T.StructType([field])))


def box_sides(
    ranged: RangeColumns | None, condition: Condition | None, boxes: Sequence[BoxRange]
) -> tuple[BoxSide, ...]:
    """The dimensions of a table's boxes, as its segments are made; none without further ranges."""
    if ranged is None or condition is None or not boxes:
        return ()
    sides = [(ranged, condition), *((one.columns, one.condition) for one in boxes)]
    return tuple(BoxSide(columns.closed, _reach(columns, when)) for columns, when in sides)


def _reach(columns: RangeColumns, when: Condition) -> tuple[float, float] | None:
    """How far a row of the stream reaches; None if as far as the table's rows."""
    if isinstance(when, Overlaps):
        return None
    if not isinstance(when, Band):
        return 0.0, 0.0
    dtype = type_of(columns.types[0])

    def size(width: Width, name: str) -> float:
        return float(width_in_units(width, dtype, name))

    return size(when.before, "before"), size(when.after, "after")


def with_boxes(join: ResolvedJoin, manifest: Manifest) -> ResolvedJoin:
    """A join that finds rows by all ranges of the table's boxes, if its conditions have them.

    Later versions of a stream may lack the index: they are searched by the first range.
    """
    if not manifest.boxes or join.condition is None or chooses(join.condition):
        return join
    found = [next(_answered(one.columns, join.checked), None) for one in manifest.boxes]
    if None in found:
        return join
    boxes = tuple(
        BoxRange(one.columns, when)
        for one, when in zip(manifest.boxes, found, strict=True)
        if when is not None
    )
    return replace(join, boxes=boxes, shares=manifest.box_shares or ())


def _answered(columns: RangeColumns, conditions: Sequence[Condition]) -> Iterator[Condition]:
    for when in conditions:
        found = when.table_columns, searched_ends(when)
        if not chooses(when) and found == (columns.names, columns.closed):
            yield when
