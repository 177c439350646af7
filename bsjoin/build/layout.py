"""What a table holds that is to be built: as a call wants it, or as one that is there has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from bsjoin.conditions import Condition, chooses
from bsjoin.errors import TableMismatchError
from bsjoin.options import Full
from bsjoin.planner.aggregates import check_built_aggregates
from bsjoin.planner.arguments import distinct
from bsjoin.planner.boxes import box_ranges, checked_ranges
from bsjoin.planner.collations import stored_type
from bsjoin.planner.columns import names_of, schema_of
from bsjoin.planner.keys import check_key_types
from bsjoin.planner.range_columns import range_columns
from bsjoin.planner.sort_columns import sort_columns
from bsjoin.planner.table_sides import BuiltTable
from bsjoin.planner.uses import as_nullable
from bsjoin.storage import BoxRange, KeyColumn, LatestBy, Manifest, RangeColumns


@dataclass(frozen=True)
class Layout:
    """The content of a table that is to be built.

    Args:
        on: the key columns.
        columns: the columns to store, in order.
        unique: whether a duplicate key is an error.
        segment_bytes: how large a segment may grow.
        ranged: the range columns of a table for range joins.
        condition: the condition that they are for.
        row: the columns whose content orders rows with the same key and the same point; some may
            not be stored.
        whole: whether rows that match nothing are stored, too, outside of the index. Then ``on``
            and the range columns are among ``columns``. Default False.
        latest: which rows of a key are kept, with a range condition: of a key and point; None
            (default) for all.
        nulls_equal: the key columns that are null-safe: rows in which they are null may match.
        boxes: the further ranges of boxes; default: none.
    """

    on: tuple[str, ...]
    columns: tuple[str, ...]
    unique: bool
    segment_bytes: int
    ranged: RangeColumns | None = None
    condition: Condition | None = None
    row: tuple[str, ...] = ()
    whole: bool = False
    latest: LatestBy | None = None
    nulls_equal: tuple[str, ...] = ()
    boxes: tuple[BoxRange, ...] = ()

    @property
    def is_ordered(self) -> bool:
        """Whether the content of the rows of a key orders them."""
        return self.ranged is not None or self.latest is not None

    @property
    def has_unique_keys(self) -> bool:
        """Whether no key occurs twice in what is built, or the build fails."""
        one = self.latest is not None and self.latest.keep == 1 and self.ranged is None
        return self.unique or one

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that have no null in a row that may match: keys, and the point or start."""
        keys = (name for name in self.on if name not in self.nulls_equal)
        return (*keys, *(() if self.ranged is None else self.ranged.names[:1]))

    def spelled(self, names: Mapping[str, str]) -> Layout:
        """The same, some of its columns under other names."""
        ranged, condition, latest = self.ranged, self.condition, self.latest
        if latest is not None:
            latest = latest.spelled(lambda name: names.get(name, name))
        if ranged is not None:
            ranged = ranged.spelled(lambda name: names.get(name, name))
            if condition is not None:
                condition = condition.renamed(condition.stream_columns, ranged.names)
        on, columns, row, nulls_equal = (
            tuple(names.get(name, name) for name in given)
            for given in (self.on, self.columns, self.row, self.nulls_equal)
        )
        return replace(
            self,
            on=on,
            columns=columns,
            ranged=ranged,
            condition=condition,
            row=row,
            latest=latest,
            nulls_equal=nulls_equal,
            boxes=tuple(one.spelled(lambda name: names.get(name, name)) for one in self.boxes),
        )


def layout_of(
    df: DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    options: Full,
    conditions: Sequence[Condition],
    *,
    private: bool,
    nulls_equal: Sequence[str] = (),
) -> Layout:
    """Return what the table of a DataFrame is to hold, its columns as that spells them.

    It is sorted for the first condition; an index of boxes has the others, too. A private table is
    of one join: if it has no store either, it is for look-ups only, and rows that match nothing are
    left out.

    Raises:
        ColumnError, KeyTypeError: a column is not there, or cannot be used as it is to be.
    """
    schema = distinct(df, "the table")
    typed = [(name, schema[name].dataType) for name in keys]
    check_key_types(typed, typed)
    names, ranged, latest, boxes = names_of(df, "the table"), None, None, tuple[BoxRange, ...]()
    condition = conditions[0] if conditions else None
    if condition is not None:
        ranged = range_columns(condition, schema, names)
    if private:
        boxes = box_ranges(conditions, schema, names)
    else:
        check_built_aggregates(conditions, names, schema)
        if len(conditions) > 1:
            boxes = checked_ranges(conditions, schema, names)
    if options.latest_by:
        order = sort_columns(options.latest_by, schema, names, "latest_by")
        latest = LatestBy(order, options.keep)
    # A private table stores the selected columns, of rows that all columns order.
    ordered = chooses(condition) and options.store is None and columns
    layout = Layout(
        tuple(keys),
        tuple(columns),
        options.unique,
        options.segment_bytes,
        ranged,
        condition,
        tuple(df.columns if ordered or latest is not None else columns),
        whole=not private or options.store is not None,
        latest=latest,
        nulls_equal=tuple(key for key in keys if key in nulls_equal),
        boxes=boxes,
    )
    return (
        layout if {*layout.needed, *nulls_equal} <= set(columns) else replace(layout, whole=False)
    )


