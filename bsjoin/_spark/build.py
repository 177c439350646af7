"""The build job: a DataFrame becomes sorted, indexed segments, in parallel, without a collect.

Spark hashes the keys, sends each range of hashes to one task and sorts it there (on disk where
it must); a task receives its rows in order and writes a piece, indexed, for every 64 MB of them;
for range joins it sorts the rows of each key by their point. Neighbouring pieces are then merged
into segments of up to ``segment_bytes``, a column at a time; where the key is an integer and the
keys are dense, sorted by the key. So no task holds more than a piece or two columns, and no row
visits the driver unless all fit into a piece.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin._retype import retyped
from bsjoin._spark import sql
from bsjoin._spark.arrow import arrow_fields
from bsjoin._spark.columns import quoted
from bsjoin._spark.keys import hash_is_exact, hashable, table_key, type_name
from bsjoin._spark.merging import PIECE_BYTES, SUMMARY, SUMMARY_ARROW, merged, segments_of
from bsjoin._spark.range_columns import range_side
from bsjoin._spark.session import default_parallelism
from bsjoin._spark.workers import check_workers
from bsjoin.conditions import Condition
from bsjoin.errors import DuplicateKeyError, StoreAccessError, StoreError, StoreFullError
from bsjoin.store import (
    KeyColumn,
    Manifest,
    RangeColumns,
    SegmentInfo,
    StorageLocation,
    write_segment,
)

__all__ = ["Layout", "build"]

_MAX_TASKS = 64
_HASH, _COMPARED, _TIE = "h", "k{}", "t"


@dataclass(frozen=True)
class Layout:
    """What a table is to hold.

    Args:
        on: the key columns.
        columns: the columns to store, in order.
        unique: whether a duplicate key is an error.
        segment_bytes: how large a segment may grow.
        ranged: the range columns of a table for range joins.
        condition: the condition that they are for.
    """

    on: tuple[str, ...]
    columns: tuple[str, ...]
    unique: bool
    segment_bytes: int
    ranged: RangeColumns | None = None
    condition: Condition | None = None


def build(df: DataFrame, location: StorageLocation, layout: Layout) -> Manifest:
    """Write the segments of a new version; nothing is visible until it is published.

    Args:
        df: the table.
        location: where it is to live.
        layout: which columns, which limits.

    Returns:
        The manifest, its version number still open.

    Raises:
        DuplicateKeyError: a key occurs twice, and the layout says unique.
        WorkerEnvironmentError: the workers cannot run it.
        StoreFullError, StoreAccessError: the location cannot be written to. What was written of
            the build is removed again.
    """
    check_workers(df.sparkSession)
    started = time.monotonic()
    location.make()
    folder = f"data/{uuid.uuid4().hex}"
    fields = {field.name: field for field in df.schema.fields}
    key_types = [fields[name].dataType for name in layout.on]
    key = table_key([*map(sql.column, layout.on)], key_types)
    compared = [_COMPARED.format(i) for i in range(len(key.compared))]
    stored = T.StructType([fields[name] for name in layout.columns])
    # Names inside the job are positions: the table's own names may repeat ours.
    names = [f"c{i}" for i in range(len(layout.columns))]
    ranged = range_side(layout.ranged)
    found = {
        _HASH: key.hash,
        **dict(zip(compared, key.compared, strict=True)),
        **ranged,
        **{name: sql.column(c) for c, name in zip(layout.columns, names, strict=True)},
    }
    keyed = df.selectExpr(*(f"{value} AS {name}" for name, value in found.items()))
    keyed = keyed.where(f"{_HASH} IS NOT NULL")
    if ranged:
        # A row without a point, or without a start, matches nothing. Rows with the same one
        # are always in the same order.
        keyed = keyed.where(f"{next(iter(ranged))} IS NOT NULL")
        keyed = keyed.selectExpr("*", f"xxhash64({', '.join(hashable(keyed.schema))}) AS {_TIE}")
    tasks = min(_MAX_TASKS, default_parallelism(df.sparkSession))
    compared_types = T.StructType([keyed.schema[name] for name in compared])
    range_types = T.StructType([keyed.schema[name] for name in ranged])
    compared_fields = [field.with_nullable(False) for field in arrow_fields(compared_types)]
    schema = pa.schema([*compared_fields, *arrow_fields(stored)])
    written = pa.schema([*compared_fields, *arrow_fields(range_types), *arrow_fields(stored)])
    writer = _writer(location, folder, written, len(compared), layout)
    try:
        with _worker_errors(location):
            summaries = (
                keyed.repartitionById(tasks, _task_of(tasks))
                .sortWithinPartitions(_HASH, *compared)
                .mapInArrow(writer, SUMMARY)
                .toArrow()
                .to_pylist()
            )
            pieces = segments_of(summaries)
            _check_unique(df, layout, pieces)
            integers = key.integer is not None and not ranged
            segments = merged(
                df.sparkSession, location, pieces, folder, layout.segment_bytes, integers
            )
        manifest = Manifest(
            version=0,
            activates_at_us=0,
            created_at_us=0,
            build_s=time.monotonic() - started,
            keys=tuple(KeyColumn(name, type_name(fields[name].dataType)) for name in layout.on),
            compared=len(compared),
            unique=layout.unique,
            schema=schema,
            spark_schema=stored.json(),
            segments=segments,
            ranged=layout.ranged,
            condition=layout.condition,
        )
        _check_visible(location, manifest)
    except BaseException:
        with contextlib.suppress(OSError, StoreError):
            location.remove(folder)
        raise
    assert hash_is_exact(key_types) == (not compared)
    return manifest


def _task_of(tasks: int) -> Column:
    """Equal, contiguous ranges of hashes: the task number grows with the hash."""
    share = f"(cast({_HASH} AS double) / {2.0**64}D + 0.5D) * {tasks}"
    return F.expr(f"least(cast(floor({share}) AS int), {tasks - 1})")


def _writer(
    location: StorageLocation, folder: str, schema: pa.Schema, compared: int, layout: Layout
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a build task runs over its sorted rows."""
    limit = min(PIECE_BYTES, layout.segment_bytes)
    ranged = layout.ranged
    many, closed = (0, None) if ranged is None else (len(ranged.names), ranged.closed)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = f"{context.partitionId():04d}-{context.taskAttemptId()}" if context else "0"
        for number, (hashes, rows, ties) in enumerate(_pieces(batches, schema, limit)):
            name = f"{folder}/{task}-{number:03d}"
            info = write_segment(location, name, hashes, rows, compared, many, closed, ties)
            yield pa.RecordBatch.from_pylist([info.to_json()], SUMMARY_ARROW)

    return write


