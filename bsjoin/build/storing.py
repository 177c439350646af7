"""Storing a table: found as it was left, or built and published as the next version."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._clock import now_us
from bsjoin.build.job import build
from bsjoin.build.layout import Layout, key_columns, layout_of_refresh, layout_there, table_spelling
from bsjoin.build.publishing import repeated
from bsjoin.build.source_state import SourceState
from bsjoin.build.steps import Advance
from bsjoin.conditions import chooses
from bsjoin.errors import DamagedTableError, StoreError, TableMismatchError, TableNotFoundError
from bsjoin.options import Full
from bsjoin.planner.columns import check_free, schema_of
from bsjoin.planner.uses import check_columns, check_unique, types_of
from bsjoin.spark.arrow import check_storable
from bsjoin.spark.interrupts import Interruption, interruptible
from bsjoin.storage import (
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

_log = logging.getLogger("bsjoin")

_TRIES = 3
_RECENT_US = 600_000_000
"""A table that was confirmed since is not confirmed again by a start that builds nothing."""


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
    advance: Advance | None = None,
    checked: bool = False,
) -> None:
    """Let a location hold a table: build it, unless it is there and its source is unchanged.

    A ``private`` table is wanted by a join, which does not change the condition that a table was
    built with, and changes its rule of latest rows only by another one. With ``advance``, of a
    source that is followed, ``df`` has the rows of that version: what another application has made
    of it meanwhile stays. Files that were ``checked`` before have to be there, and no more.

    Raises:
        TableMismatchError: the location holds a table of other keys or another condition.
        DuplicateKeyError, StoreError, WorkerEnvironmentError: the build failed.
    """
    began, before = now_us(), _newest_or_none(location)
    # A temporary table is refreshed by what its source is, whatever that is called.
    given = None if options.store is None else options.fingerprint
    source = SourceState(df, given, None if advance is None else advance.until)
    if before is None:
        try:
            _build(location, df, layout, None, source)
        except Superseded:  # another has built it meanwhile, and more may have been applied to it
            ensure(location, df, layout, options, private=private, advance=advance)
        return
    if names := table_spelling(df, before):
        layout, df = layout.spelled(names), df.withColumnsRenamed(names)
    is_ordered = layout.is_ordered
    if private:
        is_ordered = layout.latest is not None or chooses(layout.condition)
    layout = layout_there(layout, df, before, str(location), private=private)
    stored, schema = types_of(schema_of(before)), types_of(_stored(df, layout))
    # One that was declared unique serves a join that does not ask for it, and stays so.
    wanted = replace(layout, unique=layout.unique or (private and before.unique))
    serves = _serves(before, wanted, df, is_ordered) and (
        # What a join does not need may stay.
        schema.items() <= stored.items() if private else [*schema.items()] == [*stored.items()]
    )
    is_newer = advance is not None and advance.is_behind(before.source)
    serves = serves and (is_newer or source.is_of(location, before))
    if serves and _is_intact(location, before, checked=checked):
        limited, recent_us = options.max_staleness is not None, began - _RECENT_US
        if is_newer:
            pass  # nobody has compared it with the source: its first look does
        elif limited or freshness.last_read_us(location, before) < recent_us:
            versions.confirm(location, before, began)
        condition = before.condition if layout.condition is None else layout.condition
        known = replace(before, condition=condition, boxes=layout.boxes)
        read_us = freshness.last_read_us(location, before) if is_newer else began
        _remember(location, before, known, source, read_us)
        return
    _build(location, df, layout, before, source)


def refreshed(
    location: StorageLocation,
    df: DataFrame,
    options: Full,
    *,
    adds: bool,
    advance: Advance | None = None,
) -> Manifest:
    """Publish a new version of a table, unless it holds what is there already; the newest one.

    If it ``adds``, columns of ``df`` that the table does not have are added. With ``advance``, as
    for :func:`ensure`, nothing is read if the table has another version by now, and if the rows are
    the same, a version says so.

    Raises:
        TableMismatchError: the keys differ, or ``df`` lacks a column or has it in another type.
    """
    before, path, began = versions.latest(location), str(location), now_us()
    if advance is not None and before.source != advance.since:
        return before  # another application has gone on
    source = SourceState(df, followed=None if advance is None else advance.until)
    if names := table_spelling(df, before):
        df = df.withColumnsRenamed(names)
    layout = layout_of_refresh(df, before, path, options, adds=adds)
    # As for a join that finds it: one that was declared unique stays so.
    wanted = replace(layout, unique=layout.unique or (not adds and before.unique))
    serves = _serves(before, wanted, df, layout.is_ordered)
    serves &= before.columns == list(layout.columns)
    there = serves and source.is_of(location, before)
    if there and versions.first_missing(location, before) is None:
        _log.info("bsjoin: nothing has changed for the table in %s: it was not read again", path)
        versions.confirm(location, before, began)
        return before
    return _build(location, df, layout, before, source)


def _serves(before: Manifest, layout: Layout, df: DataFrame, is_ordered: bool) -> bool:
    """Whether a version has the rows that are wanted, in their order, if its source is the same."""
    return (
        (before.unique, before.latest) == (layout.has_unique_keys, layout.latest)
        and before.keys == key_columns(df, layout)  # the rules of a collation may be newer ones
        and (not is_ordered or before.row == layout.row)
        and (before.is_whole or not layout.whole)
        and box_signature(before.boxes) == box_signature(layout.boxes)
    )


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
    source: SourceState,
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
    """Refuse a version without the columns that changes have added to the one before it."""
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
    source: SourceState,
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
            if source.is_renewed:
                versions.confirm(location, before, began)
            else:  # nobody knows how old the rows are that were read
                began = freshness.last_read_us(location, before)
            return _remember(location, before, known, source, began)
        if before is not None:
            check_columns(location, schema_of(before), schema)  # of queries begun since
            check_unique(location, before.longest_run, draft.longest_run)
        begun.check()
        # Noted before the version is there: what is applied to it carries that on.
        published = _published(begun, before, draft, source, fingerprint, began)
        if published is not None:
            begun.published()
        return published


def _published(
    begun: builds.Build,
    before: Manifest | None,
    draft: Manifest,
    source: SourceState,
    fingerprint: str | None,
    read_us: int,
) -> Manifest | None:
    """Publish what was built; None if changes were applied since the version before it.

    Also if the table has got another version of its source meanwhile: that may be a later one.

    Raises:
        Superseded: there was no version before it, and now there is one.
    """

    def publish(draft: Manifest, parent: Manifest | None) -> Manifest:
        return versions.publish(
            begun.location,
            draft,
            parent=parent,
            first=parent is None,
            fingerprint=fingerprint,
            read_us=read_us,
            check=begun.check,
        )

    if before is None:
        return publish(draft, None)
    applied = _count(before)

    def attempt(newest: Manifest) -> Manifest | None:
        if _count(newest) != applied:
            return None
        is_older = source.followed or newest.source not in (None, draft.source)
        if newest.source != before.source and is_older:
            return None
        return publish(replace(draft, changes=_carried(newest, draft)), newest)

    return repeated(begun.location, attempt, "built")


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
    location: StorageLocation,
    before: Manifest,
    known: Manifest,
    source: SourceState,
    read_us: int,
) -> Manifest:
    """Keep a version that holds the right rows; if more is known of it, it is published again.

    The files stay the same: a condition says how they are searched. So do the rows, which were read
    from ``read_us`` on.
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
            read_us=read_us,
        )
    except Superseded:  # nobody drops what others have published; it is found out again
        return versions.latest(location)


def _is_intact(location: StorageLocation, manifest: Manifest, *, checked: bool = False) -> bool:
    """Whether the files of a version are there, and what they were, unless that was ``checked``."""
    if checked:
        return versions.first_missing(location, manifest) is None
    try:
        versions.verify(location, manifest)
    except DamagedTableError as error:
        _log.warning("bsjoin: %s; it is built again now", error)
        return False
    return True
