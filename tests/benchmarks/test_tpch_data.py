"""The tables of TPC-H are what TPC-H says, and streams of its customers are drawn by a seed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import tpch
from benchmarks.rivals.job import stream_files
from benchmarks.tpc.job import JOB, customers

SCALE = 0.01

needs_generator = pytest.mark.skipif(
    not (Path(sys.executable).parent / "tpchgen-cli").exists() and not shutil.which("tpchgen-cli"),
    reason="tpchgen-cli is not installed",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@needs_generator
def test_the_tables_are_made_once_and_have_the_rows_keys_and_references_of_the_norm(
    data: Path,
) -> None:
    folder = tpch.tables(data, SCALE)
    rows = tpch.check(folder, SCALE)
    assert set(rows) == set(tpch.KEYS)
    assert (rows["region"], rows["nation"], rows["customer"]) == (5, 25, 1_500)
    assert rows["orders"] == 15_000
    made = (folder / "orders.parquet").stat().st_mtime_ns
    assert tpch.tables(data, SCALE) == folder
    assert (folder / "orders.parquet").stat().st_mtime_ns == made


@needs_generator
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("repeated", "customer: 1 rows repeat a key"),
        ("lost", "customer has 1,499 rows, it must have 1,500 to 1,500"),
        ("stray", "orders: 1 values of o_custkey are not in customer"),
    ],
)
def test_damaged_tables_are_found_out(data: Path, tmp_path: Path, name: str, message: str) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tpch.tables(data, SCALE), folder)
    table, column = ("orders", "o_custkey") if name == "stray" else ("customer", "c_custkey")
    read = pq.read_table(folder / f"{table}.parquet", columns=[column])
    keys = read.column(column).to_numpy().copy()
    keys[0] = keys[1] if name == "repeated" else 10**9 if name == "stray" else keys[0]
    if table == "orders":
        all_columns = pq.read_table(folder / "orders.parquet")
        place = all_columns.schema.get_field_index(column)
        changed = all_columns.set_column(place, column, pa.array(keys))
    else:
        nations = pq.read_table(folder / "customer.parquet", columns=["c_nationkey"])
        changed = pa.table({column: keys, "c_nationkey": nations.column(0)})
    if name == "lost":
        changed = changed.slice(1)
    pq.write_table(changed, folder / f"{table}.parquet")
    with pytest.raises(AssertionError, match=message):
        tpch.check(folder, SCALE)


@needs_generator
def test_a_recall_has_a_click_an_order_and_the_customers_attributes(data: Path) -> None:
    folder = JOB.tables(data, SCALE)
    tables = {step.table: pq.read_table(folder / step.table) for step in JOB.steps}
    for step in JOB.steps:
        assert tables[step.table].column_names == step.columns
    assert [t.num_rows for t in tables.values()] == [15_000, 2_000, 1_500]
    orders = pq.read_table(tpch.tables(data, SCALE) / "orders.parquet", columns=["o_custkey"])
    clicks = tables["clicks"].column("customer").to_numpy()
    assert sorted(clicks) == sorted(orders.column("o_custkey").to_numpy())
    assert set(tables["clicks"].column("product").to_pylist()) <= set(range(1, 2_001))


def test_without_the_generator_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="pip install tpchgen-cli"):
        tpch.tables(tmp_path, SCALE)


def test_a_generator_that_fails_is_told_of_and_its_tables_are_not_believed(tmp_path: Path) -> None:
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\necho no such command >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit, match="ended with 3: no such command"):
        tpch.tables(tmp_path, SCALE, program=program)
    assert not list(tmp_path.glob("tpch-*/complete"))


@pytest.mark.parametrize("scale", [0, -1, 0.001, float("nan")])
def test_a_scale_factor_without_rows_is_refused(tmp_path: Path, scale: float) -> None:
    with pytest.raises(ValueError, match=r"it must be 0\.01 or more"):
        tpch.tables(tmp_path, scale)


@pytest.mark.parametrize("kind", tpch.STREAMS)
def test_customers_are_drawn_by_a_seed_and_all_exist(kind: str) -> None:
    first = tpch.customer_ids(kind, 1_000, 20_000, 4, seed=7)
    assert np.array_equal(first, tpch.customer_ids(kind, 1_000, 20_000, 4, seed=7))
    assert not np.array_equal(first, tpch.customer_ids(kind, 1_000, 20_000, 5, seed=7))
    assert not np.array_equal(first, tpch.customer_ids(kind, 1_000, 20_000, 4, seed=8))
    assert (first.min(), first.max()) == (1, 1_000)


def test_zipf_streams_have_a_front_that_stays_or_shifts() -> None:
    def front(kind: str, cycle: int) -> int:
        ids = tpch.customer_ids(kind, 1_000, 20_000, cycle, every=3)
        counts = np.bincount(ids)
        assert counts.max() > 1_500
        return int(counts.argmax())

    assert front("zipf", 0) == front("zipf", 3)
    assert front("shifting", 0) == front("shifting", 2) != front("shifting", 3)
    uniform = np.bincount(tpch.customer_ids("uniform", 1_000, 20_000, 0))
    assert uniform.max() < 60


def test_an_unknown_kind_of_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="kind='pareto': give one of uniform, zipf, shifting"):
        tpch.customer_ids("pareto", 10, 10, 0)


def test_a_stream_lies_in_files_whose_times_are_in_order(tmp_path: Path) -> None:
    folder = stream_files(JOB, tmp_path, SCALE, "zipf", [100, 100, 50], 1)
    files = sorted(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert [file.name[:6] for file in files] == ["0000-0", "0000-1", "0001-0", "0001-1", "0002-0",
                                                "0002-1"]  # fmt: skip
    read = pa.concat_tables([pq.read_table(file) for file in files])
    assert read.num_rows == 250
    assert len(set(read.column("event").to_pylist())) == 250
    assert read.column("customer").to_numpy().max() <= customers(SCALE)
    assert stream_files(JOB, tmp_path, SCALE, "zipf", [100, 100, 50], 1) == folder
