"""Range joins in a worker process: batches of the stream in, batches of the result out.

However many rows match, a batch of the result has a bounded number of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin._plan import RangePlan
from bsjoin.cache import notes
from bsjoin.cache.full import open_table
from bsjoin.cache.searching import matches
from bsjoin.cache.table import OpenTable

__all__ = ["NOTE", "joined"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOTE = "__bsjoin_note"
_MAX_PAIRS = 1 << 14


def joined(plan: RangePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches of the stream with the table.

    Args:
        plan: which table, which condition, which join type.
        batches: the stream's columns; then the hash of the key, the micro-batch's timestamp if
            the plan is not bound to a version, the keys to compare, and the range columns.

    Yields:
        The stream's columns; with an inner or left join the table's; and a note, null but for
        a few rows.
    """
    for batch in batches:
        if batch.num_rows:
            yield from _joined(plan, batch)


def _joined(plan: RangePlan, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The results of one batch, the last one with the note; timed without those who take them."""
    columns = batch.columns
    stream, (hashes, *rest) = columns[: plan.carried], columns[plan.carried :]
    batch_time = rest.pop(0) if plan.version is None else None
    table = open_table(plan, batch_time)
    points = 2 if plan.search.kind == "overlaps" else 1
    keys, probes = rest[: len(rest) - points], rest[len(rest) - points :]
    matched = np.zeros(batch.num_rows, np.bool_)
    pairs = _pairs(plan, table, hashes, keys, probes)
    results = _results(plan, table, stream, pairs, matched)
    held: pa.RecordBatch | None = None
    spent = 0
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
        version = table.manifest.version
        notes.add(plan.label, {"ns": spent, "version": version, "hits": int(matched.sum())})
    if held is not None:
        yield _noted(plan, held)


def _results(
    plan: RangePlan,
    table: OpenTable,
    stream: Sequence[pa.Array],
    pairs: Iterator[tuple[Int64s, Int64s]],
    matched: Bools,
) -> Iterator[pa.RecordBatch]:
    """Batches of the result; ``matched`` is set where a row of the stream has a match."""
    brings = plan.how in ("inner", "left")
    for positions, rows in pairs:
        matched[positions] = True
        if brings:
            yield _result(stream, positions, table.gather(plan.columns, rows))
    if plan.how == "inner":
        return
    rest = np.flatnonzero(matched if plan.how == "semi" else ~matched)
    if len(rest):
        types = plan.types if brings else []
        yield _result(stream, rest, [pa.nulls(len(rest), dtype) for dtype in types])


def _pairs(
    plan: RangePlan,
    table: OpenTable,
    hashes: pa.Array,
    keys: Sequence[pa.Array],
    probes: Sequence[pa.Array],
) -> Iterator[tuple[Int64s, Int64s]]:
    """Positions in the batch and numbers of the table's rows, some at a time."""
    firsts = table.find(hashes, list(keys))
    counts = table.run_lengths(firsts)
    for part, ranges, first_row in table.groups(firsts):
        local, many, some = firsts, counts, list(probes)
        if part is not None:
            chosen = pa.array(part)
            local, many = firsts.take(part), counts.take(part)
            some = [probe.take(chosen) for probe in probes]
        low = np.where(many > 0, local - first_row, 0)
        for positions, rows in matches(plan.search, ranges, some, low, low + many, _MAX_PAIRS):
            yield positions if part is None else part.take(positions), rows + first_row


def _result(
    stream: Sequence[pa.Array], positions: Int64s, table: Sequence[pa.Array]
) -> pa.RecordBatch:
    chosen = pa.array(positions)
    columns = [*(column.take(chosen) for column in stream), *table]
    names = [f"s{i}" for i in range(len(stream))] + [f"c{i}" for i in range(len(table))]
    return pa.RecordBatch.from_arrays(columns, names)


def _noted(plan: RangePlan, result: pa.RecordBatch) -> pa.RecordBatch:
    note = notes.fetch(plan.label, result.num_rows)
    return pa.RecordBatch.from_arrays([*result.columns, note], [*result.schema.names, NOTE])
