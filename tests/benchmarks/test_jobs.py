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
from benchmarks.harness.outcome import Context
from benchmarks.harness.timing import check_joins
from benchmarks.jobs import ways as rivals
from benchmarks.jobs.database import connection, load, per_batch, per_record, server_seconds
from benchmarks.jobs.engines import engines, sql
from benchmarks.jobs.job import Batches, Job, Step
from benchmarks.jobs.scaling import WORKERS, bounded_by_database, fixed_and_shared
from benchmarks.jobs.workers import MASTERS, NUMBERS, TABLES, outcome, predicted, speed_up

POSITIVE = st.floats(1e-6, 1e3)

USERS = pa.table({"person": [1, 1, 2, 4], "city": ["a", "b", "b", "x"]})
CITIES = pa.table({"city": ["a", "b"], "people": [10, 20]})


def _tables(folder: Path, size: float) -> dict[str, pa.Table]:
    return {"users": USERS, "cities": CITIES}


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
    assert sql(SMALL).endswith("FROM events JOIN users USING (person) JOIN cities USING (city)")


def test_bsjoin_spark_duckdb_and_polars_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = _events(1, 40, 0, "", 1)
    stream = spark.createDataFrame(events)
    with rivals.prepared(context(tmp_path), SMALL, 1, url="") as ready:
        ours = ready.way(rivals.FULL)(stream).localCheckpoint()
        answers: dict[str, Any] = {
            name: lambda name=name: ready.way(name)(stream)
            for name in (
                rivals.FULL,
                rivals.FULL_PYTHON,
                rivals.AQE_ON,
                rivals.MERGE,
                rivals.BROADCAST,
            )
        }
    assert list(engines(SMALL, SMALL.tables(tmp_path, 1))) == ["DuckDB", "Polars"]
    for name, engine in engines(SMALL, SMALL.tables(tmp_path, 1)).items():
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
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    # The second key is of two columns, a number and a text.
    known = pa.table({"person": [1, 2], "city": ["b", "b"], "people": [3, 5]})
    job = dataclasses.replace(
        SMALL,
        steps=(SMALL.steps[0], Step("known_places", "person, city", "people long")),
        make=lambda *_: {"users": USERS, "known_places": known},
    )
    folder = job.tables(tmp_path, 1)
    load(postgresql.url, job, folder)
    connection.cache_clear()
    events = _events(1, 23, 0, "", 1)
    before = server_seconds(postgresql.url)
    right = Counter(map(str, engines(job, folder)["DuckDB"](events).to_pylist()))
    assert right.total() == 12
    for way in (per_record(job, postgresql.url), per_batch(job, postgresql.url)):
        ask = way(Asked())
        found = pa.Table.from_batches(ask(iter(events.to_batches(max_chunksize=10))))
        assert Counter(map(str, found.to_pylist())) == right
        assert not list(ask(iter(())))
    assert server_seconds(postgresql.url) >= before
    assert connection.cache_info().currsize == 2
    for driver in ("psycopg", "adbc_driver_postgresql.dbapi"):
        connection(driver, postgresql.url).close()
    connection.cache_clear()


def test_a_stream_runs_through_all_its_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(20, 1, 60, 1, warm=1)
    assert batches.sizes == [20, 20, 60, 60]
    assert batches.few.sizes == [20, 20]
    with rivals.prepared(context(tmp_path), SMALL, 1, url="") as ready:
        files = ready.files("zipf", batches.sizes)
        found = ready.run(rivals.AQE_OFF, files, batches)
        ran = [ready.run(name, files, batches) for name in (rivals.FULL, rivals.FULL_PYTHON)]
    assert [one["runtimes"] for one in (found, *ran)] == [[], ["jvm"], ["python"]]
    assert len(found["ms"]) == 1
    assert len(found["all_ms"]) == 4
    assert found["rate"] == pytest.approx(60 / found["all_ms"][-1] * 1e3)
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    answer = ready.answer_of_stream(rivals.AQE_ON, files)
    assert answer.count() == (20 + 20 + 60 + 60) // 4 * 3


