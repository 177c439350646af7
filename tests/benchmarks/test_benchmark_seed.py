"""The seed of the command line reaches whatever is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import tables
from benchmarks.data.ranges import Case, stored
from benchmarks.jobs.jobs import JOBS


def range_files(folder: Path, seed: int) -> list[Path]:
    case = Case(name="small", kind="within", rows=50, probes=20, keys=3, width_s=60, seed=seed)
    return list(stored(case, folder))


def key_files(folder: Path, seed: int) -> list[Path]:
    return sorted(tables.stream_files(folder, 1.04, 1_000, 100, 2, seed).glob("*.parquet"))


def event_files(folder: Path, seed: int) -> list[Path]:
    files = JOBS["traffic"].stream_files(folder, 4, "centre", [60, 40], seed)
    return sorted(files.glob("*.parquet"))


@pytest.mark.parametrize("files", [range_files, key_files, event_files])
def test_the_same_seed_draws_the_same_and_another_seed_draws_others(
    tmp_path: Path, files: Callable[[Path, int], list[Path]]
) -> None:
    def drawn(folder: str, seed: int) -> list[pa.Table]:
        return [pq.read_table(file) for file in files(tmp_path / folder, seed)]

    first = drawn("one", 1)
    assert drawn("two", 1) == first
    assert drawn("one", 2) != first  # in the folder that has those of the first
    assert first[0] != first[1]
