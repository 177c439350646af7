"""The joins of a stage in a worker process: batches of the stream to batches of the result.

Each join takes the rows that those before it leave, piece by piece, so that what is in memory is
bounded however many rows match: no piece has more than 65,536 rows, and the batches that leave have
some 64 MiB at most.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.index import Int64s, pairs
from bsjoin.metrics.join_metrics import JoinMetrics
from bsjoin.metrics.lines import to_line
from bsjoin.plan import Call, Predicate, SourceTable, StageJoin, StagePlan, StoredTable
from bsjoin.runtimes.python.worker import incremental_cache
from bsjoin.runtimes.python.worker.aggregating import Aggregates
from bsjoin.runtimes.python.worker.batch_sizes import MOST_ROWS, Cutter, together
from bsjoin.runtimes.python.worker.chain_rows import Payload, Rows, evaluated, placeholder
from bsjoin.runtimes.python.worker.collecting import collected, empty_lists
from bsjoin.runtimes.python.worker.full_cache import open_table
from bsjoin.runtimes.python.worker.grouping import CacheRows, Groups, cached_groups, stored_groups
from bsjoin.runtimes.python.worker.incremental_cache import Answer
from bsjoin.runtimes.python.worker.keys import hashed_key
from bsjoin.runtimes.python.worker.range_search import any_match, matches, run_of_each
from bsjoin.runtimes.python.worker.row_refs import RowRefs, RowSource
from bsjoin.runtimes.python.worker.table_rows import TableRows
from bsjoin.storage.open_table import OpenTable

NOTE = "__bsjoin_note"
NO_ROW = " "
"""With this, which JSON ignores, a note begins that comes in a row which is none of the result."""


def joined(
    plan: StagePlan,
    batches: Iterable[pa.RecordBatch],
    send: Callable[[str], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Join batches of the stream with the tables.

    ``batches`` have the stream's columns, and those that the plan names besides. ``send`` takes the
    metrics, a line, at the end, if the joins report, an empty one without rows; None: they are in a
    column.

    Yields:
        The stream's columns; the joins' payload; and, for metrics in a column, a note,
        which is null but in the last row of the task. A task without a row has one for it, which
        does not belong to the result.
    """
    joins = [_Join(join) for join in plan.joins]
    # Several batches are combined for a source: fewer and larger queries.
    sources = any(isinstance(join.plan.table, SourceTable) for join in plan.joins)
    enough = incremental_cache.LOOKED_UP_TOGETHER if sources else 1
    sent = together(batches, enough)
    first = next(sent, None)
    if first is None:
        if send is not None:
            send("")  # which partitions a stage has computed tells actions apart
        return
    results = _results(plan, joins, itertools.chain([first], sent))
    if send is not None or not plan.joins[0].plan.reports:
        yield from results
        if send is not None:
            send(_line(joins))
        return
    held: pa.RecordBatch | None = None
    for result in results:
        if held is not None:
            yield _noted(held, None)
        held = result
    text = _line(joins)
    if held is not None:
        yield _noted(held, text)
    else:
        example = first.slice(0, 1)
        table = [placeholder(dtype) for join in joins for dtype in join.types]
        yield _noted(_batch([*example.columns[: plan.stream_columns], *table], plan), NO_ROW + text)


def _line(joins: Sequence[_Join]) -> str:
    return to_line(join.metrics for join in joins)


