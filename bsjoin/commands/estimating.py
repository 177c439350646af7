"""What a table will need on disk, in memory and while it is built, by tables of samples."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bsjoin._show import columns, in_bytes
from bsjoin.storage import Manifest, StorageLocation, versions
from bsjoin.storage.open_table import OpenTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bsjoin.table import BatchTable

_SAMPLES = (50_000, 200_000)
"""Rows of the samples that are built; of the first one twice, which warms Spark up."""

_BATCH = 10_000
"""Rows of which a Python worker gets the columns at once."""

_HASH = 8
"""Bytes of a row's hash, and of a point that is sorted by, in the runs of a build."""

_RUN_BYTES, _SEGMENT_BYTES = 64 << 20, 1 << 30
"""What a task of a build sorts at once, and how large a segment grows."""

_SORTED = 3.0
"""The memory of a task that sorts, by the bytes of its rows: as they came, together, in order."""

_INDEXED = 48.0
"""Bytes of memory for each row of a segment while its index is made."""

_COLUMNS = 2.0
"""How many of its columns a segment holds while it is written."""

_OPENS_S = 60.0
"""What a process has for opening a small table."""

_PROBE = (
    "import sys, pyspark.worker; from bsjoin.commands.estimating import own_bytes; "
    "print(own_bytes(sys.argv[1]))"
)


@dataclass(frozen=True)
class Estimate:
    """What a table will need. Of memory that processes share, each machine needs it once.

    Args:
        rows: the rows of the source.
        bytes: on disk: of the table's files.
        mapped_bytes: of these what look-ups map, shared by the processes of a machine; the kernel
            keeps the pages that they touch. Rows that match nothing are not among it.
        index_bytes: of these what look-ups touch whichever columns they ask for.
        worker_bytes: what each Python worker holds for itself while it has the table open, its
            libraries included; None where the operating system does not tell.
        build_bytes: on disk, while a build runs: its sorted runs and the table's files. A version
            that is there before is not among it.
        build_worker_bytes: what each worker that builds holds for itself at its peak, beside its
            libraries.
        build_workers: how many build at once here.
        build_s: how long a build takes in a session that has run one before, in seconds; to read
            the source is not included.
        sampled: the rows of the largest sample.
    """

    rows: int
    bytes: int
    mapped_bytes: int
    index_bytes: int
    worker_bytes: int | None
    build_bytes: int
    build_worker_bytes: int
    build_workers: int
    build_s: float
    sampled: int

    @property
    def text(self) -> str:
        """For people."""
        worker = "not known here" if self.worker_bytes is None else in_bytes(self.worker_bytes)
        lines = [
            ("rows", f"{self.rows:,}; tables of up to {self.sampled:,} of them were built"),
            ("on disk", in_bytes(self.bytes)),
            ("mapped by look-ups", f"up to {in_bytes(self.mapped_bytes)} on each machine"),
            ("of these whatever columns", in_bytes(self.index_bytes)),
            ("held by each worker", worker),
            ("on disk during a build", f"{in_bytes(self.build_bytes)}, beside a version before it"),
            (
                "held by each that builds",
                f"{in_bytes(self.build_worker_bytes)} more; {self.build_workers} build at once",
            ),
            ("time to build", f"{self.build_s:.0f} s here, beside reading the source"),
        ]
        return columns(lines)


