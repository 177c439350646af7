"""The full cache in a worker process: looks up whole Arrow batches of keys.

Spark gives a task any idle Python worker, so the state of a worker is module state: the open
tables (memory-mapped, with pages shared by all workers of the host) and the known versions of each
table.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from bsjoin.errors import (
    DuplicateKeyError,
    StoreError,
    TableMismatchError,
    VersionNotFoundError,
)
from bsjoin.index import Int64s
from bsjoin.plan import JoinPlan, StoredTable
from bsjoin.runtimes.python.worker import notes
from bsjoin.runtimes.python.worker.row_refs import RUN_TYPE, RowRefs, answer_type, lists, structs
from bsjoin.runtimes.python.worker.table_rows import TableRows
from bsjoin.storage import KeyColumn, Manifest, StorageLocation, freshness, versions
from bsjoin.storage.open_table import OpenTable
from bsjoin.values.retype import same_values


@dataclass
class _Table:
    """The state of one table in this process.

    Args:
        known: the versions that were read.
        settled: those of them that need not be read again.
        chosen: the versions for the last times of micro-batches. One that activates later than
            the folder was read is not for these.
        open: the open versions, only the newest ones: an open file keeps its disk space.
        checked: the last joins, and times and numbers of open versions, that were checked to fit.
    """

    known: dict[int, Manifest] = field(default_factory=dict)
    settled: versions.Settled = field(default_factory=dict)
    chosen: LRUCache[int, int] = field(default_factory=lambda: LRUCache(_TIMES))
    open: dict[int, OpenTable] = field(default_factory=dict)
    checked: LRUCache[tuple[str, int, int], bool] = field(
        default_factory=lambda: LRUCache(_CHECKED)
    )


# A table is identified by its location and its time of publication: see StoredTable.epoch; and by
# how fresh it must be.
_tables: LRUCache[tuple[str, int, int], _Table] = LRUCache(maxsize=64)
_OPEN_VERSIONS = 2
_TIMES = 64
_CHECKED = 256


def answer(
    plan: JoinPlan, hashes: pa.Array, batch_time: pa.Array | None, keys: list[pa.Array]
) -> pa.Array:
    """Look up a batch of keys, of hashes, which are null for null keys, and what else is compared.

    ``batch_time``: of the micro-batch, in all rows; None for a plan with a fixed version.

    Returns:
        Booleans for ``exists``; otherwise null if the key is not in the table, else a struct
        (``row``), a list of structs (``rows``) or a run (``runs``).
    """
    if not len(hashes):
        return pa.nulls(0, answer_type(plan.shape, plan.row_type))
    with notes.of(plan.label).timed() as metrics:
        table = open_table(plan, batch_time)
        rows = table.find(hashes, keys)
        shape, row_type, found = plan.shape, plan.row_type, rows >= 0
        several = shape in ("rows", "runs")
        counts = table.run_lengths(rows) if several else found.astype(np.int64)
        if shape == "exists":
            result = pa.array(found)
        elif shape == "row":
            result = structs(row_type, _rows(plan, table, rows, counts))
        elif shape == "rows":
            result = lists(row_type, _rows(plan, table, rows, counts))
        else:
            columns = [pa.array(rows), pa.array(counts)]
            result = pa.StructArray.from_arrays(
                columns, fields=list(RUN_TYPE), mask=pa.array(~found)
            )
        if plan.reports:
            metrics.version = table.manifest.version
            metrics.count(plan.how, len(rows), int(found.sum()), int(counts.sum()))
    return result


def gather(
    plan: JoinPlan, batch_time: pa.Array | None, first: pa.Array, count: pa.Array
) -> pa.Array:
    """Gather parts of runs: m lists of structs from m first rows and counts."""
    if not len(first):
        return pa.nulls(0, answer_type("rows", plan.row_type))
    with notes.of(plan.label).timed():
        table = open_table(plan, batch_time)
        rows = np.asarray(first.to_numpy(zero_copy_only=False), np.int64)
        counts = np.asarray(count.to_numpy(zero_copy_only=False), np.int64)
        return lists(plan.row_type, _rows(plan, table, rows, counts))


def _rows(plan: JoinPlan, table: OpenTable, first: Int64s, counts: Int64s) -> RowRefs[TableRows]:
    return RowRefs([TableRows(table, plan)], None, first, counts)


def open_table(plan: JoinPlan, batch_time: pa.Array | None) -> OpenTable:
    """The open table for a batch; opened if this process has not opened it yet."""
    stored = plan.table
    assert isinstance(stored, StoredTable)
    location = stored.location
    key = (location.url, stored.epoch, stored.max_staleness_us)
    table = _tables.get(key)
    if table is None:
        table = _tables[key] = _Table()
    version = stored.version
    if version is None:
        assert batch_time is not None
        version = _version(stored, table, batch_time[0].value)
    opened = table.open.get(version)
    known = table.known.get(version)
    if opened and known and opened.manifest.created_at_us != known.created_at_us:
        opened = None  # it was withdrawn, and its number given to another version
    manifest = opened.manifest if opened else known or versions.load(location, version)
    if stored.version is not None and manifest.created_at_us != stored.epoch:
        raise VersionNotFoundError(
            f"version {version} of the table in {str(location)!r} is not the one that the "
            "query was planned with: the table was built again. Make the DataFrame anew"
        )
    if opened is None:
        # Most of its segments may be those of a version that is open: a table that changes.
        open_here = [one for known in _tables_at(location) for one in known.open.values()]
        opened = table.open[version] = OpenTable(location, manifest, open_here)
        _close_unneeded(location, opened)
    checked = plan.label, *_published(opened)
    if checked not in table.checked:
        _check(plan, stored, opened.manifest)
        table.checked[checked] = True
    return opened


def _tables_at(location: StorageLocation) -> list[_Table]:
    """The table, as plans made at different times know it."""
    return [table for (url, _, _), table in _tables.items() if url == location.url]


def _close_unneeded(location: StorageLocation, opened: OpenTable) -> None:
    """Close files that occupy disk space without need, as a version is opened.

    Of this table all versions but the newest, of any plan, and this host's copies of their files;
    of other local tables the versions that were removed.
    """
    here = _tables_at(location)
    newest = sorted({_published(one) for table in here for one in table.open.values()})
    kept = {*newest[-_OPEN_VERSIONS:], _published(opened)}
    for (url, _, _), table in list(_tables.items()):
        other = StorageLocation(url)
        if other == location:
            table.open = {n: one for n, one in table.open.items() if _published(one) in kept}
            for one in [one for one in table.checked if one[1:] not in kept]:
                del table.checked[one]
        elif table.open and other.is_local:
            # It is not the table that is asked: whatever is wrong with it, its own tasks say.
            with contextlib.suppress(OSError, StoreError):
                there = versions.numbers(other)
                table.open = {n: one for n, one in table.open.items() if n in there}
    left = [one.manifest.files for table in here for one in table.open.values()]
    versions.remove_copies(location, (name for files in left for name, _, _ in files))


def _published(table: OpenTable) -> tuple[int, int]:
    return table.manifest.created_at_us, table.manifest.version


def _check(plan: JoinPlan, stored: StoredTable, manifest: Manifest) -> None:
    where = f"version {manifest.version} of the table in {str(stored.location)!r}"
    advice = "Restart the query: it continues from its checkpoint"
    before_plan = stored.is_older(manifest.version, manifest.created_at_us)
    if before_plan:
        advice = (
            "The query was planned with a newer version, and this micro-batch began with this one: "
            "start the query from a new checkpoint"
        )
    if plan.needs_unique and manifest.longest_run > 1:
        raise DuplicateKeyError(
            f"{where} has keys with up to {manifest.longest_run} rows, and this query was planned "
            f"when the table was declared unique. {advice}"
        )
    if manifest.keys != stored.keys:
        there, wanted = (_shown(keys) for keys in (manifest.keys, stored.keys))
        raise TableMismatchError(
            f"{where} has the keys {there}, and this query was planned for {wanted}. {advice}"
        )
    types = dict(zip(manifest.schema.names, manifest.schema.types, strict=True))
    for column, wanted in zip(plan.columns, plan.row_type, strict=False):
        if column not in types:
            if before_plan and stored.version is None:
                continue  # added later: null here
            raise TableMismatchError(
                f"{where} has no column {column!r}, which this query selects. {advice}"
            )
        if not same_values(types[column], wanted.type):
            raise TableMismatchError(
                f"in {where} the column {column!r} is {types[column]}, and this query was planned "
                f"for {wanted.type}. {advice}"
            )


def _shown(keys: Sequence[KeyColumn]) -> str:
    return json.dumps([key.to_json() for key in keys], separators=(",", ":"))


def _version(stored: StoredTable, table: _Table, time_us: int) -> int:
    """The version for a micro-batch of this time; the folder is read once per micro-batch."""
    version = table.chosen.get(time_us)
    if version is None:
        # Whatever the time: clocks are set back, too.
        location = stored.location
        # First: a version that is published in between takes nothing from them.
        marks = (
            freshness.marks_in(freshness.mark_names(location)) if stored.max_staleness_us else []
        )
        later = versions.since(location, time_us, table.settled)
        table.known = {manifest.version: manifest for manifest in later}
        found = later[0]
        if stored.max_staleness_us:
            found = freshness.fresh_version(
                location, found, later, marks, time_us, stored.max_staleness_us
            )
        version = table.chosen[time_us] = found.version
    return version
