"""Compaction: copies the live entries of a generation to the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bsjoin.cache.generation import PENDING, Generation
from bsjoin.cache.memory import Int64s

_CHUNK = 1 << 16
_CHUNK_BYTES = 64 << 20
"""A chunk is one Arrow array a column: text of more than 2 GiB would not fit into one."""


def survivors(
    view: Generation, count: int, is_alive: Callable[[int], bool]
) -> tuple[Int64s, Int64s]:
    """The live entries, ascending: those to copy, and those that the new hash table refers to.

    Only entries that the hash table refers to are live, so unfinished work of a dead writer is
    dropped. Pending entries of dead processes are replaced by the entries before them.
    """
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    entries = view.entries(count)
    ids = view.linked(count)
    records = entries.take(ids)
    ids, records = ids[records["dead"] == 0], records[records["dead"] == 0]
    pending = records["count"] == PENDING
    owners = np.unique(records["owner"][pending])
    gone = [owner for owner in owners.tolist() if not is_alive(owner)]
    abandoned = pending & np.isin(records["owner"], gone)
    before = records["previous"].astype(np.int64)
    had_one = pending & (before >= 0)
    had_one[had_one] = entries.take(before[had_one])["dead"] == 0
    chosen = np.zeros(count, np.bool_)
    chosen[ids[~abandoned]] = True
    chosen[before[abandoned & had_one]] = True
    linked = np.flatnonzero(chosen)
    chosen[before[had_one]] = True
    return np.flatnonzero(chosen), linked


def copy(old: Generation, new: Generation, count: int, kept: Int64s) -> int:
    """Copy entries with their keys and rows to an empty generation; the number of its rows."""
    if not len(kept):
        return 0
    entries = old.entries(count)
    places = np.full(count + 1, -1, np.int32)  # the last element stands for "none", -1
    places[kept] = np.arange(len(kept))
    rows = 0
    for begin, end in _chunks(entries["bytes"].take(kept)):
        ids = kept[begin:end]
        records = entries.take(ids)
        counts = np.maximum(records["count"], 0).astype(np.int64)
        ends = np.cumsum(counts)
        total = int(ends[-1])
        if total:
            which = np.repeat(records["first"] - (ends - counts), counts) + np.arange(total)
            new.rows.append(rows, old.rows.gather(which))
        records["first"] = rows + ends - counts
        records["previous"] = places[records["previous"]]
        new.append(begin, records, old.keys.gather(ids))
        rows += total
    return rows


def _chunks(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Runs of entries of these sizes, each within the limits or of one entry."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = ends[begin - 1] if begin else 0
        fitting = int(np.searchsorted(ends, before + _CHUNK_BYTES, "right"))
        end = min(max(fitting, begin + 1), begin + _CHUNK)
        yield begin, min(end, len(sizes))
        begin = end
