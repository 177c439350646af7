"""A job in DuckDB and in Polars: all rows of the stream at once, the tables in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.jobs.job import Job, types_of

Engine = Callable[[pa.Table], pa.Table]


def sql(job: Job) -> str:
    """The job as one query over the stream ``events``."""
    table_of = dict.fromkeys(types_of(job.stream), "events")
    joins = []
    for step in job.steps:
        on = " AND ".join(f"{step.table}.{name} = {table_of[name]}.{name}" for name in step.keys)
        joins.append(f"JOIN {step.table} ON {on}")
        table_of |= dict.fromkeys(types_of(step.brings), step.table)
    columns = ", ".join(f"{table_of[name]}.{name}" for name in job.columns)
    return f"SELECT {columns} FROM events {' '.join(joins)}"


def in_duckdb(job: Job, tables: dict[str, pa.Table]) -> Engine:
    """The job in DuckDB."""
    database = duckdb.connect()
    database.execute(f"SET threads = {os.cpu_count() or 2}")
    database.execute("SET preserve_insertion_order = false")
    for name, table in tables.items():
        database.register("given", table)
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        database.unregister("given")
    query = sql(job)

    def answer(events: pa.Table) -> pa.Table:
        database.register("events", events)
        return database.sql(query).to_arrow_table()

    return answer


def in_polars(job: Job, tables: dict[str, pa.Table]) -> Engine:
    """The job in Polars."""
    frames = {name: polars.DataFrame(table) for name, table in tables.items()}

    def answer(events: pa.Table) -> pa.Table:
        joined = polars.DataFrame(events).lazy()
        for step in job.steps:
            joined = joined.join(frames[step.table].lazy(), on=step.keys, how="inner")
        return joined.select(job.columns).collect().to_arrow()

    return answer


ENGINES = {"DuckDB": in_duckdb, "Polars": in_polars}


def engines(job: Job, folder: Path) -> dict[str, Engine]:
    """The engines with the tables of a job, which ``job.tables`` has made in the folder."""
    tables = {s.table: pq.read_table(folder / s.table).select(s.columns) for s in job.steps}
    return {name: make(job, tables) for name, make in ENGINES.items()}