def _pieces(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, limit: int
) -> Iterator[tuple[np.ndarray, pa.Table, np.ndarray | None]]:
    """Cut sorted rows into pieces of about ``limit`` bytes, never inside one hash."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if size >= limit:
            hashes = _int64s(batch.column(0))
            # Rows of the last hash that is held may go on in this batch.
            same = int(np.searchsorted(hashes, _int64s(held[-1].column(0))[-1], side="right"))
            if same < len(hashes):
                held.append(batch.slice(0, same))
                yield _piece(held, schema)
                held, size, batch = [], 0, batch.slice(same)
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _piece(held, schema)


def _int64s(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(), np.int64)


def _piece(
    held: list[pa.RecordBatch], schema: pa.Schema
) -> tuple[np.ndarray, pa.Table, np.ndarray | None]:
    """Hashes, rows and ties of some batches."""
    table = pa.Table.from_batches(held)
    hashes, *columns = (pa.concat_arrays(column.chunks) for column in table.columns)
    ties = _int64s(columns.pop()) if len(columns) > len(schema) else None
    if not columns:
        return _int64s(hashes), table.select([]), ties
    arrays = [retyped(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return _int64s(hashes), pa.Table.from_arrays(arrays, schema=schema), ties


def _check_unique(df: DataFrame, layout: Layout, pieces: Sequence[SegmentInfo]) -> None:
    if not layout.unique or all(piece.longest_run == 1 for piece in pieces):
        return
    names = [_COMPARED.format(i) for i in range(len(layout.on))]
    keys = df.select(*(df[quoted(c)].alias(n) for c, n in zip(layout.on, names, strict=True)))
    for name in names:  # `dropna` would drop NaN, too
        keys = keys.where(F.col(name).isNotNull())
    counts = keys.groupBy(*names).agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    found = counts.limit(1).toArrow().to_pylist()
    *key, count = found[0].values() if found else ("?", "several")
    example = ", ".join(f"{name}={value!r}" for name, value in zip(layout.on, key, strict=False))
    raise DuplicateKeyError(
        f"the table is declared unique on {list(layout.on)}, but this key occurs in {count} rows: "
        f"{example}. Remove the duplicates, or leave unique out"
    )


def _check_visible(location: StorageLocation, manifest: Manifest) -> None:
    for name, size, _ in manifest.files:
        if location.size(name) != size:
            raise StoreError(
                f"the workers wrote {name!r} to {str(location)!r}, but it is not visible from "
                "here: give store=/path= a folder that the driver and all workers share"
            )


@contextlib.contextmanager
def _worker_errors(location: StorageLocation) -> Iterator[None]:
    """Give the store errors of a worker back their class."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        for kind in (StoreFullError, StoreAccessError, StoreError):
            if found := re.search(rf"\b{kind.__name__}: (.*)", text):
                raise kind(found[1]) from error
        if "No space left on device" in text:
            raise StoreFullError(
                f"no space left on a device while the table in {str(location)!r} was built (Spark "
                "may also need room for its shuffle). Nothing half-built is visible"
            ) from error
        raise
