"""Small stored tables for the tests of the pure core; of Spark, only its names of types."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from bsjoin.storage import (
    KeyColumn,
    Manifest,
    SegmentForm,
    StorageLocation,
    versions,
    write_segment,
    write_unindexed,
)
from bsjoin.storage.manifest import compared_fields
from bsjoin.storage.open_table import OpenTable


def store(
    location: StorageLocation,
    hashes: Sequence[int],
    rows: pa.Table,
    *,
    compared: int = 0,
    cuts: Sequence[int] = (),
    unique: bool = False,
    unindexed: Sequence[pa.Table] | None = None,
) -> Manifest:
    """Write sorted rows as segments and make their manifest, not yet published.

    Args:
        home: where to.
        hashes: the hash of each row's key, ascending.
        rows: the compared keys, which are strings, then the other columns.
        compared: how many columns are compared keys.
        cuts: rows before which a new segment begins.
        unique: what the manifest says of the keys.
        unindexed: rows that match nothing, of each segment without an index: the columns that can
            be selected. None (default): such rows were left out.
    """
    folder = f"data/{uuid.uuid4().hex}"
    bounds = [0, *cuts, len(hashes)]
    segments = [
        write_segment(
            location,
            f"{folder}/{number:04d}-000",
            np.array(hashes[start:end], np.int64),
            rows.slice(start, end - start),
            SegmentForm(compared),
        )
        for number, (start, end) in enumerate(itertools.pairwise(bounds))
        if end > start
    ]
    columns = pa.schema(list(rows.schema)[compared:])
    keys = [KeyColumn(f"key {i}", "string") for i in range(compared)]
    return Manifest(
        version=0,
        activates_at_us=0,
        created_at_us=0,
        build_s=0.25,
        keys=tuple(keys) or (KeyColumn("k", "long"),),
        compared=compared,
        unique=unique,
        schema=pa.schema([*compared_fields(keys), *columns]),
        spark_schema=from_arrow_schema(columns).json(),
        segments=tuple(segments),
        unindexed=None
        if unindexed is None
        else tuple(
            write_unindexed(location, f"{folder}/u{number:04d}", np.arange(len(some)), some)
            for number, some in enumerate(unindexed)
        ),
    )


def numbered(location: StorageLocation, value: int = 0, rows: int = 3) -> Manifest:
    """A table with keys 0, 1, … whose column ``v`` says ``value`` everywhere."""
    return store(location, range(rows), pa.table({"v": pa.array([value] * rows, pa.int64())}))


def put(location: StorageLocation, draft: Manifest, version: int, activates_at_us: int) -> Manifest:
    """Publish a version under a given number and time."""
    manifest = draft.published_as(version, activates_at_us, activates_at_us)
    assert location.create(f"versions/{version:08d}.json", manifest.to_bytes())
    return manifest


def found_rows(path: Path | str, *names: str) -> list[tuple[Any, ...]]:
    """Columns of the rows that a look-up can find in the newest version; without Spark."""
    location = StorageLocation.of(path)
    manifest = versions.latest(location)
    table, found = OpenTable(location, manifest), list[tuple[Any, ...]]()
    for number, segment in enumerate(table.segments):
        shown = np.flatnonzero(table.visible(number))
        places = [manifest.compared + manifest.columns.index(name) for name in names]
        columns = [segment.take(place, shown).to_pylist() for place in places]
        found += zip(*columns, strict=True)
    return found
