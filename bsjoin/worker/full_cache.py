"""The full cache in a worker process: looks up whole Arrow batches of keys.

Spark gives a task any idle Python worker, so the state of a worker is module state: the open
tables (memory-mapped, with pages shared by all workers of the host) and the known versions of each
table.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from bsjoin._plan import LookupPlan
from bsjoin.errors import DuplicateKeyError, OtherKeysError, StoreError
from bsjoin.store import Manifest, StorageLocation, versions
from bsjoin.worker import notes
from bsjoin.worker.open_table import OpenTable
from bsjoin.worker.row_refs import RUN_TYPE, RowRefs, answer_type, lists, structs

__all__ = ["answer", "gather", "open_table"]

Int64s = NDArray[np.int64]

_log = logging.getLogger("bsjoin")


@dataclass
class _Table:
    """The state of one table in this process.

    Args:
        known: the versions that were read.
        read_for_us: the latest batch time for which these versions are complete.
        open: the open versions, only the newest ones: an open file keeps its disk space.
        checked: the pairs of join and version that were checked for compatibility.
    """

    known: dict[int, Manifest] = field(default_factory=dict)
    read_for_us: int = -1
    open: dict[int, OpenTable] = field(default_factory=dict)
    checked: set[tuple[str, int]] = field(default_factory=set)


# A table is identified by its location and its time of publication: see LookupPlan.epoch.
_tables: LRUCache[tuple[str, int], _Table] = LRUCache(maxsize=64)
_OPEN_VERSIONS = 2


def answer(
    plan: LookupPlan, hashes: pa.Array, batch_time: pa.Array | None, keys: list[pa.Array]
) -> pa.Array:
    """Look up a batch of keys.

    Args:
        plan: the table, the columns, and the shape of the result.
        hashes: the m hashes; null for a null key.
        batch_time: the micro-batch's timestamp, the same in all m rows; None for a plan with a
            fixed version.
        keys: the m keys to compare, column by column.

    Returns:
        An array of m results: booleans for ``exists``; otherwise null if the key is not in the
        table, else a struct (``row``), a list of structs (``rows``) or a run (``runs``).
    """
    started = time.perf_counter_ns()
    if not len(hashes):
        return pa.nulls(0, answer_type(plan.shape, plan.row_type))
    table = open_table(plan, batch_time)
    rows = table.find(hashes, keys)
    if plan.shape == "exists":
        result = pa.array(rows >= 0)
    elif plan.shape == "row":
        result = structs(plan.row_type, _rows(plan, table, rows, (rows >= 0).astype(np.int64)))
    elif plan.shape == "rows":
        result = lists(plan.row_type, _rows(plan, table, rows, table.run_lengths(rows)))
    else:
        columns = [pa.array(rows), pa.array(table.run_lengths(rows))]
        result = pa.StructArray.from_arrays(columns, fields=list(RUN_TYPE), mask=pa.array(rows < 0))
    _report(plan, table, started)
    return result


def gather(
    plan: LookupPlan, batch_time: pa.Array | None, first: pa.Array, count: pa.Array
) -> pa.Array:
    """Gather parts of runs: m lists of structs from m first rows and counts."""
    started = time.perf_counter_ns()
    if not len(first):
        return pa.nulls(0, answer_type("rows", plan.row_type))
    table = open_table(plan, batch_time)
    rows = np.asarray(first.to_numpy(zero_copy_only=False), np.int64)
    counts = np.asarray(count.to_numpy(zero_copy_only=False), np.int64)
    result = lists(plan.row_type, _rows(plan, table, rows, counts))
    _report(plan, table, started)
    return result


@dataclass(frozen=True)
class _Selection:
    """The requested columns of a table."""

    table: OpenTable
    columns: tuple[str, ...]

    def gather(self, rows: Int64s) -> list[pa.Array]:
        return self.table.gather(self.columns, rows)


def _rows(plan: LookupPlan, table: OpenTable, first: Int64s, counts: Int64s) -> RowRefs[_Selection]:
    return RowRefs([_Selection(table, plan.columns)], None, first, counts)


def _report(plan: LookupPlan, table: OpenTable, started_ns: int) -> None:
    if plan.reports:
        spent = time.perf_counter_ns() - started_ns
        notes.add(plan.label, {"ns": spent, "version": table.manifest.version})


def open_table(plan: LookupPlan, batch_time: pa.Array | None) -> OpenTable:
    """The open table for a batch; opened if this process has not opened it yet."""
    key = (plan.location.url, plan.epoch)
    table = _tables.get(key)
    if table is None:
        _close_removed()
        table = _tables[key] = _Table()
    version = plan.version
    if version is None:
        assert batch_time is not None
        version = _version(plan.location, table, batch_time[0].value)
    opened = table.open.get(version)
    if opened is None:
        manifest = table.known.get(version) or versions.load(plan.location, version)
        opened = table.open[version] = OpenTable(plan.location, manifest)
        _close_old_versions(plan.location, opened)
    if (plan.label, version) not in table.checked:
        _check(plan, opened.manifest)
        table.checked.add((plan.label, version))
    return opened


def _close_old_versions(location: StorageLocation, opened: OpenTable) -> None:
    """Close all versions of a table except the newest, for all plans; remove local copies."""
    tables = [_tables[key] for key in list(_tables) if key[0] == location.url]
    newest = sorted({_published(one) for table in tables for one in table.open.values()})
    kept = {*newest[-_OPEN_VERSIONS:], _published(opened)}
    for table in tables:
        table.open = {n: one for n, one in table.open.items() if _published(one) in kept}
    left = [one.manifest for table in tables for one in table.open.values()]
    try:
        versions.remove_copies(location, left)
    except (OSError, StoreError) as error:
        _log.warning("bsjoin: old copies of the table in %r stay: %s", str(location), error)


def _published(table: OpenTable) -> tuple[int, int]:
    return table.manifest.created_at_us, table.manifest.version


def _close_removed() -> None:
    """Close versions that were removed, whose files would keep their disk space."""
    for (url, _), table in list(_tables.items()):
        location = StorageLocation(url)
        if table.open and location.is_local:
            there = versions.numbers(location)
            for version in [number for number in table.open if number not in there]:
                del table.open[version]


def _check(plan: LookupPlan, manifest: Manifest) -> None:
    """Refuse a version that is incompatible with the plan."""
    where = f"version {manifest.version} of the table in {str(plan.location)!r}"
    advice = "Restart the query: it continues from its checkpoint"
    if plan.shape == "row" and manifest.longest_run > 1:
        raise DuplicateKeyError(
            f"{where} has keys with up to {manifest.longest_run} rows, and this query was planned "
            f"when the table was declared unique. {advice}"
        )
    types = dict(zip(manifest.columns, manifest.schema.types[manifest.compared :], strict=True))
    for column, wanted in zip(plan.columns, plan.row_type, strict=False):
        if column not in types:
            raise OtherKeysError(
                f"{where} has no column {column!r}, which this query selects. {advice}"
            )
        if types[column] != wanted.type:
            raise OtherKeysError(
                f"in {where} the column {column!r} is {types[column]}, and this query was planned "
                f"for {wanted.type}. {advice}"
            )


def _version(location: StorageLocation, table: _Table, time_us: int) -> int:
    """The version for a micro-batch of this time; the folder is read once per micro-batch."""
    if time_us > table.read_for_us or not table.known:
        there = versions.numbers(location)
        table.known = {n: table.known.get(n) or versions.load(location, n) for n in there}
        table.read_for_us = time_us
    return versions.version_at(location, time_us, table.known.values()).version