@settings(deadline=None)
@given(one=POSITIVE, two=POSITIVE)
def test_the_law_of_fixed_and_shared_work_meets_what_was_measured(one: float, two: float) -> None:
    times = fixed_and_shared(one, two)
    assert tuple(times) == WORKERS
    assert times[1] == pytest.approx(one)
    if one / 2 <= two <= one:
        assert times[2] == pytest.approx(two)
    assert list(times.values()) == sorted(times.values(), reverse=True)
    assert times[128] >= one / 128 * (1 - 1e-9)


@settings(deadline=None)
@given(record=POSITIVE, demand=POSITIVE, cores=st.integers(1, 64))
def test_a_database_serves_more_workers_until_its_cores_are_busy(
    record: float, demand: float, cores: int
) -> None:
    rates, seconds = bounded_by_database(record, demand, cores)
    assert list(rates.values()) == sorted(rates.values())
    assert max(rates.values()) <= cores / demand * (1 + 1e-9)
    assert min(seconds.values()) >= record


def test_formula_5_gives_the_speed_up_of_the_papers_tables() -> None:
    ups = speed_up(TABLES["rate"]["tpc"])["OPT"]
    assert ups[1] == 1
    assert ups[128] == pytest.approx(43.78, abs=0.01)
    for published in TABLES.values():
        assert all(tuple(by.index) == WORKERS for by in published.values())


def _run(ms: float, rows_per_s: float) -> dict[str, Any]:
    return {"ms": [ms, ms], "rate": rows_per_s}


def _records(rows_per_s: float) -> dict[str, Any]:
    return {"rate": rows_per_s, "record_ms": 2.0, "demand_s": 1e-3}


def test_workers_are_predicted_from_one_and_two_and_the_paper_stands_beside(
    tmp_path: Path,
) -> None:
    def at(ms: float, rate: float, records: float) -> dict[str, Any]:
        ways = {
            rivals.FULL: _run(ms, rate),
            rivals.FULL_PYTHON: _run(3 * ms, rate / 3),
            rivals.AQE_ON: _run(2 * ms, rate / 2),
            rivals.RECORD: _records(records),
        }
        larger = ways | {rivals.AQE_ON: _run(4 * ms, rate / 4)}
        return {"sizes": {"0.1": ways, "1": larger}, "fan_out": 10.0}

    measured = {
        "sizes": ["0.1", "1"],
        "batches": {"small": 10_000, "large": 100_000},
        "masters": {MASTERS[1]: at(100, 100_000, 500), MASTERS[2]: at(75, 160_000, 900)},
    }
    rate, latency = predicted(measured).values()
    assert rate[rivals.FULL][1] == pytest.approx(1_000_000)
    assert rate[rivals.FULL][2] == pytest.approx(1_600_000)
    assert latency[rivals.FULL][4] == pytest.approx(50 + 50 / 4)
    assert rate[rivals.RECORD][2] == pytest.approx(9_000)
    assert rate[rivals.RECORD][128] == pytest.approx(160_000)  # 16 cores, 1 ms each
    assert latency[rivals.RECORD][128] == pytest.approx(8.0)
    for job, numbers in NUMBERS.items():
        named = Job(job, "id long", (), _tables, _events, "size")
        found = outcome(named, measured)
        assert [table.title[:7] for table in found.tables[:2]] == [
            f"Table {numbers[0]}", f"Table {numbers[1]}"
        ]  # fmt: skip
        assert found.tables[2].rows[-1][1] == pytest.approx(
            speed_up(TABLES["rate"][job])["OPT"][128], abs=0.01
        )
        assert all(figure.simulated == ("128" in figure.name) for figure in found.figures)
        for table in found.tables:
            assert {len(row) for row in table.rows} == {len(table.columns)}
        (picture,) = charts.draw(found.tables, tmp_path / "workers.svg")
        assert picture.stat().st_size > 10_000
        json.dumps(found.measured)
    promised = outcome(named, measured, over_spark=1.5).figures
    bounds = [f.bound for f in promised if f.name.startswith(f"results/s, {rivals.FULL} / Spark")]
    assert bounds == [1.5, 1.5, None]
    single = outcome(named, measured | {"sizes": ["0.1"]})
    growth = [[f for f in one.figures if "ms per micro-batch" in f.name] for one in (found, single)]
    assert list(map(len, growth)) == [3, 0]
