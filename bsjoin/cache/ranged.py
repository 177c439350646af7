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
    columns = batch.columns
    stream, (hashes, *rest) = columns[: plan.carried], columns[plan.carried :]
    batch_time = rest.pop(0) if plan.version is None else None
    table = open_table(plan, batch_time)
    points = 2 if plan.search.kind == "overlaps" else 1
    keys, probes = rest[: len(rest) - points], rest[len(rest) - points :]
    brings = plan.how in ("inner", "left")
    matched = np.zeros(batch.num_rows, np.bool_)
    clock = _Stopwatch()
    held: pa.RecordBatch | None = None
    for positions, rows in _pairs(plan, table, hashes, keys, probes):
        matched[positions] = True
        if brings:
            if held is not None:
                clock.stop()
                yield _noted(plan, held)
                clock.start()
            held = _result(stream, positions, table.gather(plan.columns, rows))
    if plan.how != "inner":
        rest_of = np.flatnonzero(matched if plan.how == "semi" else ~matched)
        if len(rest_of):
            types = plan.row_type.fields[: len(plan.columns)] if brings else []
            if held is not None:
                clock.stop()
                yield _noted(plan, held)
                clock.start()
            nothing = [pa.nulls(len(rest_of), field.type) for field in types]
            held = _result(stream, rest_of, nothing)
    clock.stop()
    if plan.reports:
        version = table.manifest.version
        figures = {"ns": clock.ns, "version": version, "hits": int(matched.sum())}
        notes.add(plan.label, figures)
    if held is not None:  # it was held back so that the note goes with it
        yield _noted(plan, held)


class _Stopwatch:
    """Time spent here, and not where the results go."""

    def __init__(self) -> None:
        self.ns = 0
        self.start()

    def start(self) -> None:
        self._since = time.perf_counter_ns()

    def stop(self) -> None:
        self.ns += time.perf_counter_ns() - self._since


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
