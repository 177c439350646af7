"""Files that are made once, and kept from run to run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

_ROW_GROUP = 1 << 18


def kept(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that a function fills, unless it has; a half-made one is made anew.

    Readers of all files of a folder leave out the mark, for its name begins with an underscore.
    """
    mark = folder / "_complete"
    if not mark.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        mark.touch()
    return folder


def parquet(path: Path, rows: DataFrame) -> DataFrame:
    """Rows that Spark writes once, read from a folder of Parquet files."""
    if not (path / "_SUCCESS").exists():
        rows.write.mode("overwrite").parquet(str(path))
    return rows.sparkSession.read.parquet(str(path))


def write_stream(folder: Path, batches: Iterable[pa.Table], files: int) -> None:
    """Micro-batches as so many Parquet files each, whose times are in order.

    Where a micro-batch is one file, it has as many row groups as tasks can share.
    """
    for number, rows in enumerate(batches):
        share = -(-rows.num_rows // files)
        for part in range(files):
            file = folder / f"{number:04}-{part}.parquet"
            size = _ROW_GROUP if files > 1 else -(-share // 8)
            pq.write_table(rows.slice(part * share, share), file, row_group_size=size)
            seconds = 1_700_000_000 + number * files + part
            os.utime(file, (seconds, seconds))
