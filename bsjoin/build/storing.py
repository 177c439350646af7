"""Storing a table: found as it was left, or built and published as the next version."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._clock import now_us
from bsjoin.build.job import Layout, build
from bsjoin.build.publishing import repeated
from bsjoin.conditions import Condition, chooses
from bsjoin.errors import (
    DamagedTableError,
    StoreError,
    TableMismatchError,
    TableNotFoundError,
)
from bsjoin.metrics.refreshes import recorded
from bsjoin.options import Full
from bsjoin.planner.aggregates import check_built_aggregates
from bsjoin.planner.arguments import distinct
from bsjoin.planner.boxes import box_ranges, checked_ranges
from bsjoin.planner.columns import check_free, names_of, schema_of
from bsjoin.planner.keys import check_key_types
from bsjoin.planner.range_columns import range_columns
from bsjoin.planner.resolve import BuiltTable
from bsjoin.planner.sort_columns import sort_columns
from bsjoin.planner.uses import as_nullable, check_columns, check_unique, types_of
from bsjoin.spark.arrow import check_storable
from bsjoin.spark.fingerprint import Identity, renew
from bsjoin.spark.fingerprint import identity as identity_of
from bsjoin.spark.interrupts import Interruption, interruptible
from bsjoin.storage import (
    BoxRange,
    LatestBy,
    Manifest,
    SourceVersion,
    StorageLocation,
    box_signature,
    builds,
    freshness,
    versions,
)
from bsjoin.storage.layers.entries import Applied
from bsjoin.storage.names import VERSIONS
from bsjoin.storage.versioned_folder import Superseded

__all__ = ["build_new", "confirmed", "ensure", "layout_of", "refreshed", "source_of"]

_log = logging.getLogger("bsjoin")

_TRIES = 3
_RECENT_US = 600_000_000
"""A table that was confirmed since is not confirmed again by a start that builds nothing."""


def layout_of(
    df: DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    options: Full,
    condition: Condition | None,
    others: Sequence[Condition] = (),
    *,
    private: bool,
    nulls_equal: Sequence[str] = (),
) -> Layout:
    """Return what the table of a DataFrame is to hold.

    Args:
        df: the source; its names are distinct.
        keys: the key columns, as it spells them.
        columns: the columns to store, as it spells them.
        options: limits and uniqueness.
        condition: the range condition that it is sorted for.
        others: further ones, which an index of boxes has, too; default: none.
        private: whether the table belongs to one join. If it has no store either, it is for
            look-ups only, and rows that match nothing are left out.
        nulls_equal: the key columns that are null-safe.

    Raises:
        ColumnError, KeyTypeError: a column is not there, or cannot be used as it is to be.
    """
    schema = distinct(df, "the table")
    typed = [(name, schema[name].dataType) for name in keys]
    check_key_types(typed, typed)
    names, ranged, latest, boxes = names_of(df, "the table"), None, None, tuple[BoxRange, ...]()
    if condition is not None:
        ranged = range_columns(condition, schema, names)
    if not private:
        given = () if condition is None else (condition, *others)
        check_built_aggregates(given, names, schema)
    if private:
        boxes = box_ranges(condition, others, schema, names)
    elif condition is not None and others:
        boxes = checked_ranges((condition, *others), schema, names)
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


def _check_same(layout: Layout, df: DataFrame, before: Manifest, path: str) -> None:
    """Refuse a location that holds a table of other keys or another condition.

    Raises:
        TableMismatchError: says what it was built for.
    """
    types = [df.schema[name].dataType for name in layout.on]
    built = BuiltTable(before, path)
    built.check_built_for(layout.on, types, layout.ranged, layout.nulls_equal)


def build_new(
    location: StorageLocation, df: DataFrame, layout: Layout, version: SourceVersion | None = None
) -> None:
    """Build a table in an empty location.

    Args:
        location: where the table is stored.
        df: the source.
        layout: what the table is to hold.
        version: the version of a source that is followed, whose rows ``df`` has; None (default) for
            others.

    Raises:
        DuplicateKeyError, StoreError, WorkerEnvironmentError: the build failed.
    """
    with recorded(location.url):
        _build(location, df, layout, None, _Source(df, followed=version))


def confirmed(location: StorageLocation, read_us: int) -> None:
    """Note that the source of a table was looked at, and is the same as for its newest version.

    Args:
        location: where the table is stored.
        read_us: when that began, microseconds since the epoch.
    """
    with recorded(location.url):
        freshness.confirm(location, versions.latest(location), read_us)


def source_of(location: StorageLocation) -> SourceVersion | None:
    """The version of its source that a table has now; None without, and if there is no table."""
    newest = _newest_or_none(location)
    return None if newest is None else newest.source


def ensure(
    location: StorageLocation,
    df: DataFrame,
    layout: Layout,
    options: Full,
    *,
    private: bool,
    version: SourceVersion | None = None,
    since: SourceVersion | None = None,
) -> None:
    """Let a location hold a table: build it, unless it is there and its source is unchanged.

    Args:
        location: where the table is stored.
        df: the source.
        layout: what the table is to hold.
        options: the user's own word for the state of the source, and how old rows may be.
        private: whether it is wanted by a join, which does not change the condition that a table
            was built with, and changes its rule of latest rows only by another one.
        version: as for :func:`build_new`.
        since: with ``version``, what :func:`source_of` returned before that was asked for: what
            another application has made of the same source meanwhile stays. Default None: nothing.

    Raises:
        TableMismatchError: the location holds a table of other keys or another condition.
        DuplicateKeyError, StoreError, WorkerEnvironmentError: the build failed.
    """
    with recorded(location.url):
        _ensure(location, df, layout, options, private=private, version=version, since=since)


def _ensure(
    location: StorageLocation,
    df: DataFrame,
    layout: Layout,
    options: Full,
    *,
    private: bool,
    version: SourceVersion | None,
    since: SourceVersion | None,
) -> None:
    began = now_us()
    before, source = _newest_or_none(location), _Source(df, options.fingerprint, version)
    if before is None:
        try:
            _build(location, df, layout, None, source)
        except Superseded:  # another has built it meanwhile, and more may have been applied to it
            _ensure(location, df, layout, options, private=private, version=version, since=since)
        return
    if names := _table_spelling(df, before):
        layout, df = layout.spelled(names), df.withColumnsRenamed(names)
    _check_same(layout, df, before, str(location))
    is_ordered = layout.is_ordered
    built = _safe_keys(before)
    if not private and layout.nulls_equal != built:
        raise TableMismatchError(
            f"the table in {str(location)!r} was built with nulls_equal={list(built)!r}, not "
            f"{list(layout.nulls_equal)!r}. Build another table at another path"
        )
    layout = replace(layout, nulls_equal=built)
    if private:
        is_ordered = layout.latest is not None or chooses(layout.condition)
        columns = _in_order(before.columns, layout.columns)
        condition = before.condition or layout.condition
        layout = replace(layout, columns=columns, condition=condition)
        if layout.latest is None and before.latest is not None:
            layout = _by_its_rule(layout, df, before, before.latest, str(location))
        layout = _kept_whole(layout, before)
        layout = replace(layout, boxes=before.boxes)
    stored, schema = types_of(schema_of(before)), types_of(_stored(df, layout))
    serves = (before.unique, before.latest) == (layout.has_unique_keys, layout.latest) and (
        # What a join does not need may stay.
        schema.items() <= stored.items() if private else [*schema.items()] == [*stored.items()]
    )
    if is_ordered:
        serves = serves and before.row == layout.row
    serves = serves and (before.is_whole or not layout.whole)
    serves = serves and box_signature(before.boxes) == box_signature(layout.boxes)
    is_newer = _has_gone_on(before.source, version, since)
    is_known = is_newer or source.is_of(location, before)
    if serves and is_known and _is_intact(location, before):
        limited, recent_us = options.max_staleness is not None, began - _RECENT_US
        if is_newer:
            pass  # nobody has compared it with the source: its first look does
        elif limited or not freshness.is_confirmed_since(location, before, recent_us):
            freshness.confirm(location, before, began)
        condition = before.condition if layout.condition is None else layout.condition
        known = replace(before, condition=condition, boxes=layout.boxes)
        _remember(location, before, known, source)
        return
    _build(location, df, layout, before, source)


def _has_gone_on(
    now: SourceVersion | None, asked: SourceVersion | None, since: SourceVersion | None
) -> bool:
    """Whether a table has got another version of its source since that was asked for its own."""
    if now is None or asked is None:
        return False
    return now not in (since, asked) and now.is_of(asked)


def refreshed(
    location: StorageLocation,
    df: DataFrame,
    options: Full,
    *,
    adds: bool,
    version: SourceVersion | None = None,
    since: SourceVersion | None = None,
) -> Manifest:
    """Publish a new version of a table, unless it holds what is there already.

    Args:
        location: where the table is stored.
        df: the table as it is now.
        options: limits and uniqueness.
        adds: whether columns of ``df`` that the table does not have are added to it.
        version: as for :func:`build_new`. If the rows are the same, a version says so.
        since: with ``version``, that which the table had when ``version`` was asked for: nothing is
            read if it has another one by now. Default None: it was not known.

    Returns:
        The newest version.

    Raises:
        TableMismatchError: the keys differ, or ``df`` lacks a column or has it in another type.
    """
    with recorded(location.url):
        return _refreshed(location, df, options, adds=adds, version=version, since=since)


def _refreshed(
    location: StorageLocation,
    df: DataFrame,
    options: Full,
    *,
    adds: bool,
    version: SourceVersion | None,
    since: SourceVersion | None,
) -> Manifest:
    before, path, began = versions.latest(location), str(location), now_us()
    if version is not None and before.source != since:
        return before  # another application has gone on
    source = _Source(df, followed=version)
    if names := _table_spelling(df, before):
        df = df.withColumnsRenamed(names)
    schema = distinct(df, "the new table")
    keys = [key.name for key in before.keys]
    ranged = () if before.ranged is None else before.ranged.names
    row = before.row or (() if before.latest is None else before.latest.columns)
    boxed = [name for one in before.boxes for name in one.columns.names]
    needed = {*keys, *ranged, *boxed, *before.columns, *row}
    lacking = [name for name in needed if name not in schema.names]
    if lacking:
        raise TableMismatchError(
            f"the new table lacks the columns {sorted(lacking)} that the table in {path!r} has. "
            "A refresh keeps all of them: BatchTable.build(..., path=...) takes away those that no "
            "running query uses"
        )
    columns = _in_order(before.columns, schema.names) if adds else tuple(before.columns)
    layout = Layout(
        tuple(keys),
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
    layout = _kept_whole(layout, before)
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
    serves = before.unique == layout.has_unique_keys and before.columns == list(layout.columns)
    serves = serves and (not layout.is_ordered or before.row == layout.row)
    serves = serves and (before.is_whole or not layout.whole)
    if serves and source.is_of(location, before) and _is_there(location, before):
        _log.info("bsjoin: nothing has changed for the table in %s: it was not read again", path)
        freshness.confirm(location, before, began)
        return before
    return _build(location, df, layout, before, source)


class _Source:
    """The source of a version: the state of a DataFrame as it is when this is created.

    Args:
        df: the DataFrame; whatever has been cached of its tables is read anew.
        fingerprint: the user's own word for its state; None (default): computed.
        followed: the version whose rows it has, of a source that is followed; None (default) for
            others.
    """

    def __init__(
        self,
        df: DataFrame,
        fingerprint: str | None = None,
        followed: SourceVersion | None = None,
    ):
        self.is_renewed = followed is not None or renew(df)
        self.followed = followed
        self._df = df
        self._given = fingerprint
        self._found = self._now()

    def _now(self) -> Identity:
        if self.followed is not None:
            return Identity(None, self.followed)
        return identity_of(self._df) if self._given is None else Identity(self._given)

    def is_of(self, location: StorageLocation, manifest: Manifest) -> bool:
        """Whether a version was made of it."""
        known, version = self._found
        if version is not None and manifest.source == version:
            return known is not None or self.followed is not None
        return known is not None and versions.is_marked(location, manifest, known)

    def again(self) -> _Source:
        """Its state as it is now."""
        return _Source(self._df, self._given)

    def unchanged(self) -> Identity:
        """What identifies it; nothing if nothing does, or it has changed meanwhile."""
        if self._found.fingerprint is None and self.followed is None:
            return Identity(None)
        return self._found if self._found == self._now() else Identity(None)

    def mark(self, location: StorageLocation, manifest: Manifest) -> None:
        """Note that a version was made of it, unless it has changed meanwhile."""
        if self.is_of(location, manifest):
            return
        known = self.unchanged().fingerprint
        if known is not None:
            versions.mark(location, manifest, known)


def _table_spelling(df: DataFrame, before: Manifest) -> dict[str, str]:
    """The table's own names of columns that a DataFrame spells in another case."""
    given, found = names_of(df, "the table"), {}
    ranged = () if before.ranged is None else before.ranged.names
    keys, row = (key.name for key in before.keys), before.row or ()
    boxed = (name for one in before.boxes for name in one.columns.names)
    for name in dict.fromkeys([*keys, *ranged, *boxed, *before.columns, *row]):
        if name not in given.columns and name in given:
            found[given.find(name, "columns")] = name
    return found


