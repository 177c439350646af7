"""Range joins in a worker process: maps batches of the stream to batches of the result.

A batch of the result has a bounded number of rows, even if many more rows match.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin._plan import JoinPlan, Search, SourceTable
from bsjoin.worker import incremental_cache, notes
from bsjoin.worker.full_cache import open_table
from bsjoin.worker.grouping import Groups, cached_groups, stored_groups
from bsjoin.worker.range_search import any_match, matches

__all__ = ["NOTE", "joined"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOTE = "__bsjoin_note"
_MAX_PAIRS = 1 << 16
_LOOKED_UP_TOGETHER = 1 << 16


def joined(
    plan: JoinPlan, carried: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Join batches of the stream with the table.

    Args:
        plan: the table, the condition, and the join type.
        carried: how many columns of the stream come with a batch and go with the result.
        batches: the stream's columns; then the hash of the key, the micro-batch's timestamp if
            the plan is for a stored table without a fixed version, the keys to compare or to
            look up, and the range columns.

    Yields:
        The stream's columns; for an inner or left join the table's; and, if the plan reports, a
        note, which is null in most rows.
    """
    # Several batches are combined for a source: fewer and larger queries.
    enough = _LOOKED_UP_TOGETHER if isinstance(plan.table, SourceTable) else 1
    for batch in _together(batches, enough):
        yield from _joined(plan, carried, batch)


def _together(batches: Iterable[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(one.num_rows for one in held) >= enough:
            yield pa.concat_batches(held) if len(held) > 1 else held[0]
            held = []
    if held:
        yield pa.concat_batches(held)


def _joined(plan: JoinPlan, carried: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The results of one batch, the last one with the note; timed without their consumer."""
    begun = time.perf_counter_ns()
    assert plan.search is not None
    columns, first_probe = batch.columns, batch.num_columns - plan.search.points
    groups, figures = _groups(plan, columns[carried:first_probe])
    matched = np.zeros(batch.num_rows, np.bool_)
    results = _results(plan, plan.search, columns[:carried], columns[first_probe:], groups, matched)
    held: pa.RecordBatch | None = None
    spent = time.perf_counter_ns() - begun
    while True:
        begun = time.perf_counter_ns()
        result = next(results, None)
        spent += time.perf_counter_ns() - begun
        if result is None:
            break
        if held is not None:
            yield _noted(plan, held)
        held = result
    if plan.reports:
        notes.add(plan.label, {**figures, "ns": spent, "hits": int(matched.sum())})
    if held is not None:
        yield _noted(plan, held)


def _groups(plan: JoinPlan, key: Sequence[pa.Array]) -> tuple[Iterator[Groups], dict[str, Any]]:
    """The rows of the batch's keys, and metrics for the note."""
    hashes, *keys = key
    if isinstance(plan.table, SourceTable):
        rows, figures = incremental_cache.looked_up(plan.table, hashes, keys, plan.reports)
        return cached_groups(plan.table, rows), figures
    batch_time = keys.pop(0) if plan.table.version is None else None
    table = open_table(plan, batch_time)
    groups = stored_groups(plan.output.columns, table, hashes, keys)
    return groups, {"version": table.manifest.version}


def _results(
    plan: JoinPlan,
    condition: Search,
    stream: Sequence[pa.Array],
    probes: Sequence[pa.Array],
    groups: Iterator[Groups],
    matched: Bools,
) -> Iterator[pa.RecordBatch]:
    """Batches of the result; sets ``matched`` for rows of the stream that have a match."""
    brings = plan.how in ("inner", "left")
    for group in groups:
        part, points = group.part, list(probes)
        if part is not None:
            chosen = pa.array(part)
            points = [probe.take(chosen) for probe in probes]
        search = condition, group.index, points, group.low, group.high
        if not brings:
            found = np.flatnonzero(any_match(*search))
            matched[found if part is None else part.take(found)] = True
            continue
        for positions, rows in matches(*search, _MAX_PAIRS):
            where = positions if part is None else part.take(positions)
            matched[where] = True
            yield _result(stream, where, group.gather(rows))
    if plan.how == "inner":
        return
    rest = np.flatnonzero(matched if plan.how == "semi" else ~matched)
    for begin in range(0, len(rest), _MAX_PAIRS):
        some = rest[begin : begin + _MAX_PAIRS]
        types = plan.output.types if brings else []
        yield _result(stream, some, [pa.nulls(len(some), dtype) for dtype in types])


def _result(
    stream: Sequence[pa.Array], positions: Int64s, table: Sequence[pa.Array]
) -> pa.RecordBatch:
    chosen = pa.array(positions)
    columns = [*(column.take(chosen) for column in stream), *table]
    names = [f"s{i}" for i in range(len(stream))] + [f"c{i}" for i in range(len(table))]
    return pa.RecordBatch.from_arrays(columns, names)


def _noted(plan: JoinPlan, result: pa.RecordBatch) -> pa.RecordBatch:
    if not plan.reports:
        return result
    note = notes.fetch(plan.label, result.num_rows)
    return pa.RecordBatch.from_arrays([*result.columns, note], [*result.schema.names, NOTE])
