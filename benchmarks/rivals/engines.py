"""A job on DuckDB and on Polars: the stream's rows at once, the tables in memory."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rivals.job import Job

__all__ = ["Engine", "engines", "sql"]

Engine = Callable[[pa.Table], pa.Table]


def sql(job: Job) -> str:
    """The job as one query over the stream ``events``."""
    homes = dict.fromkeys(job.stream, "events")
    joins = []
    for step in job.steps:
        on = " AND ".join(f"{step.table}.{name} = {homes[name]}.{name}" for name in step.on)
        joins.append(f"JOIN {step.table} ON {on}")
        homes |= dict.fromkeys(step.brings, step.table)
    columns = ", ".join(f"{homes[name]}.{name}" for name in job.columns)
    return f"SELECT {columns} FROM events {' '.join(joins)}"


@contextmanager
def engines(job: Job, folder: Path) -> Iterator[dict[str, Engine]]:
    """What of the two is installed, each a function of the stream's rows.

    Args:
        job: the job.
        folder: its tables, as ``job.tables`` has made them.
    """
    found: dict[str, Engine] = {}
    tables = {s.table: pq.read_table(folder / s.table).select(s.columns) for s in job.steps}
    closing = None
    if importlib.util.find_spec("duckdb"):
        import duckdb

        closing = connection = duckdb.connect()
        connection.execute(f"SET threads = {os.cpu_count() or 2}")
        connection.execute("SET preserve_insertion_order = false")
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        query = sql(job)

        def by_duckdb(events: pa.Table) -> pa.Table:
            connection.register("events", events)
            answer: pa.Table = connection.sql(query).to_arrow_table()
            connection.unregister("events")
            return answer

        found["DuckDB"] = by_duckdb
    if importlib.util.find_spec("polars"):
        import polars

        frames = {name: polars.DataFrame(table) for name, table in tables.items()}

        def by_polars(events: pa.Table) -> pa.Table:
            joined = polars.DataFrame(events).lazy()
            for step in job.steps:
                joined = joined.join(frames[step.table].lazy(), on=list(step.on), how="inner")
            return joined.select(job.columns).collect().to_arrow()

        found["Polars"] = by_polars
    try:
        yield found
    finally:
        if closing is not None:
            closing.close()