def key_columns(df: DataFrame, layout: Layout) -> tuple[KeyColumn, ...]:
    """The key columns of the table of a DataFrame, as its manifest has them."""
    types = [df.schema[name].dataType for name in layout.on]
    return tuple(
        KeyColumn(name, stored_type(df.sparkSession, dtype), name in layout.nulls_equal)
        for name, dtype in zip(layout.on, types, strict=True)
    )


def layout_there(
    layout: Layout, df: DataFrame, before: Manifest, path: str, *, private: bool
) -> Layout:
    """A layout at a location that has a table, whose newest version is ``before``.

    It is private where a join wants it: then what the table has more stays, and so do its rules.

    Raises:
        TableMismatchError: the table is of other keys or another condition, or the source lacks a
            column of its rule of latest rows.
    """
    _check_same(layout, df, before, path)
    built = _safe_keys(before)
    if not private and layout.nulls_equal != built:
        raise TableMismatchError(
            f"the table in {path!r} was built with nulls_equal={list(built)!r}, not "
            f"{list(layout.nulls_equal)!r}. Build another table at another path"
        )
    layout = replace(layout, nulls_equal=built)
    if not private:
        return layout
    columns = _in_order(before.columns, layout.columns)
    condition = before.condition or layout.condition
    layout = replace(layout, columns=columns, condition=condition)
    rule = before.latest
    if layout.latest is None and rule is not None:
        lacking = [name for name in rule.columns if name not in df.columns]
        if lacking:
            raise TableMismatchError(
                f"the table in {path!r} has the latest rows of each key by {list(rule.order)}, and "
                f"what is joined lacks the columns {lacking}. Give it with them, or another store"
            )
        layout = replace(layout, latest=rule, row=_in_order(before.row or (), df.columns))
    return replace(_kept_whole(layout, before), boxes=before.boxes)


def layout_of_refresh(
    df: DataFrame, before: Manifest, path: str, options: Full, *, adds: bool
) -> Layout:
    """The layout of the next version of a table, by a refresh.

    The DataFrame is in the table's own spelling. If it ``adds``, columns that the table does not
    have are added to it.

    Raises:
        TableMismatchError: the keys differ, or ``df`` lacks a column or has it in another type.
    """
    schema = distinct(df, "the new table")
    row = before.row or (() if before.latest is None else before.latest.columns)
    needed = {*before.searched, *before.columns, *row}
    if lacking := needed - {*schema.names}:
        raise TableMismatchError(
            f"the new table lacks the columns {sorted(lacking)} that the table in {path!r} has. "
            "A refresh keeps all of them: BatchTable.build(..., path=...) takes away those that no "
            "running query uses"
        )
    columns = _in_order(before.columns, schema.names) if adds else tuple(before.columns)
    layout = Layout(
        tuple(key.name for key in before.keys),
        columns,
        options.unique,
        options.segment_bytes,
        before.ranged,
        before.condition,
        (*row, *(name for name in columns if name not in row)),
        whole=adds,
        latest=before.latest,
        nulls_equal=_safe_keys(before),
        boxes=before.boxes,
    )
    _check_same(layout, df, before, path)
    for field in schema_of(before).fields:
        new = schema[field.name].dataType
        if as_nullable(new) != as_nullable(field.dataType):
            raise TableMismatchError(
                f"the column {field.name!r} is {new.simpleString()} "
                f"in the new table and {field.dataType.simpleString()} in the table in "
                f"{path!r}. A refresh keeps the types: cast it. BatchTable.build(..., path=...) "
                "changes those of columns that no running query uses"
            )
    return _kept_whole(layout, before)


def table_spelling(df: DataFrame, before: Manifest) -> dict[str, str]:
    """The table's own names of columns that a DataFrame spells in another case."""
    given, found = names_of(df, "the table"), {}
    for name in dict.fromkeys([*before.searched, *before.columns]):
        if name not in given.columns and name in given:
            found[given.find(name, "columns")] = name
    return found


def _in_order(before: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Columns in the order of the table, then those that are new."""
    given = list(columns)
    kept = [name for name in before if name in given]
    return (*kept, *(name for name in given if name not in kept))


def _check_same(layout: Layout, df: DataFrame, before: Manifest, path: str) -> None:
    """Refuse a location that holds a table of other keys or another condition.

    Raises:
        TableMismatchError: says what it was built for.
    """
    types = [df.schema[name].dataType for name in layout.on]
    built = BuiltTable(before, path)
    built.check_built_for(layout.on, types, layout.ranged, layout.nulls_equal)


def _safe_keys(manifest: Manifest) -> tuple[str, ...]:
    return tuple(key.name for key in manifest.keys if key.nulls_equal)


def _kept_whole(layout: Layout, before: Manifest) -> Layout:
    """A layout that leaves out no rows where a version before it has not."""
    kept = before.is_whole and set(layout.needed) <= set(layout.columns)
    return replace(layout, whole=layout.whole or kept)
