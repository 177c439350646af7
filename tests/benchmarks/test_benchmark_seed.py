"""The seed of the command line reaches whatever is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import database
from benchmarks.data.ranges import Case, cases, rows_of, stored
from benchmarks.rivals.job import Job, stream_files
from benchmarks.tpc.job import JOB as TPC
from benchmarks.traffic.job import JOB as TRAFFIC


def case(seed: int) -> Case:
    """A small case with a seed."""
    return Case(name="small", kind="within", rows=50, probes=20, keys=3, width_s=60, seed=seed)


def range_rows(folder: Path, seed: int) -> list[pa.Table]:
    return list(rows_of(case(seed)))


def range_files(folder: Path, seed: int) -> list[pa.Table]:
    return [pq.read_table(file) for file in stored(case(seed), folder)]


def keys(folder: Path, seed: int) -> list[pa.Table]:
    files = database.stream_files(folder, 1.04, 1_000, 100, 2, seed)
    return [pq.read_table(file) for file in sorted(files.glob("*.parquet"))]


def events(job: Job, size: float) -> Callable[[Path, int], list[pa.Table]]:
    def drawn(folder: Path, seed: int) -> list[pa.Table]:
        kinds = "zipf" if job is TPC else "centre"
        files = stream_files(job, folder, size, kinds, [60, 40], seed)
        return [pq.read_table(file) for file in sorted(files.glob("*.parquet"))]

    return drawn


@pytest.mark.parametrize(
    "drawn",
    [range_rows, range_files, keys, events(TPC, 0.01), events(TRAFFIC, 4)],
    ids=["range rows", "range files", "keys of a database", "customers", "road events"],
)
def test_the_same_seed_draws_the_same_and_another_seed_draws_others(
    tmp_path: Path, drawn: Callable[[Path, int], list[pa.Table]]
) -> None:
    first = drawn(tmp_path / "one", 1)
    assert drawn(tmp_path / "two", 1) == first
    assert drawn(tmp_path / "one", 2) != first  # in the folder that has those of the first


def test_every_case_of_a_size_has_the_seed() -> None:
    assert {one.seed for one in cases(100, 10, 5, seed=7)} == {7}


def test_consecutive_micro_batches_of_a_stream_differ(tmp_path: Path) -> None:
    first, second = keys(tmp_path, 1)
    assert not np.array_equal(first.column("k").to_numpy(), second.column("k").to_numpy())