def _results(
    plan: StagePlan, joins: Sequence[_Join], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The results, none of them empty."""
    pieces: Iterator[Rows] = map(Rows, batches)
    for join in joins:
        pieces = join.joined(pieces)

    def columns_of(rows: Rows) -> list[pa.Array]:
        columns = [rows.sent(number) for number in range(plan.stream_columns)]
        for join, payload in zip(joins, rows.payloads, strict=True):
            if payload is not None:
                with join.metrics.timed():
                    columns += payload.columns()
        return columns

    cutter = Cutter(columns_of)
    for rows in pieces:
        for columns in cutter.batches(rows):
            yield _batch(columns, plan)


def _batch(columns: Sequence[pa.Array], plan: StagePlan) -> pa.RecordBatch:
    names = [
        f"s{i}" if i < plan.stream_columns else f"c{i - plan.stream_columns}"
        for i in range(len(columns))
    ]
    return pa.RecordBatch.from_arrays(columns, names)


def _noted(result: pa.RecordBatch, note: str | None) -> pa.RecordBatch:
    notes = pa.nulls(result.num_rows, pa.string())
    if note is not None:
        notes = pa.concat_arrays([notes[1:], pa.array([note])])
    return pa.RecordBatch.from_arrays([*result.columns, notes], [*result.schema.names, NOTE])


class _Join:
    """One join, in one task."""

    def __init__(self, join: StageJoin):
        self._join, self._plan = join, join.plan
        self.metrics = JoinMetrics()
        self.types = self._plan.result_types

    def joined(self, pieces: Iterable[Rows]) -> Iterator[Rows]:
        """The rows behind this join, in pieces that are not empty.

        The time of those that make the rows, and of those that take them, does not count.
        """
        predicate = self._plan.predicate
        for rows, answer in self._asked(pieces):
            if predicate is None:
                found = self._equal(rows, answer)
            elif self._plan.collects:
                found = self._collected(rows, predicate, answer)
            elif self._plan.aggregates:
                found = self._aggregated(rows, predicate, answer)
            else:
                found = self._ranged(rows, predicate, answer)
            if self._join.check is not None:
                found = map(functools.partial(self._passing, self._join.check), found)
            while True:
                with self.metrics.timed():
                    piece = next(found, None)
                if piece is None:
                    break
                if len(piece):
                    yield piece

    def _asked(self, pieces: Iterable[Rows]) -> Iterator[tuple[Rows, Answer | None]]:
        """The pieces, each with its look-up in a source; None for a stored table."""
        table = self._plan.table
        if not isinstance(table, SourceTable):
            yield from ((rows, None) for rows in pieces)
            return

        def ask(rows: Rows) -> Answer:
            with self.metrics.timed():
                hashes, keys = self._key(rows)
                return incremental_cache.ask(table, hashes, keys, self._plan.reports)

        yield from incremental_cache.ahead(ask, pieces)

    def _key(self, rows: Rows) -> tuple[pa.Array, list[pa.Array]]:
        """The hash of the key, null for a null key, and what else is compared or looked up."""
        columns = [rows.column(column) for column in self._join.key]
        if self._join.hash is not None:
            return rows.column(self._join.hash), columns
        stored = isinstance(self._plan.table, StoredTable)
        return hashed_key(columns, stored=stored, rows=len(rows))

    def _payload(
        self,
        sources: Sequence[RowSource],
        source: NDArray[np.int32] | None,
        rows: Int64s,
        where: Int64s | None = None,
        before: int = -1,
    ) -> Payload | None:
        """What the join brings, of rows of sources as :class:`Payload` has them.

        ``where`` has their rows of the stream, equal ones one after the other, of which ``before``
        is the one before these; None (default) where each is another one.
        """
        if not self.types:
            return None
        known = []
        if self._plan.marks:
            known.append(pa.array(rows >= 0))
        if self._plan.begins:
            each = np.arange(len(rows)) if where is None else where
            known.append(pa.array(np.diff(each, prepend=before) != 0))
        computed = dict(enumerate(known, len(self.types) - len(known)))
        return Payload(self.types, sources, source, rows, computed)

    def _equal(self, rows: Rows, answer: Answer | None) -> Iterator[Rows]:
        sources, source, first, counts = self._found(rows, answer)
        how, hits = self._plan.how, first >= 0
        found = int(np.count_nonzero(hits))
        matched = found if counts is None else int(counts.sum())
        self.metrics.count(how, len(rows), found, matched)
        if how in ("semi", "anti"):
            every = found == (len(rows) if how == "semi" else 0)
            kept = None if every else np.flatnonzero(hits if how == "semi" else ~hits)
            yield rows.chosen(kept).with_payload(None)
            return
        if counts is not None and counts.max() > 1:
            stops, last = first + (np.maximum(counts, 1) if how == "left" else counts), -1
            for where, numbers in pairs(first, stops, MOST_ROWS):
                place = None if source is None else source.take(where)
                payload = self._payload(sources, place, numbers, where, last)
                last = where[-1]
                yield rows.chosen(where).with_payload(payload)
        elif how == "left" or found == len(rows):
            yield rows.with_payload(self._payload(sources, source, first))
        else:
            where = np.flatnonzero(hits)
            place = None if source is None else source.take(where)
            yield rows.chosen(where).with_payload(self._payload(sources, place, first.take(where)))

    def _passing(self, check: Call, rows: Rows) -> Rows:
        """The pairs that fulfil the condition; of a left join the others have no match."""
        passing, payload = evaluated(check, rows.column), rows.payloads[-1]
        if passing.true_count == len(rows):
            return rows
        passes = passing.fill_null(False).to_numpy(zero_copy_only=False)
        if self._plan.how == "inner":
            return rows.chosen(np.flatnonzero(passes))
        if payload is None or (passes | (payload.rows < 0)).all():
            return rows
        left = self._payload(payload.sources, payload.source, np.where(passes, payload.rows, -1))
        return replace(rows, payloads=(*rows.payloads[:-1], left))

    def _found(
        self, rows: Rows, answer: Answer | None
    ) -> tuple[Sequence[RowSource], NDArray[np.int32] | None, Int64s, Int64s | None]:
        """The sources; each key's source, first row or -1, and number of rows (None: at most 1)."""
        if answer is not None:
            refs = self._answered(answer)
            first = np.where(refs.counts > 0, refs.first, -1)
            return refs.places, refs.place, first, refs.counts
        hashes, keys = self._key(rows)
        table = self._open(rows)
        first = table.find(hashes, list(keys))
        counts = None if table.manifest.longest_run <= 1 else table.run_lengths(first)
        return [TableRows(table, self._plan)], None, first, counts

    def _ranged(self, rows: Rows, predicate: Predicate, answer: Answer | None) -> Iterator[Rows]:
        how, matched, found = self._plan.how, np.zeros(len(rows), np.bool_), 0
        last = -1
        for group, searched in self._searched(rows, answer):
            part = group.part
            given = predicate, group.index, searched, group.low, group.high
            if how in ("semi", "anti"):
                some = np.flatnonzero(any_match(*given))
                matched[some if part is None else part.take(some)] = True
                continue
            for positions, numbers in matches(*given, MOST_ROWS):
                where = positions if part is None else part.take(positions)
                matched[where] = True
                found += len(where)
                numbers = group.numbers(numbers)
                payload = self._payload([group.source], None, numbers, where, last)
                last = where[-1] if len(where) else last
                yield rows.chosen(where).with_payload(payload)
        hits = int(np.count_nonzero(matched))
        self.metrics.count(how, len(rows), hits, found)
        if how in ("semi", "anti"):
            yield rows.chosen(np.flatnonzero(matched if how == "semi" else ~matched)).with_payload(
                None
            )
        elif how == "left":
            rest = np.flatnonzero(~matched)
            payload = self._payload([], None, np.full(len(rest), -1))
            yield rows.chosen(rest).with_payload(payload)

    def _aggregated(
        self, rows: Rows, predicate: Predicate, answer: Answer | None
    ) -> Iterator[Rows]:
        """The rows behind a range join that returns aggregates: one for each, or none."""
        aggregates = Aggregates(self._plan, len(rows))
        for group, searched in self._searched(rows, answer):
            given = predicate, group.index, searched, group.low, group.high
            aggregates.add(group, *run_of_each(*given))
        payload, matched = Payload.of(aggregates.columns()), aggregates.matched
        hits = int(np.count_nonzero(matched))
        self.metrics.count(self._plan.how, len(rows), hits, hits)
        every = self._plan.how == "left" or hits == len(rows)
        yield rows.with_payload(payload).chosen(None if every else np.flatnonzero(matched))

    def _collected(self, rows: Rows, predicate: Predicate, answer: Answer | None) -> Iterator[Rows]:
        """The rows behind a range join that returns an array of its matches: one for each row."""
        how, matched = self._plan.how, np.zeros(len(rows), np.bool_)
        for group, searched in self._searched(rows, answer):
            given = predicate, group.index, searched, group.low, group.high
            for positions, lists in collected(self._plan, group, matches(*given, MOST_ROWS)):
                where = positions if group.part is None else group.part.take(positions)
                matched[where] = True
                yield rows.chosen(where).with_payload(Payload.of([lists]))
        hits = int(np.count_nonzero(matched))
        self.metrics.count(how, len(rows), hits, hits)
        if how == "left":
            rest = np.flatnonzero(~matched)
            payload = Payload.of([empty_lists(self._plan, len(rest))])
            yield rows.chosen(rest).with_payload(payload)

    def _searched(
        self, rows: Rows, answer: Answer | None
    ) -> Iterator[tuple[Groups, list[pa.Array]]]:
        """The groups, each with the points, or the starts and ends, that search it."""
        probes = [rows.column(column) for column in self._join.probes]
        for group in self._groups(rows, answer):
            searched = probes
            if group.part is not None:
                chosen = pa.array(group.part)
                searched = [probe.take(chosen) for probe in probes]
            yield group, searched

    def _groups(self, rows: Rows, answer: Answer | None) -> Iterator[Groups]:
        """The rows of the keys that the range condition searches."""
        table = self._plan.table
        if answer is not None:
            assert isinstance(table, SourceTable)
            return cached_groups(table, self._answered(answer))
        return stored_groups(self._plan, self._open(rows), *self._key(rows))

    def _open(self, rows: Rows) -> OpenTable:
        clock = self._join.clock
        table = open_table(self._plan, None if clock is None else rows.batch.column(clock))
        self.metrics.version = table.manifest.version
        return table

    def _answered(self, answer: Answer) -> RowRefs[CacheRows]:
        refs, metrics = answer()
        if metrics is not None:
            self.metrics.cache.append(metrics)
        return refs
