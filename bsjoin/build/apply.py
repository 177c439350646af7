"""Applying changes to a stored table, and compacting what they have left."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from cachetools import LRUCache
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._clock import now_us
from bsjoin.build.change_feed import added_columns, change_set
from bsjoin.build.memory import give_back
from bsjoin.build.publishing import repeated
from bsjoin.build.steps import Step
from bsjoin.errors import ArgumentError, DamagedTableError, DuplicateKeyError, TableMismatchError
from bsjoin.planner.boxes import box_sides
from bsjoin.planner.collations import has_collations
from bsjoin.planner.columns import names_of, schema_of
from bsjoin.planner.keys import is_collated, is_floating
from bsjoin.planner.uses import check_unique
from bsjoin.spark.arrow import arrow_fields
from bsjoin.spark.interrupts import Interruption, interruptible
from bsjoin.storage import BoxSide, Manifest, StorageLocation, builds, freshness, versions
from bsjoin.storage.layers.applying import with_changes
from bsjoin.storage.layers.change_set import ChangeSet
from bsjoin.storage.layers.compacting import compacted, is_due, rebased
from bsjoin.storage.layers.entries import Applied
from bsjoin.storage.layers.widening import widened, with_columns
from bsjoin.storage.names import VERSIONS
from bsjoin.storage.open_table import OpenTable

_log = logging.getLogger("bsjoin")

_LARGEST_BATCH = (1 << 63) - 1
_TRIES = 3  # of a compaction, while the table is built again

# The newest version of tables that change, open: the next one shares its segments.
_opened: LRUCache[str, OpenTable] = LRUCache(maxsize=8)
_compacting: dict[str, threading.Thread] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class _Call:
    """The arguments of a call, checked; ``identity`` has the columns of ``key``."""

    identity: tuple[str, ...] | None
    op: str | None
    sequence: str | None
    batch: tuple[str, int] | None
    step: Step | None = None


@dataclass(frozen=True)
class _Read:
    """The changes of a call, collected from a time on for a form of the table.

    That may have more columns than the table; one of its columns may have the changes' order.
    """

    changes: ChangeSet
    column: str | None
    form: Manifest
    began_us: int


def apply_changes(
    location: StorageLocation,
    df: DataFrame,
    *,
    key: str | Sequence[str] | None,
    op: str | None,
    sequence: str | None,
    batch: tuple[str, int] | None = None,
    merge_schema: bool = False,
    step: Step | None = None,
) -> tuple[Manifest, bool]:
    """Publish a version with some changes, by the arguments of :meth:`bsjoin.BatchTable.apply`.

    Of a table that follows its source ``step`` says where the changes lead: nothing is published if
    another application has taken a step meanwhile.

    Returns:
        The newest version, and whether it is that of these changes.
    """
    _check_batch(batch)
    given = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    call = _Call(given, op, sequence, batch, step)

    def work(interruption: Interruption) -> tuple[Manifest, bool]:
        read: _Read | None = None

        def attempt(before: Manifest) -> tuple[Manifest, bool]:
            nonlocal read
            if step is not None and before.source != step.since:
                return before, False
            identity = _identity(location, before, call, df)
            if batch is not None and _is_applied(location, before, batch):
                location.sync(VERSIONS, files=False)  # who wrote it may have been killed before
                return before, False
            form = _with_new_columns(df, before, call) if merge_schema else before
            if read is None or _content(form) != _content(read.form):
                began_us = now_us()
                added = form.columns[len(before.columns) :]
                most = None if step is None else step.most
                with _opening(location, before) if form is before else nullcontext():
                    changes, column = change_set(df, location, form, op, sequence, added, most)
                read = _Read(changes, column, form, began_us)
                interruption.check()
            published = _next_version(location, before, call, identity, replace(read, form=form))
            return published, published is not before

        return repeated(location, attempt, "changed")

    found = interruptible(df.sparkSession, work)
    with _lock:
        last = _opened.get(location.url)
    if last is not None:
        last.forget()  # the next one shares its files
    give_back()
    return found


def _is_applied(location: StorageLocation, before: Manifest, batch: tuple[str, int]) -> bool:
    """Whether the last batch of a writer is this one."""
    writer, number = batch
    last = None if before.changes is None else before.changes.last(writer)
    if last is not None and number < last:
        raise ArgumentError(
            f"batch={batch!r}: the batch {last} of {writer!r} was applied to the table in "
            f"{str(location)!r} before, and numbers grow. A query with a new checkpoint begins at "
            "0 again: give it a new name of the writer"
        )
    return number == last


def _with_new_columns(df: DataFrame, before: Manifest, call: _Call) -> Manifest:
    """The form of a table with the columns that changes bring; the table itself if there are none.

    Raises:
        ColumnError: a column cannot be stored.
    """
    added = added_columns(df, before, call.op, call.sequence)
    if not added:
        return before
    schema = T.StructType([*schema_of(before).fields, *added])
    return with_columns(before, arrow_fields(T.StructType([*added])), schema.json())


def _content(manifest: Manifest) -> tuple[object, ...]:
    """What changes are collected for."""
    return manifest.schema, manifest.spark_schema, manifest.keys, manifest.ranged


def _next_version(
    location: StorageLocation,
    before: Manifest,
    call: _Call,
    identity: tuple[str, ...],
    read: _Read,
) -> Manifest:
    """Write and publish the version after one; that one if nothing changes.

    Raises:
        Superseded: another one was published meanwhile.
    """
    with builds.begun(location) as build:
        is_wider = read.form is not before
        if is_wider:
            table = OpenTable(location, widened(build, before, read.form))
        else:
            table = opened(location, before)
        changes = read.changes if call.step is None else call.step.checked(table, read.changes)
        sides = _box_sides(table.manifest)
        found = with_changes(build, table, changes, identity, read.column, sides)
        is_same = found is table.manifest and call.batch is None and not is_wider
        if is_same and call.step is None:
            return before
        draft = _draft(location, table.manifest, found, call, identity, read)
        location.sync(build.folder)
        build.check()
        # The source that a table follows is another version now: what marks the one before is not.
        is_step = draft.source is not None and draft.source != before.source
        marked_as = None if is_step else before
        # A batch that is reported as applied stays.
        published = versions.publish(
            location,
            draft,
            parent=before,
            marked_as=marked_as,
            durable=True,
            read_us=read.began_us if call.step is None else call.step.began_us,
            check=build.check,
        )
        build.published()
    return published


def _draft(
    location: StorageLocation,
    before: Manifest,
    draft: Manifest,
    call: _Call,
    identity: tuple[str, ...],
    read: _Read,
) -> Manifest:
    """The manifest of the next version, with what the next changes have to know."""
    step = call.step
    # What others have applied is of no version of the source.
    source = step.until if step is not None else before.source if draft is before else None
    if before.unique and draft.longest_run > 1:
        names = [key.name for key in before.keys]
        raise DuplicateKeyError(
            f"the table is declared unique on {names}, and after these changes a key would have "
            f"{draft.longest_run} rows. Leave the duplicates out, or tell rows apart by "
            f"key={names!r}, of which the last change counts"
        )
    check_unique(location, before.longest_run, draft.longest_run)
    known = before.changes or Applied(0, None)
    batches = dict(known.batches) | dict([call.batch] if call.batch else [])
    declared = identity if step is None or step.key is not None else known.identity
    applied = Applied(known.count + 1, declared, tuple(batches.items()))
    return replace(draft, changes=applied, source=source)


def _box_sides(manifest: Manifest) -> tuple[BoxSide, ...]:
    return box_sides(manifest.ranged, manifest.condition, manifest.boxes)


def opened(location: StorageLocation, manifest: Manifest) -> OpenTable:
    """A version, open; it shares what the one before has open in this process."""
    with _lock:
        last = _opened.get(location.url)
    if last is not None and last.manifest == manifest:
        return last
    found = OpenTable(location, manifest, [] if last is None else [last])
    with _lock:
        _opened[location.url] = found
    return found


@contextmanager
def _opening(location: StorageLocation, manifest: Manifest) -> Iterator[None]:
    """Open a version while something else is waited for. What is wrong with it is told later."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(opened, location, manifest)
        yield


