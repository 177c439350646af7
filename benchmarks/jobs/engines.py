"""A job in DuckDB and in Polars: all rows of the stream at once, the tables in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa

from benchmarks.jobs.job import Job

Engine = Callable[[pa.Table], pa.Table]


def sql(job: Job) -> str:
    """The job as one query over the stream ``events``."""
    joins = " ".join(f"JOIN {step.table} USING ({step.on})" for step in job.steps)
    return f"SELECT {', '.join(job.columns)} FROM events {joins}"


def in_duckdb(job: Job, folder: Path) -> Engine:
    """The job in DuckDB."""
    config = {"threads": os.cpu_count() or 2, "preserve_insertion_order": False}
    database = duckdb.connect(config=config)
    for step in job.steps:
        files, columns = folder / step.table / "*.parquet", ", ".join(step.columns)
        database.execute(f"CREATE TABLE {step.table} AS SELECT {columns} FROM '{files}'")

    def answer(events: pa.Table) -> pa.Table:
        database.register("events", events)
        return database.sql(sql(job)).to_arrow_table()

    return answer


def in_polars(job: Job, folder: Path) -> Engine:
    """The job in Polars."""
    frames = [
        polars.read_parquet(folder / step.table / "*.parquet", columns=step.columns)
        for step in job.steps
    ]

    def answer(events: pa.Table) -> pa.Table:
        joined = polars.DataFrame(events).lazy()
        for step, frame in zip(job.steps, frames, strict=True):
            joined = joined.join(frame.lazy(), on=step.keys, how="inner")
        return joined.select(job.columns).collect().to_arrow()

    return answer


def engines(job: Job, folder: Path) -> dict[str, Engine]:
    """The engines with the tables of a job, which ``job.tables`` has made in the folder."""
    return {"DuckDB": in_duckdb(job, folder), "Polars": in_polars(job, folder)}
