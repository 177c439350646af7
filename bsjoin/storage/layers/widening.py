"""A table gets more columns: null in all rows that it has.

The files of its segments are copied beside files of the new columns: a segment has all of its
columns in one folder, and a folder that versions share is never written to again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from bsjoin.storage.builds import Build
from bsjoin.storage.layers.entries import Layer
from bsjoin.storage.manifest import Manifest
from bsjoin.storage.mapped import sound
from bsjoin.storage.segment_entries import SegmentInfo, UnindexedInfo, box_file, column_file
from bsjoin.storage.segment_writer import write_batch

_AT_ONCE = 1 << 20

Info = TypeVar("Info", SegmentInfo, UnindexedInfo)


def with_columns(manifest: Manifest, columns: Sequence[pa.Field], spark_schema: str) -> Manifest:
    """The form of a table with more columns, the last ones, for which no files are there yet."""
    schema = pa.schema([*manifest.schema, *columns])
    row = manifest.row
    if row is not None:  # the order of rows is that of a build with these columns
        row = (*row, *(field.name for field in columns if field.name not in row))
    return replace(manifest, schema=schema, spark_schema=spark_schema, row=row)


def widened(build: Build, before: Manifest, form: Manifest) -> Manifest:
    """Write the rows of a version in its ``form`` with more columns, of :func:`with_columns`.

    If this fails the caller abandons the build.

    Complexity: O(bytes of the version).
    """
    added = list(form.schema)[len(before.schema) :]
    names = (f"{build.folder}/w{number:04d}" for number in range(1 << 31))

    def wider(info: Info) -> Info:
        return _wider(build, info, next(names), added)

    return replace(
        form,
        base=build.name,
        segments=tuple(map(wider, before.segments)),
        layers=tuple(
            Layer(None if layer.rows is None else wider(layer.rows), layer.gone)
            for layer in before.layers
        ),
        unindexed=None if before.unindexed is None else tuple(map(wider, before.unindexed)),
    )


def _wider(build: Build, info: Info, name: str, added: Sequence[pa.Field]) -> Info:
    """The files of a segment again, and those of new columns."""
    old = [*info.files]
    new = [name + file.removeprefix(info.name) for file in old]
    if isinstance(info, SegmentInfo) and info.boxes is not None:
        old.append(box_file(info.name))
        new.append(box_file(name))
    written: list[tuple[int, str]] = []
    with build.writing():
        for source, target in zip(old, new, strict=True):
            _copy(build, source, target)
        first = len(info.files) - isinstance(info, SegmentInfo)  # which has an index, too
        for number, field in enumerate(added, first):
            batch = pa.RecordBatch.from_arrays([pa.nulls(info.rows, field.type)], ["column"])
            written.append(write_batch(build.location, column_file(name, number), batch))
    return replace(
        info,
        name=name,
        sizes=(*info.sizes, *(size for size, _ in written)),
        checksums=(*info.checksums, *(checksum for _, checksum in written)),
    )


def _copy(build: Build, source: str, target: str) -> None:
    """Copy a file; its checksum stays, so that damage is found where it is opened."""
    location = build.location
    with (
        sound(location, source),
        location.reading(source) as file,
        location.writing(target) as path,
        path.open("wb") as copy,
    ):
        while piece := file.read(_AT_ONCE):
            copy.write(piece)