def forget(location: StorageLocation) -> None:
    """Let go of what is open of a table: its files may be removed."""
    with _lock:
        _opened.pop(location.url, None)


def _check_batch(batch: tuple[str, int] | None) -> None:
    if batch is None:
        return
    if not (
        isinstance(batch, tuple)
        and len(batch) == 2
        and isinstance(batch[0], str)
        and batch[0]
        and type(batch[1]) is int
        and 0 <= batch[1] <= _LARGEST_BATCH
    ):
        raise ArgumentError(
            f"batch={batch!r}: give the name of the writer and the number of the batch, as in "
            'batch=("prices", batch_id)'
        )


def _identity(
    location: StorageLocation, manifest: Manifest, call: _Call, df: DataFrame
) -> tuple[str, ...]:
    """The columns that tell rows apart, as the table spells them."""
    where = f"the table in {str(location)!r}"
    on = tuple(key.name for key in manifest.keys)
    if manifest.latest is not None:
        raise TableMismatchError(
            f"{where} has only the latest rows of each key, by {list(manifest.latest.order)}, and "
            "what is older is not there when a row goes. Build it without latest_by: apply with "
            "sequence= keeps the last change of each row"
        )
    if lacking := {*manifest.searched} - {*manifest.columns}:
        raise TableMismatchError(
            f"{where} does not store the columns {sorted(lacking)}, which changes need: it was "
            "made for one join. Build it with BatchTable.build"
        )
    if has_collations(manifest):
        raise TableMismatchError(
            f"{where} has keys that are texts with a collation, and changes tell rows apart by "
            "the texts as they are. Refresh it with all rows, or build it by another key"
        )
    if call.step is not None and call.step.key is None:
        return () if call.step.whole_keys else on
    declared = None if manifest.changes is None else manifest.changes.identity
    if call.identity is None:
        if declared is None and not manifest.unique:
            raise ArgumentError(
                f"nothing tells the rows of {where} apart: it is not declared unique, and key= was "
                "not given. Give key= the columns of the primary key, or key=() where all rows of "
                "a join key are replaced together"
            )
        found = on if declared is None else declared
    else:
        names = names_of(df, where)
        table = type(names)(manifest.columns, where, names.case_sensitive)
        found = tuple(dict.fromkeys(table.find(name, "key") for name in call.identity))
    if declared is not None and set(found) != set(declared):
        raise ArgumentError(
            f"key={list(found)}: changes were applied to {where} by key={list(declared)} before. "
            "Give the same, or leave key out; another key needs a table of its own"
        )
    schema = schema_of(manifest)
    for name in found:
        if name in on:
            continue
        dtype = schema[name].dataType
        if is_floating(dtype) or is_collated(dtype) or not _is_comparable(manifest, name):
            again = "" if declared is None else f"Build {where} again, as it has this key. "
            raise ArgumentError(
                f"key={list(found)}: the column {name!r} is {dtype.simpleString()}, by which rows "
                f"are not told apart. {again}Give columns of numbers without a fraction, texts "
                "without a collation, dates or timestamps"
            )
    return found if declared is None else declared


