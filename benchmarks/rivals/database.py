"""A job against a database without a cache: one query per record, one per micro-batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.database import database
from benchmarks.rivals.job import ARROW, Job, Step

__all__ = ["load", "loaded", "per_batch", "per_record", "server_seconds"]

_SQL = {"long": "bigint", "string": "text"}
_CHUNK = 10_000


@contextmanager
def loaded(job: Job, folder: Path) -> Iterator[str]:
    """A PostgreSQL of this machine over TCP with the tables of a job; its URL.

    Args:
        job: the job.
        folder: its tables, as ``job.tables`` has made them.
    """
    with database(1) as url:
        load(url, job, folder)
        yield url


def load(url: str, job: Job, folder: Path) -> None:
    """Copy the tables of a job into a database: a unique key is the primary key, others an index.

    Args:
        url: of a PostgreSQL without such tables.
        job: the job.
        folder: its tables, as ``job.tables`` has made them.
    """
    import adbc_driver_postgresql.dbapi
    import psycopg

    with adbc_driver_postgresql.dbapi.connect(url) as connection:
        for step in job.steps:
            table = pq.read_table(folder / step.table).select(step.columns)
            with connection.cursor() as cursor:
                cursor.adbc_ingest(step.table, table, mode="create")
        connection.commit()
    with psycopg.connect(url, autocommit=True) as session:
        for step in job.steps:
            key = ", ".join(step.on)
            if step.unique:
                session.execute(f"ALTER TABLE {step.table} ADD PRIMARY KEY ({key})")
            else:
                session.execute(f"CREATE INDEX ON {step.table} ({key})")
            session.execute(f"VACUUM ANALYZE {step.table}")


def per_record(job: Job, url: str) -> Any:
    """What people write: for every record and table a query over a connection that is kept."""
    queries = [_one_key(step) for step in job.steps]
    keys = [step.on for step in job.steps]
    names = [list(step.brings) for step in job.steps]
    columns, schema = job.columns, _arrow(job)

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = _psycopg(url)
        for batch in batches:
            rows = batch.to_pylist()
            for query, key, brings in zip(queries, keys, names, strict=True):
                rows = [
                    row | dict(zip(brings, found, strict=True))
                    for row in rows
                    for found in connection.execute(query, [row[name] for name in key])
                ]
            if rows:
                ordered = [{name: row[name] for name in columns} for row in rows]
                yield pa.RecordBatch.from_pylist(ordered, schema)

    return lambda stream: stream.mapInArrow(ask, job.schema)


def per_batch(job: Job, url: str) -> Any:
    """For every task, micro-batch and table one query for its distinct keys; nothing is kept."""
    queries = [_many_keys(step, job.types) for step in job.steps]
    keys = [list(step.on) for step in job.steps]
    schemas = [pa.schema([(n, ARROW[t]) for n, t in step.brings.items()]) for step in job.steps]
    columns, arrow, schema = job.columns, job.arrow, _arrow(job)

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), arrow)
        for query, key, brings in zip(queries, keys, schemas, strict=True):
            if not table.num_rows:
                return
            wanted = table.select(key).group_by(key).aggregate([]).combine_chunks()
            lists = [
                pa.ListArray.from_arrays(
                    pa.array([0, wanted.num_rows], pa.int32()), wanted.column(name).chunk(0)
                )
                for name in key
            ]
            with _adbc(url).cursor() as cursor:
                cursor.execute(query, pa.record_batch(lists, names=key))
                found = cursor.fetch_arrow_table()
            found = found.select([*key, *brings.names]).replace_schema_metadata(None)
            table = table.join(found, key, join_type="inner")
        table = table.select(columns).cast(schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_CHUNK)

    return lambda stream: stream.mapInArrow(ask, job.schema)


def server_seconds(url: str) -> float:
    """The processor time that the server's processes for clients have used so far."""
    import psutil
    import psycopg

    seconds = 0.0
    with psycopg.connect(url, autocommit=True) as session:
        listed = session.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = %s AND "
                                 "pid <> pg_backend_pid()", ["client backend"])  # fmt: skip
        for (pid,) in listed.fetchall():
            times = psutil.Process(pid).cpu_times()
            seconds += times.user + times.system
    return seconds


def _one_key(step: Step) -> str:
    where = " AND ".join(f"{name} = %s" for name in step.on)
    return f"SELECT {', '.join(step.brings)} FROM {step.table} WHERE {where}"


def _many_keys(step: Step, types: dict[str, str]) -> str:
    lists = ", ".join(f"${i}::{_SQL[types[n]]}[]" for i, n in enumerate(step.on, 1))
    return (
        f"SELECT {', '.join(f't.{name}' for name in step.columns)} "
        f"FROM unnest({lists}) AS k({', '.join(step.on)}) JOIN {step.table} AS t "
        f"ON {' AND '.join(f't.{name} = k.{name}' for name in step.on)}"
    )


def _arrow(job: Job) -> pa.Schema:
    return pa.schema([(name, ARROW[type_]) for name, type_ in job.types.items()])


_connections: dict[tuple[str, str, int], Any] = {}


def _psycopg(url: str) -> Any:
    import psycopg

    at = ("psycopg", url, os.getpid())
    if at not in _connections:
        _connections[at] = psycopg.connect(url, autocommit=True)
    return _connections[at]


def _adbc(url: str) -> Any:
    import adbc_driver_postgresql.dbapi

    at = ("adbc", url, os.getpid())
    if at not in _connections:
        _connections[at] = adbc_driver_postgresql.dbapi.connect(url, autocommit=True)
    return _connections[at]
