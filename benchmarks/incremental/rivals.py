"""What one would do without an incremental cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf

__all__ = ["jdbc_table", "per_batch", "per_record"]

SCHEMA = "k long, id long, amount long, name string"


def per_record(stream: DataFrame, url: str) -> DataFrame:
    """What people write: a query per record over a connection that is kept."""

    @arrow_udf("amount long, name string")
    def ask(keys: pa.Array) -> pa.Array:
        connection = _kept_connection(url)
        rows = []
        for key in keys.to_pylist():
            row = connection.execute("SELECT amount, name FROM t WHERE k = %s", [key]).fetchone()
            rows.append(None if row is None else {"amount": row[0], "name": row[1]})
        return pa.array(rows, pa.struct([("amount", pa.int64()), ("name", pa.string())]))

    return (
        stream.select("k", "id", ask("k").alias("m"))
        .where("m is not null")
        .select("k", "id", "m.amount", "m.name")
    )


def per_batch(stream: DataFrame, url: str) -> DataFrame:
    """One query per task and micro-batch for its distinct keys, nothing kept."""

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(
            list(batches), pa.schema([("k", pa.int64()), ("id", pa.int64())])
        )
        if not table.num_rows:
            return
        wanted = table.column("k").unique()
        names = np.array(wanted.to_numpy())
        with _kept_adbc(url).cursor() as cursor:
            listed = pa.ListArray.from_arrays(pa.array([0, len(names)], pa.int32()), wanted)
            cursor.execute(
                "SELECT k, amount, name FROM t WHERE k = ANY($1)",
                pa.record_batch([listed], names=["keys"]),
            )
            found = cursor.fetch_arrow_table().combine_chunks()
        order = np.argsort(found.column("k").to_numpy())
        ordered = found.take(pa.array(order))
        known = ordered.column("k").to_numpy()
        probes = table.column("k").to_numpy()
        places = np.minimum(np.searchsorted(known, probes), len(known) - 1)
        hit = known[places] == probes
        rows = ordered.take(pa.array(places[hit])).combine_chunks()
        kept = table.filter(pa.array(hit))
        joined = pa.table(
            [kept.column("k"), kept.column("id"), rows.column("amount"), rows.column("name")],
            names=["k", "id", "amount", "name"],
        )
        yield from joined.replace_schema_metadata(None).to_batches(max_chunksize=10_000)

    return stream.mapInArrow(ask, SCHEMA)


def jdbc_table(spark: SparkSession, url: str) -> DataFrame:
    """The table as Spark's own JDBC source reads it: whole, in every micro-batch."""
    parts = urlsplit(url)
    reader = spark.read.format("jdbc").option(
        "url", f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    )
    reader = reader.option("user", parts.username or "").option(
        "password", unquote(parts.password or "")
    )
    reader = reader.option("driver", "org.postgresql.Driver")
    return reader.option("dbtable", "t").option("fetchsize", "10000").load()


_connections: dict[str, Any] = {}


def _kept_connection(url: str) -> Any:
    import psycopg

    if "psycopg" not in _connections:
        _connections["psycopg"] = psycopg.connect(url, autocommit=True)
    return _connections["psycopg"]


def _kept_adbc(url: str) -> Any:
    import adbc_driver_postgresql.dbapi

    if "adbc" not in _connections:
        _connections["adbc"] = adbc_driver_postgresql.dbapi.connect(url, autocommit=True)
    return _connections["adbc"]