def _is_comparable(manifest: Manifest, name: str) -> bool:
    dtype = manifest.schema.field(manifest.compared + manifest.columns.index(name)).type
    return not dtype.num_fields


def compact(location: StorageLocation, segment_bytes: int) -> Manifest:
    """Publish a version with the same rows and without the layers of the newest one.

    Changes may be applied meanwhile: they stay above the new base. Where the table is built again
    meanwhile, it begins anew; the third time it leaves that version as it is, with a warning.

    The newest version is returned.
    """
    for _ in range(_TRIES):
        before = versions.latest(location)
        if not before.layers:
            return before
        try:
            after = _compacted(location, before, segment_bytes)
        except DamagedTableError:
            if versions.is_there(location, before):
                raise
            continue  # it was removed since, with its files
        if after is not None:
            return after
    told = f"it was built again {_TRIES} times meanwhile"
    _log.warning("bsjoin: the table in %r is not compacted: %s", str(location), told)
    return versions.latest(location)


def _compacted(location: StorageLocation, before: Manifest, segment_bytes: int) -> Manifest | None:
    """Compact one version; None if the table was built again meanwhile."""
    with builds.begun(location) as build:
        base = compacted(build, opened(location, before), segment_bytes, _box_sides(before))
        location.sync(build.folder)
        build.check()

        def attempt(now: Manifest) -> Manifest | None:
            draft = rebased(now, before, base, build.name)
            if draft is None:
                return None
            published = versions.publish(
                location,
                draft,
                parent=now,
                marked_as=now,
                durable=True,
                read_us=freshness.last_read_us(location, now),  # the rows are as old as they were
                check=build.check,
            )
            build.published()
            return published

        after = repeated(location, attempt, "compacted")
    forget(location)  # the files of the base before it
    return after


def start_compacting(location: StorageLocation, manifest: Manifest, segment_bytes: int) -> None:
    """Compact a table in a thread, if that is due and none is about it."""

    def run() -> None:
        try:
            compact(location, segment_bytes)
        except Exception as error:
            _log.warning("bsjoin: the table in %r is not compacted: %s", str(location), error)

    if not is_due(manifest):
        return
    with _lock:
        before = _compacting.get(location.url)
        if before is not None and before.is_alive():
            return
        thread = threading.Thread(target=run, name="bsjoin-compact", daemon=True)
        _compacting[location.url] = thread
        thread.start()
