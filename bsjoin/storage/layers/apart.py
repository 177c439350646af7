"""Rows that match nothing, where some of them come or go: their segments are written again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bsjoin.index.arrays import Bools, Int64s
from bsjoin.storage.builds import Build
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.segment_entries import UnindexedInfo, fit_together
from bsjoin.storage.unindexed import unindexed_column, write_unindexed
from bsjoin.values.retype import whole


def with_rows_apart(
    build: Build,
    manifest: Manifest,
    there: Sequence[UnindexedInfo],
    new: pa.Table,
    gone: Int64s,
) -> tuple[UnindexedInfo, ...]:
    """The segments of rows that match nothing, with new rows and without some of those there.

    As many segments as fit become one with what is new; of the others those that lose rows are
    written again, and the rest stays.

    ``new`` has compared keys first; ``gone`` are numbers, ascending, counted over all segments.
    """
    stays = np.ones(sum(info.rows for info in there), np.bool_)
    stays[gone] = False
    parts = np.split(stays, np.cumsum([info.rows for info in there])[:-1])
    found: list[UnindexedInfo] = []
    together: list[tuple[UnindexedInfo, Bools]] = []
    for number, pair in enumerate(zip(there, parts, strict=False)):
        info, own = pair
        if fit_together([*(one for one, _ in together), info]):
            together.append(pair)
        elif own.all():
            found.append(info)
        else:
            found += _written(build, f"u{number + 1:04d}", manifest, [pair], new.slice(0, 0))
    return (*found, *_written(build, "u0000", manifest, together, new))


def _written(
    build: Build,
    name: str,
    manifest: Manifest,
    old: Sequence[tuple[UnindexedInfo, Bools]],
    new: pa.Table,
) -> list[UnindexedInfo]:
    """Write those rows of some segments that stay, and new ones, as one; nothing without rows."""
    columns = []
    stays = pa.array(np.concatenate([np.zeros(0, np.bool_), *(own for _, own in old)]))
    for number, field in enumerate(list(manifest.schema)[manifest.compared :]):
        parts = [unindexed_column(build.location, info, number, field) for info, _ in old]
        kept = pa.concat_arrays([*parts, pa.array([], field.type)]).filter(stays)
        added = whole(new.column(manifest.compared + number)).cast(field.type)
        columns.append(pa.concat_arrays([kept, added]))
    rows = pa.Table.from_arrays(columns, manifest.columns)
    if not len(rows):
        return []
    with build.writing():
        path = f"{build.folder}/{name}"
        return [write_unindexed(build.location, path, np.zeros(len(rows), np.int64), rows)]
