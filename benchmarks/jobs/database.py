"""A job with a database and no cache: one query per record, or one per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.tables import postgresql
from benchmarks.harness.spark import Join
from benchmarks.jobs.job import Job, Step, arrow_schema, types_of

_SQL = {"long": "bigint", "string": "text"}
_CHUNK = 10_000


@contextmanager
def loaded(job: Job, folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL on this machine with the tables of a job."""
    with postgresql() as url:
        load(url, job, folder)
        yield url


def load(url: str, job: Job, folder: Path) -> None:
    """Copy the tables of a job into a database; a unique key becomes the primary key."""
    import adbc_driver_postgresql.dbapi
    import psycopg

    with adbc_driver_postgresql.dbapi.connect(url) as session:
        for step in job.steps:
            table = pq.read_table(folder / step.table).select(step.columns)
            with session.cursor() as cursor:
                cursor.adbc_ingest(step.table, table, mode="create")
        session.commit()
    with psycopg.connect(url, autocommit=True) as session:
        for step in job.steps:
            key = f"ALTER TABLE {step.table} ADD PRIMARY KEY ({step.on})"
            session.execute(key if step.unique else f"CREATE INDEX ON {step.table} ({step.on})")
            session.execute(f"VACUUM ANALYZE {step.table}")


@cache
def connection(driver: str, url: str) -> Any:
    """A connection of a module, which this process keeps."""
    return import_module(driver).connect(url, autocommit=True)


def per_record(job: Job, url: str) -> Join:
    """The usual code: for every record and table a query over a connection that is kept."""
    steps = [(_query_of_one_key(one), one.keys, list(types_of(one.brings))) for one in job.steps]
    columns, schema = job.columns, arrow_schema(job.schema)

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = connection("psycopg", url)
        for batch in batches:
            rows = batch.to_pylist()
            for query, key, brings in steps:
                rows = [
                    row | dict(zip(brings, found, strict=True))
                    for row in rows
                    for found in session.execute(query, [row[name] for name in key])
                ]
            if rows:
                ordered = [{name: row[name] for name in columns} for row in rows]
                yield pa.RecordBatch.from_pylist(ordered, schema)

    return lambda stream: stream.mapInArrow(answer, job.schema)


def per_batch(job: Job, url: str) -> Join:
    """For every task, micro-batch and table one query for its distinct keys; nothing is kept."""
    steps = [
        (_query_of_keys(one, types_of(job.schema)), one.keys, one.columns) for one in job.steps
    ]
    columns, arrow, schema = job.columns, job.arrow, arrow_schema(job.schema)

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), arrow)
        for query, key, known in steps:
            if not table.num_rows:
                return
            wanted = table.select(key).group_by(key).aggregate([]).combine_chunks()
            ends = pa.array([0, wanted.num_rows], pa.int32())
            lists = [pa.ListArray.from_arrays(ends, wanted.column(n).chunk(0)) for n in key]
            with connection("adbc_driver_postgresql.dbapi", url).cursor() as cursor:
                cursor.execute(query, pa.record_batch(lists, names=key))
                found = cursor.fetch_arrow_table()
            found = found.select(known).replace_schema_metadata(None)
            table = table.join(found, key, join_type="inner")
        table = table.select(columns).cast(schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_CHUNK)

    return lambda stream: stream.mapInArrow(answer, job.schema)


def _query_of_one_key(step: Step) -> str:
    where = " AND ".join(f"{name} = %s" for name in step.keys)
    return f"SELECT {', '.join(types_of(step.brings))} FROM {step.table} WHERE {where}"


def _query_of_keys(step: Step, types: dict[str, str]) -> str:
    lists = ", ".join(f"${i}::{_SQL[types[n]]}[]" for i, n in enumerate(step.keys, 1))
    return (
        f"SELECT {', '.join(f't.{name}' for name in step.columns)} "
        f"FROM unnest({lists}) AS k({step.on}) JOIN {step.table} AS t "
        f"ON {' AND '.join(f't.{name} = k.{name}' for name in step.keys)}"
    )