@dataclass(frozen=True)
class _Sample:
    """A table of some rows."""

    manifest: Manifest
    build_s: float

    @property
    def rows(self) -> int:
        """Those that are stored, with and without an index."""
        stats = self.manifest.stats
        return stats.rows + (stats.unindexed or 0)

    @property
    def mapped(self) -> int:
        return sum(segment.bytes for segment in self.manifest.indexed)

    @property
    def index(self) -> int:
        """The index, and the keys that are compared."""
        first = 1 + self.manifest.compared
        stored = sum(sum(segment.sizes[first:]) for segment in self.manifest.indexed)
        return self.mapped - stored

    @property
    def runs(self) -> int:
        """What the sorted runs take: the columns, and what rows are sorted by."""
        total, sizes = self.manifest.stats.bytes, [s.sizes[0] for s in self.manifest.indexed]
        boxes = [s.boxes.size for s in self.manifest.indexed if s.boxes is not None]
        sides = (
            1
            + len(self.manifest.range_names)
            + sum(len(box.columns.names) for box in self.manifest.boxes)
        )
        return total - sum(sizes) - sum(boxes) + self.rows * _HASH * sides

    @property
    def widest(self) -> int:
        """The largest column."""
        sizes = zip(*(segment.sizes[1:] for segment in self.manifest.indexed), strict=True)
        return max(map(sum, sizes), default=0)


def estimated(df: DataFrame, build: Callable[[DataFrame], BatchTable]) -> Estimate:
    """Build tables of two samples, and go on along the line through their sizes and times."""
    from bsjoin.spark.session import default_parallelism

    rows, tasks = df.count(), default_parallelism(df.sparkSession)
    built: list[tuple[int, _Sample]] = []
    worker_bytes = None
    for size in _SAMPLES:
        sample = df.limit(size).repartition(tasks).cache()
        try:
            count = sample.count()
            if not built:
                build(sample)
            began = time.perf_counter()
            table = build(sample)
            took_s = time.perf_counter() - began
        finally:
            sample.unpersist()
        location = StorageLocation.of(table.path)
        built.append((count, _Sample(versions.latest(location), took_s)))
        worker_bytes = _of_a_worker(location)
        if size >= rows:
            break

    def along(value: Callable[[_Sample], float]) -> int:
        return round(_along(rows, [(count, value(one)) for count, one in built]))

    runs, in_all = along(lambda one: one.runs), along(lambda one: one.manifest.stats.bytes)
    share = min(1.0, _SEGMENT_BYTES / max(1, runs))  # of the rows, in one segment
    sorts = _SORTED * min(_RUN_BYTES, runs / tasks)
    merges = share * max(_INDEXED * rows, _COLUMNS * along(lambda one: one.widest))
    return Estimate(
        rows=rows,
        bytes=in_all,
        mapped_bytes=along(lambda one: one.mapped),
        index_bytes=along(lambda one: one.index),
        worker_bytes=worker_bytes,
        build_bytes=in_all + runs,
        build_worker_bytes=round(max(sorts, merges)),
        build_workers=tasks,
        build_s=round(_along(rows, [(count, one.build_s) for count, one in built]), 1),
        sampled=built[-1][0],
    )


def _along(rows: int, points: Sequence[tuple[int, float]]) -> float:
    """The value at ``rows`` on the line through the last two points, never below the last."""
    (last_rows, last), *before = points[::-1]
    if not before or last_rows == before[0][0]:
        return last * max(1.0, rows / max(1, last_rows))
    slope = (last - before[0][1]) / (last_rows - before[0][0])
    return last + max(0.0, slope) * max(0, rows - last_rows)


def _of_a_worker(location: StorageLocation) -> int | None:
    """What a fresh process holds that has a table open; None where that is not told."""
    command = [sys.executable, "-c", _PROBE, location.url]
    with contextlib.suppress(ValueError, OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_OPENS_S
        )
        return int(done.stdout) or None
    return None


def own_bytes(url: str) -> int:
    """Open a table, read a batch of its rows, and say how many bytes this process holds for itself.

    0 where the operating system does not tell.
    """
    location = StorageLocation(url)
    manifest = versions.latest(location)
    table = OpenTable(location, manifest)
    kept = []
    for segment in table.segments:
        last = segment.info.rows - 1
        places = np.linspace(0, last, min(_BATCH, last + 1))
        rows = pa.array(places.astype(np.int64))
        kept += [segment.column(number).take(rows) for number in range(len(manifest.schema))]
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            found = [line.split() for line in file]
    except OSError:
        return 0
    return sum(int(line[1]) << 10 for line in found if line[0] == "Private_Dirty:")
