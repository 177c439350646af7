"""Alternatives to run a job answer alike; models of more workers; ratios and tables."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from servers import PostgreSQL

from benchmarks import charts
from benchmarks.data import tables as connections
from benchmarks.harness.outcome import Context
from benchmarks.harness.timing import check_joins
from benchmarks.jobs import comparison as report
from benchmarks.jobs import ways as rivals
from benchmarks.jobs.database import load, per_batch, per_record, server_seconds
from benchmarks.jobs.engines import ENGINES, engines, sql
from benchmarks.jobs.job import Batches, Job, Step, store
from benchmarks.jobs.scaling import WORKERS, Database, Fixed, speed_up
from benchmarks.jobs.workers import MASTERS, NUMBERS, TABLES, outcome, predicted

POSITIVE = st.floats(1e-6, 1e3)

USERS = pa.table({"person": [1, 1, 2, 4], "city": ["a", "b", "b", "x"]})
CITIES = pa.table({"city": ["a", "b"], "people": [10, 20]})


def _tables(folder: Path, size: float) -> Path:
    store(USERS, folder / "users", 2)
    store(CITIES, folder / "cities", 1)
    return folder


def _events(size: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    return pa.table(
        {"person": [n % 4 for n in range(rows)], "event": [cycle * 1000 + n for n in range(rows)]}
    )


SMALL = Job(
    "small",
    "person long, event long",
    (
        Step("users", "person", "city string", unique=False),
        Step("cities", "city", "people long"),
    ),
    _tables,
    _events,
    "size",
)


def context(folder: Path) -> Context:
    return Context(True, folder, folder, say=lambda _: None)


class Asked:
    """Stands for a DataFrame: gives back the function that Spark would carry out."""

    def mapInArrow(self, function: Any, schema: str) -> Any:  # noqa: N802
        return function


def test_a_job_lists_its_columns_and_becomes_one_query() -> None:
    assert SMALL.columns == ["person", "event", "city", "people"]
    assert SMALL.schema == "person long, event long, city string, people long"
    assert sql(SMALL).endswith(
        "FROM events JOIN users ON users.person = events.person "
        "JOIN cities ON cities.city = users.city"
    )


def test_bsjoin_spark_duckdb_and_polars_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = _events(1, 40, 0, "", 1)
    stream = spark.createDataFrame(events)
    with rivals.prepared(context(tmp_path), SMALL, 1, url="") as ready:
        ours = ready.way(rivals.FULL)(stream).localCheckpoint()
        answers: dict[str, Any] = {
            name: lambda name=name: ready.way(name)(stream)
            for name in (rivals.FULL, rivals.AQE_ON, rivals.MERGE, rivals.BROADCAST)
        }
    assert list(ENGINES) == ["DuckDB", "Polars"]
    for name, engine in engines(SMALL, tmp_path).items():
        answers[name] = lambda engine=engine: rivals.as_frame(spark, SMALL, engine(events))
    # Of every four events one is of user 1 with two cities, one of user 2 with one.
    assert check_joins(answers, SMALL.columns) == 30
    rows = Counter(tuple(row) for row in ours.collect())
    assert rows[1, 1, "b", 20] == rows[2, 2, "b", 20] == 1
    wrong = {"bsjoin": lambda: ours, "wrong": lambda: ours.where("event <> 1")}
    with pytest.raises(AssertionError, match="wrong differ from bsjoin"):
        check_joins(wrong, SMALL.columns)
    with pytest.raises(AssertionError, match="the check would be empty"):
        check_joins({"none": lambda: ours.where("false")}, SMALL.columns)


def test_queries_per_record_and_per_micro_batch_give_the_rows_of_duckdb(
    postgresql: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(connections, "_connections", kept)
    # The second key is of two columns, a number and a text.
    steps = (SMALL.steps[0], Step("known_places", "person, city", "people long"))
    job = dataclasses.replace(SMALL, steps=steps)
    store(USERS, tmp_path / "users", 2)
    store(
        pa.table({"person": [1, 2], "city": ["b", "b"], "people": [3, 5]}),
        tmp_path / "known_places",
    )
    load(postgresql.url, job, tmp_path)
    events = _events(1, 23, 0, "", 1)
    before = server_seconds(postgresql.url)
    right = Counter(map(str, engines(job, tmp_path)["DuckDB"](events).to_pylist()))
    assert right.total() == 12
    for way in (per_record(job, postgresql.url), per_batch(job, postgresql.url)):
        ask = way(Asked())
        found = pa.Table.from_batches(ask(iter(events.to_batches(max_chunksize=10))))
        assert Counter(map(str, found.to_pylist())) == right
        assert not list(ask(iter(())))
    assert server_seconds(postgresql.url) >= before
    assert len(kept) == 2
    for connection in kept.values():
        connection.close()


def test_a_stream_runs_through_all_its_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(20, 1, 60, 1, warm=1)
    assert batches.sizes == [20, 20, 60, 60]
    assert batches.few.sizes == [20, 20]
    with rivals.prepared(context(tmp_path), SMALL, 1, url="") as ready:
        files = ready.files("zipf", batches.sizes)
        found = ready.run(rivals.AQE_OFF, files, batches)
    assert len(found["ms"]) == 1
    assert len(found["all_ms"]) == 4
    assert found["rate"] == pytest.approx(60 / found["all_ms"][-1] * 1e3)
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    answer = ready.answer_of_stream(rivals.AQE_ON, files)
    assert answer.count() == (20 + 20 + 60 + 60) // 4 * 3


@settings(deadline=None)
@given(one=POSITIVE, two=POSITIVE)
def test_the_law_of_fixed_and_shared_work_meets_what_was_measured(one: float, two: float) -> None:
    model = Fixed.of(one, two)
    assert model.fixed_s >= 0
    assert model.work_s >= 0
    assert model.seconds(1) == pytest.approx(one)
    if one / 2 <= two <= one:
        assert model.seconds(2) == pytest.approx(two)
    times = [model.seconds(n) for n in WORKERS]
    assert times == sorted(times, reverse=True)


@settings(deadline=None)
@given(record=POSITIVE, demand=POSITIVE, cores=st.integers(1, 64))
def test_a_database_serves_more_workers_until_its_cores_are_busy(
    record: float, demand: float, cores: int
) -> None:
    model = Database(record, demand, cores)
    rates = [model.rate(n) for n in WORKERS]
    assert rates == sorted(rates)
    assert max(rates) <= cores / demand * (1 + 1e-9)
    assert all(model.latency_s(n) >= record for n in WORKERS)


def test_models_refuse_what_they_cannot_use() -> None:
    with pytest.raises(ValueError, match="both must be above 0"):
        Fixed.of(0.0, 1.0)
    with pytest.raises(ValueError, match="the throughput of 1 worker is needed"):
        speed_up({2: 3.0})


def test_formula_5_gives_the_speed_up_of_the_papers_tables() -> None:
    ups = speed_up({n: row[0] for n, row in TABLES["rate"]["tpc"].items()})
    assert ups[1] == 1
    assert ups[128] == pytest.approx(43.78, abs=0.01)
    for published in TABLES.values():
        assert all(tuple(by) == WORKERS for by in published.values())


def _runs(ms: float, rows_per_s: float) -> list[dict[str, Any]]:
    return [{"ms": [ms, ms], "rate": rows_per_s}]


def _records(rows_per_s: float) -> list[dict[str, Any]]:
    return [{"rate": rows_per_s, "record_ms": 2.0, "demand_s": 1e-3}]


def test_workers_are_predicted_from_one_and_two_and_the_paper_stands_beside(
    tmp_path: Path,
) -> None:
    def at(ms: float, rate: float, records: float) -> dict[str, Any]:
        ways = {
            rivals.FULL: _runs(ms, rate),
            rivals.AQE_ON: _runs(2 * ms, rate / 2),
            rivals.RECORD: _records(records),
        }
        larger = {rivals.FULL: _runs(ms, rate), rivals.AQE_ON: _runs(4 * ms, rate / 4)}
        return {"sizes": {"0.1": ways, "1": larger}, "fan_out": 10.0}

    measured = {
        "sizes": ["0.1", "1"],
        "batches": {"small": 10_000, "large": 100_000},
        "masters": {MASTERS[1]: at(100, 100_000, 500), MASTERS[2]: at(75, 160_000, 900)},
    }
    by = predicted(measured)
    assert by[rivals.FULL][1]["rate"] == pytest.approx(1_000_000)
    assert by[rivals.FULL][2]["rate"] == pytest.approx(1_600_000)
    assert by[rivals.FULL][4]["latency_ms"] == pytest.approx(50 + 50 / 4)
    assert by[rivals.RECORD][2]["rate"] == pytest.approx(9_000)
    assert by[rivals.RECORD][128]["rate"] == pytest.approx(160_000)  # 16 cores, 1 ms each
    assert by[rivals.RECORD][128]["latency_ms"] == pytest.approx(8.0)
    for job, numbers in NUMBERS.items():
        named = Job(job, "id long", (), _tables, _events, "size")
        found = outcome(context(tmp_path), named, measured)
        assert [table.title[:7] for table in found.tables[:2]] == [
            f"Table {numbers[0]}", f"Table {numbers[1]}"
        ]  # fmt: skip
        assert found.tables[2].rows[-1][1] == pytest.approx(
            TABLES["rate"][job][128][0] / TABLES["rate"][job][1][0], abs=0.01
        )
        assert all(figure.simulated == ("128" in figure.name) for figure in found.figures)
        for table in found.tables:
            assert {len(row) for row in table.rows} == {len(table.columns)}
        (picture,) = charts.draw(found.tables, tmp_path / "workers.svg")
        assert picture.stat().st_size > 10_000
        json.dumps(found.measured)
    single = outcome(context(tmp_path), named, measured | {"sizes": ["0.1"]})
    growth = [[f for f in one.figures if "ms per micro-batch" in f.name] for one in (found, single)]
    assert list(map(len, growth)) == [2, 0]


@pytest.mark.parametrize(
    ("rounds", "spread"),
    [
        ([([60.0, 90.0], [30.0, 45.0])], (60 / 45, 90 / 30)),
        ([([60.0], [30.0])], None),
        ([([60.0, 60.0], [30.0, 30.0]), ([90.0, 90.0], [30.0, 30.0])], (2.0, 3.0)),
    ],
    ids=["of its micro-batches", "none", "of the rounds"],
)
def test_the_spread_of_a_ratio(
    rounds: list[tuple[list[float], list[float]]], spread: tuple[float, float] | None
) -> None:
    above, below = ([{"ms": one[side]} for one in rounds] for side in (0, 1))
    found = report.ratio("ours / theirs", above, below, "ms")
    assert found.spread == (spread if spread is None else pytest.approx(spread))


def test_a_way_that_is_left_out_has_no_figure() -> None:
    ways = {name: _runs(100, 100_000) for name in (rivals.FULL, rivals.INCREMENTAL, rivals.AQE_ON)}
    found = report.figures(
        {"ways": {"zipf": ways}, "engines": {}, "batches": [10_000, 100_000]}, ""
    )
    assert [figure.name for figure in found] == [
        "addBatch of 10,000 rows, Spark, AQE on / bsjoin, full",
        "rows/s, bsjoin, full / Spark, AQE on",
    ]


def test_where_bsjoin_is_slower_is_reported(tmp_path: Path) -> None:
    names = (*rivals.OURS, rivals.AQE_ON, rivals.BATCH)
    ways: dict[str, Any] = {name: _runs(100, 100_000) for name in names}
    ways[rivals.AQE_ON] = _runs(80, 50_000)
    ways[rivals.RECORD] = _records(400)
    measured = {
        "ways": {"zipf": ways},
        "engines": {"DuckDB": {10_000: [0.2], 100_000: [0.5]}},
        "batches": [10_000, 100_000],
        "rows": {"users": 4},
        "size": 0.1,
        "fan_out": 2.0,
        "build_s": 1.0,
        "left_out": {rivals.BROADCAST: "too large"},
    }
    found = report.figures(measured, "twice")
    assert next(f for f in found if rivals.RECORD in f.name).value == 250
    slower = report.slower(measured)
    assert [row[0] for row in slower.rows] == [
        "addBatch of 10,000 rows, Spark, AQE on / bsjoin, full",
        "seconds of 100,000 rows, DuckDB alone / bsjoin, full",
    ]
    assert [row[2] for row in slower.rows] == [1.25, 2.0]
    shown = report.tables(measured, "All ways", "Scale factor")[0]
    assert {len(row) for row in shown.rows} == {len(shown.columns)}
    assert "is left out: too large" in shown.note
    (picture,) = charts.draw([shown], tmp_path / "ways.svg")
    assert picture.stat().st_size > 10_000
