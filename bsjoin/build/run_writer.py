"""The tasks of a build: rows become sorted runs, those that match nothing apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from bsjoin.build.merging import info_row
from bsjoin.storage import RUN, UNINDEXED_RUN, Build, Latest, write_run
from bsjoin.values.retype import retyped

_HASH = "h"


@dataclass(frozen=True)
class Split:
    """The difference between rows that match nothing and the others.

    Args:
        needed: the columns, by their numbers, of which one is null in rows that match nothing.
        stored: the numbers of the columns that can be selected.
    """

    needed: tuple[int, ...]
    stored: range

    @classmethod
    def of(cls, columns: Sequence[str], needed: Sequence[str], before: int) -> Split:
        """Of names; so many columns stand ``before`` those, behind the hashes."""
        stored = range(1 + before, 1 + before + len(columns))
        numbers = dict(zip(columns, stored, strict=True))
        return cls(tuple(numbers[name] for name in needed), stored)

    def parts(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that may match; of the others the hash and what can be selected."""
        others = batch.select([0, *self.stored])
        masks = [batch.column(n).is_valid() for n in self.needed if batch.column(n).null_count]
        if not masks:
            return batch, others.slice(0, 0)
        valid = masks[0]
        for mask in masks[1:]:
            valid = pc.and_(valid, mask)
        return batch.filter(valid), others.filter(pc.invert(valid))


def run_writer(
    begun: Build, schema: pa.Schema, limit: int, split: Split | None, latest: Latest | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a build task runs over its rows: a run for every ``limit`` bytes.

    The schema is of the columns after the hashes; ``split`` says how rows that match nothing
    differ.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = f"{context.partitionId():06d}-{context.taskAttemptId()}" if context else "0-0"
        for number, (rows, ending) in enumerate(_pieces(batches, limit, split)):
            hashes, *columns = rows.columns
            fields = list(schema)
            if split is not None and ending == UNINDEXED_RUN:
                fields = [fields[place - 1] for place in split.stored]
            typed = [
                pa.chunked_array([retyped(chunk, field.type) for chunk in column.chunks])
                for column, field in zip(columns, fields, strict=True)
            ]
            run = pa.Table.from_arrays([hashes, *typed], [_HASH, *(field.name for field in fields)])
            if latest is not None and ending == RUN:
                kept = latest.positions(hashes.to_numpy(), run.remove_column(0))
                run = run if kept is None else run.take(pa.array(kept))
            # The rows that were read are for whoever looks how far the build is (progress.py).
            name = f"{begun.folder}/{task}-{number:06d}-{len(rows)}{ending}"
            with begun.writing():
                info = write_run(begun.location, name, run)
            yield info_row(info)

    return write


def _pieces(
    batches: Iterator[pa.RecordBatch], limit: int, split: Split | None
) -> Iterator[tuple[pa.Table, str]]:
    """Batches together, some ``limit`` bytes of them, and what the name of their run ends with."""
    held: dict[str, list[pa.RecordBatch]] = {RUN: [], UNINDEXED_RUN: []}
    sizes = dict.fromkeys(held, 0)
    for batch in batches:
        parts = (batch,) if split is None else split.parts(batch)
        for ending, part in zip(held, parts, strict=False):
            if part.num_rows:
                held[ending].append(part)
                sizes[ending] += part.nbytes
        if sum(sizes.values()) >= limit:
            larger = max(sizes, key=sizes.__getitem__)
            yield pa.Table.from_batches(held[larger]), larger
            held[larger], sizes[larger] = [], 0
    for ending, left in held.items():
        if left:
            yield pa.Table.from_batches(left), ending
