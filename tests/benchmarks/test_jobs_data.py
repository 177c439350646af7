"""The jobs' data: tables whose keys are unique and fit together, streams drawn by a seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data import tpch
from benchmarks.data.road_network import KINDS, SLICES, STREAMS, WEEKDAYS, Network
from benchmarks.jobs.jobs import JOBS

SCALE = 0.01
PRIMARY = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
FOREIGN = (
    ("nation", ["n_regionkey"], "region"),
    ("supplier", ["s_nationkey"], "nation"),
    ("customer", ["c_nationkey"], "nation"),
    ("partsupp", ["ps_partkey"], "part"),
    ("partsupp", ["ps_suppkey"], "supplier"),
    ("orders", ["o_custkey"], "customer"),
    ("lineitem", ["l_orderkey"], "orders"),
    ("lineitem", ["l_partkey", "l_suppkey"], "partsupp"),
)


def distinct(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.group_by(keys).aggregate([])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


def test_tpch_is_made_once_and_has_the_rows_keys_and_references_of_the_norm(data: Path) -> None:
    folder = tpch.tables(data, SCALE)
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in PRIMARY}
    rows = {name: table.num_rows for name, table in tables.items()}
    assert 15_000 <= rows.pop("lineitem") <= 7 * 15_000
    assert rows == {"region": 5, "nation": 25, "supplier": 100, "customer": 1_500, "part": 2_000,
                    "partsupp": 8_000, "orders": 15_000}  # fmt: skip
    for name, key in PRIMARY.items():
        assert distinct(tables[name], key).num_rows == tables[name].num_rows
    for name, key, other in FOREIGN:
        known = tables[other].select(PRIMARY[other][: len(key)]).rename_columns(key)
        lost = tables[name].select(key).join(known, key, join_type="left anti")
        if len(PRIMARY[other]) == len(key):
            assert lost.num_rows == 0, (name, key)
    made = (folder / "orders.parquet").stat().st_mtime_ns
    assert tpch.tables(data, SCALE) == folder
    assert (folder / "orders.parquet").stat().st_mtime_ns == made


def test_a_recall_has_a_click_an_order_and_the_customers_attributes(data: Path) -> None:
    job = JOBS["tpc"]
    folder = job.tables(data, SCALE)
    tables = {step.table: pq.read_table(folder / step.table) for step in job.steps}
    for step in job.steps:
        assert tables[step.table].column_names == step.columns
    assert [t.num_rows for t in tables.values()] == [15_000, 2_000, 1_500]
    orders = pq.read_table(tpch.tables(data, SCALE) / "orders.parquet", columns=["o_custkey"])
    clicks = tables["clicks"]
    assert sorted(clicks["customer"].to_pylist()) == sorted(orders["o_custkey"].to_pylist())
    assert set(clicks["product"].to_pylist()) <= set(range(1, 2_001))


def test_a_generator_that_is_missing_or_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\necho no such command >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit, match="ended with 3: no such command"):
        tpch.tables(tmp_path, SCALE, program=program)
    assert not list(tmp_path.glob("tpch-*/complete"))
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "empty" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SystemExit, match="pip install tpchgen-cli"):
        tpch.tables(tmp_path, SCALE)


def test_zipf_streams_have_hot_customers_that_stay_or_change() -> None:
    def hottest(kind: str, cycle: int) -> int:
        counts = np.bincount(tpch.customer_ids(kind, 1_000, 20_000, cycle, every=3))
        assert counts.max() > 1_500
        return int(counts.argmax())

    assert hottest("zipf", 0) == hottest("zipf", 3)
    assert hottest("shifting", 0) == hottest("shifting", 2) != hottest("shifting", 3)
    assert np.bincount(tpch.customer_ids("uniform", 1_000, 20_000, 0)).max() < 60
    with pytest.raises(ValueError, match="kind='pareto': give one of uniform, zipf, shifting"):
        tpch.customer_ids("pareto", 10, 10, 0)


def test_a_stream_is_in_files_whose_times_are_in_order(tmp_path: Path) -> None:
    job = JOBS["tpc"]
    folder = job.stream_files(tmp_path, SCALE, "zipf", [100, 100, 50], 1)
    files = sorted(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert [file.stem for file in files] == [f"000{n}-{part}" for n in range(3) for part in (0, 1)]
    read = pa.concat_tables([pq.read_table(file) for file in files])
    assert read.num_rows == len(set(read["event"].to_pylist())) == 250
    assert pc.max(read["customer"]).as_py() <= tpch.customers(SCALE)
    assert job.stream_files(tmp_path, SCALE, "zipf", [100, 100, 50], 1) == folder


def test_the_tables_of_the_flights_have_each_key_once(tmp_path: Path) -> None:
    job, rows = JOBS["flights"], {}
    folder = job.tables(tmp_path, 1)
    for step in job.steps:
        table = pq.read_table(folder / step.table)
        assert table.schema.names == step.columns
        assert distinct(table, step.keys).num_rows == table.num_rows
        rows[step.table] = table.num_rows
    assert rows == {"airlines": 16, "planes": 3_322, "airports": 1_458, "weather": 26_115}


@pytest.fixture(scope="module")
def city() -> Network:
    return Network(side=4, seed=3)


@settings(max_examples=8, deadline=None)
@given(side=st.integers(2, 5), seed=st.integers(0, 5))
def test_road_tables_have_unique_keys_and_the_columns_of_the_job(side: int, seed: int) -> None:
    tables, steps = Network(side, seed).tables(), JOBS["traffic"].steps
    assert list(tables) == [step.table for step in steps]
    roads = 4 * side * (side - 1)
    assert tables["roads"].num_rows == roads
    assert tables["road_times"].num_rows == roads * WEEKDAYS * SLICES
    assert tables["signals"].num_rows == side * side * len(KINDS) * SLICES
    for step in steps:
        assert set(step.columns) == set(tables[step.table].column_names)
        assert distinct(tables[step.table], step.keys).num_rows == tables[step.table].num_rows


@pytest.mark.parametrize("kind", STREAMS)
def test_each_event_finds_one_row_in_each_road_table(city: Network, kind: str) -> None:
    tables, rows = city.tables(), city.events(500, cycle=110, kind=kind)  # past midnight
    for step in JOBS["traffic"].steps:
        table: Any = tables[step.table].select(step.columns)
        rows = rows.join(table, step.keys, join_type="inner").combine_chunks()
        assert rows.num_rows == 500
    assert set(rows["weekday"].to_pylist()) == {1}
    assert set(rows["slice"].to_pylist()) == {(42 + 110) % SLICES}