def _in_order(before: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Columns in the order of the table, then those that are new."""
    given = list(columns)
    kept = [name for name in before if name in given]
    return (*kept, *(name for name in given if name not in kept))


def _by_its_rule(
    layout: Layout, df: DataFrame, before: Manifest, rule: LatestBy, path: str
) -> Layout:
    """A layout that keeps the latest rows of each key by the rule of a table that is there.

    Raises:
        TableMismatchError: the DataFrame lacks a column of the rule.
    """
    lacking = [name for name in rule.columns if name not in df.columns]
    if lacking:
        raise TableMismatchError(
            f"the table in {path!r} has the latest rows of each key by {list(rule.order)}, and what"
            f" is joined lacks the columns {lacking}. Give it with them, or another store"
        )
    return replace(layout, latest=rule, row=_in_order(before.row or (), df.columns))


def _safe_keys(manifest: Manifest) -> tuple[str, ...]:
    return tuple(key.name for key in manifest.keys if key.nulls_equal)


def _kept_whole(layout: Layout, before: Manifest) -> Layout:
    """A layout that leaves out no rows where a version before it has not."""
    kept = before.is_whole and set(layout.needed) <= set(layout.columns)
    return replace(layout, whole=layout.whole or kept)


def _stored(df: DataFrame, layout: Layout) -> T.StructType:
    schema = df.schema
    return T.StructType([schema[name] for name in layout.columns])


def _newest_or_none(location: StorageLocation) -> Manifest | None:
    try:
        return versions.latest(location)
    except TableNotFoundError:
        if location.names(VERSIONS):
            raise
        return None


def _build(
    location: StorageLocation,
    df: DataFrame,
    layout: Layout,
    before: Manifest | None,
    source: _Source,
) -> Manifest:
    """Build a version and publish it, unless it turns out to be what is there already."""
    if layout.nulls_equal:
        check_free(layout.columns)
    schema = _stored(df, layout)
    check_storable(schema)
    if before is not None:
        check_columns(location, schema_of(before), schema)

    def work(interruption: Interruption) -> Manifest:
        newest, read = before, source
        for _ in range(_TRIES):
            published = _built(location, df, layout, newest, read, interruption)
            if published is not None:
                return published
            newest = versions.latest(location)
            if source.followed is not None:
                return newest  # it may have a later version: the next look sees
            _check_not_added(location, before, newest, layout)
            # What was applied is in the source as it is after that, and not in an old listing.
            read = source.again()
        raise StoreError(
            f"changes were applied to the table in {str(location)!r}, or versions of its source "
            f"published, whenever that was read, {_TRIES} times: a version without them would drop "
            "them. Refresh it when there are none, or leave the source to them"
        )

    return interruptible(df.sparkSession, work)


def _check_not_added(
    location: StorageLocation, before: Manifest | None, newest: Manifest, layout: Layout
) -> None:
    """Refuse a version without the columns that changes have added to the one before it.

    Raises:
        TableMismatchError: names them.
    """
    known = {*layout.columns, *(() if before is None else before.columns)}
    if lacking := sorted({*newest.columns} - known):
        raise TableMismatchError(
            f"changes with the new columns {lacking} were applied to the table in "
            f"{str(location)!r} while its source was read, and what was read does not have them. "
            "Refresh it again, from a DataFrame with these columns"
        )


def _built(
    location: StorageLocation,
    df: DataFrame,
    layout: Layout,
    before: Manifest | None,
    source: _Source,
    interruption: Interruption,
) -> Manifest | None:
    """Read the source once, and publish; None if changes were applied to the table meanwhile."""
    began, schema = now_us(), _stored(df, layout)
    with builds.begun(location) as begun:
        draft = build(df, begun, layout)
        interruption.check()
        fingerprint, version = source.unchanged()
        draft = replace(draft, source=version)
        known = _found_out(before, draft)
        if source.followed is not None:
            known = replace(known, source=version)
        if before is not None and known.same_as(draft) and _is_intact(location, before):
            if source.is_renewed:  # else nobody knows how old the rows are that were read
                freshness.confirm(location, before, began)
            return _remember(location, before, known, source)
        if before is not None:
            check_columns(location, schema_of(before), schema)  # of queries begun since
            check_unique(location, before.longest_run, draft.longest_run)
        # Noted before the version is there: what is applied to it carries that on.
        published = _published(location, before, draft, source, fingerprint)
        if published is not None:
            begun.published()
        return published


def _published(
    location: StorageLocation,
    before: Manifest | None,
    draft: Manifest,
    source: _Source,
    fingerprint: str | None,
) -> Manifest | None:
    """Publish what was built; None if changes were applied since the version before it.

    Also if the table has got another version of its source meanwhile: that may be a later one.

    Raises:
        Superseded: there was no version before it, and now there is one.
    """
    if before is None:
        return versions.publish(location, draft, first=True, fingerprint=fingerprint)
    applied = _count(before)

    def attempt(newest: Manifest) -> Manifest | None:
        if _count(newest) != applied:
            return None
        is_older = source.followed or newest.source not in (None, draft.source)
        if newest.source != before.source and is_older:
            return None
        carried = replace(draft, changes=_carried(newest, draft))
        return versions.publish(location, carried, parent=newest, fingerprint=fingerprint)

    return repeated(location, attempt, "built")


def _count(manifest: Manifest | None) -> int:
    """How often changes were applied to a table."""
    return 0 if manifest is None or manifest.changes is None else manifest.changes.count


def _carried(newest: Manifest, draft: Manifest) -> Applied | None:
    """What the next changes have to know."""
    changes = newest.changes
    if changes is None or changes.identity is None or set(changes.identity) <= set(draft.columns):
        return changes
    return replace(changes, identity=None)


def _found_out(before: Manifest | None, draft: Manifest) -> Manifest:
    """The version before, with what a build has found out: its condition, that it lacks no rows."""
    if before is None:
        return draft
    unindexed = before.unindexed
    if not before.is_whole and draft.unindexed == ():
        unindexed = ()  # an earlier bsjoin has not written down that there were none
    condition = before.condition if draft.condition is None else draft.condition
    return replace(before, condition=condition, unindexed=unindexed, boxes=draft.boxes)


def _remember(
    location: StorageLocation, before: Manifest, known: Manifest, source: _Source
) -> Manifest:
    """Keep a version that holds the right rows; if more is known of it, it is published again.

    The files stay the same: a condition says how they are searched.
    """
    if known == before:
        source.mark(location, before)
        return before
    try:
        return versions.publish(
            location,
            known,
            parent=before,
            marked_as=before,
            fingerprint=source.unchanged().fingerprint,
        )
    except Superseded:  # nobody drops what others have published; it is found out again
        return versions.latest(location)


def _is_there(location: StorageLocation, manifest: Manifest) -> bool:
    return all(location.size(name) == size for name, size, _ in manifest.files)


def _is_intact(location: StorageLocation, manifest: Manifest) -> bool:
    try:
        versions.verify(location, manifest)
    except DamagedTableError as error:
        _log.warning("bsjoin: %s; it is built again now", error)
        return False
    return True
