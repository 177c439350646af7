"""Writing a segment of a layer, or of a base that layers go into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from bsjoin.index.arrays import Int64s
from bsjoin.storage.box_file import BoxSide
from bsjoin.storage.builds import Build
from bsjoin.storage.manifest import Manifest, RangeColumns, has_integer_key
from bsjoin.storage.segment_entries import SegmentInfo
from bsjoin.storage.segment_writer import SegmentForm, write_segment
from bsjoin.storage.spark_schema import arrow_type
from bsjoin.storage.ties import ties_of


class LazyRows:
    """Columns that are made when they are read, each by a function."""

    def __init__(self, columns: list[Callable[[], pa.ChunkedArray]]):
        self._columns = columns

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def column(self, number: int) -> pa.ChunkedArray:
        """A column by its number."""
        return self._columns[number]()


def ranged_columns(
    manifest: Manifest, ranged: RangeColumns | None, column: Callable[[int], pa.ChunkedArray]
) -> Iterator[Callable[[], pa.ChunkedArray]]:
    """The columns of one range of a table as they are searched, which are among those stored."""
    if ranged is None:
        return
    for name, dtype in zip(ranged.names, ranged.types, strict=True):
        number = manifest.compared + manifest.columns.index(name)
        wanted = arrow_type(dtype)

        def searched(number: int = number, wanted: pa.DataType = wanted) -> pa.ChunkedArray:
            return column(number).cast(wanted)

        yield searched


def write_rows(
    build: Build,
    name: str,
    manifest: Manifest,
    hashes: Int64s,
    column: Callable[[int], pa.ChunkedArray],
    boxes: Sequence[BoxSide] = (),
) -> SegmentInfo:
    """Write rows, at least one and in any order, as the segments of a table are.

    ``column`` returns a stored column by its number. Without ``boxes`` the rows are searched by the
    first range only.
    """
    ranged, compared = manifest.ranged, manifest.compared
    stored = [lambda number=number: column(number) for number in range(len(manifest.schema))]
    searched = list(ranged_columns(manifest, ranged, column))
    others = [
        one
        for box in (manifest.boxes if boxes else ())
        for one in ranged_columns(manifest, box.columns, column)
    ]
    typed = [(field.name, field.type) for field in manifest.schema]
    typed[compared:compared] = [("", pa.null())] * (len(searched) + len(others))
    with build.writing():
        return write_segment(
            build.location,
            f"{build.folder}/{name}",
            hashes,
            LazyRows([*stored[:compared], *searched, *others, *stored[compared:]]),
            SegmentForm(
                compared,
                len(searched),
                None if ranged is None else ranged.closed,
                () if ranged is None else ties_of(ranged.order_by, manifest.row or (), typed),
                ordered=ranged is not None and ranged.ordered,
                integers=has_integer_key(manifest.keys, ranged),
                boxes=tuple(boxes),
            ),
        )


def write_gone(build: Build, name: str, hashes: Int64s, keys: list[pa.Array]) -> SegmentInfo:
    """Write keys, at least one and each once, that have no rows any more."""
    form = SegmentForm(len(keys))
    rows = pa.Table.from_arrays(keys, [f"k{number}" for number in range(len(keys))])
    with build.writing():
        return write_segment(build.location, f"{build.folder}/{name}", hashes, rows, form)
