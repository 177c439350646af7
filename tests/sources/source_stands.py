"""Stands for tests of sources: the same table in every kind of place."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_samples import imported_polars
from redis_clusters import Cluster

from bsjoin.sources import Source, adbc, delta, function, iceberg, parquet, redis, sql

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("code", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("note", pa.string()),
    ]
)
DATABASES = ("sqlite", "duckdb", "postgresql", "mariadb")


class Stand(ABC):
    """A table that can be filled anew, and a source of it."""

    scans = True  # whether the source can be read whole

    @abstractmethod
    def put(self, table: pa.Table) -> None:
        """Replace all rows."""

    @abstractmethod
    def source(self) -> Source:
        """A new source of the table."""


class Database(Stand):
    """A table ``planes`` of a database, with an index on its id and code."""

    mark = '"'
    schema = "main"  # a name that may stand before that of a table
    collated = "VARCHAR COLLATE NOCASE"  # a text that equals other ones
    without_meaning: tuple[str, str]  # a type with a value that has no meaning in Spark
    types = ("BIGINT", "VARCHAR(40)", "DECIMAL(10, 2)", "DATE", "VARCHAR(200)")
    place = "?"

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor of the driver; what it did is kept."""

    def run(self, *statements: str) -> None:
        with self.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create(self) -> None:
        columns = ", ".join(f"{n} {t}" for n, t in zip(SCHEMA.names, self.types, strict=True))
        self.run(
            "DROP TABLE IF EXISTS planes",
            f"CREATE TABLE planes ({columns})",
            "CREATE INDEX planes_key ON planes (id, code)",
        )

    def put(self, table: pa.Table) -> None:
        with self.cursor() as cursor:
            cursor.execute("DELETE FROM planes")
            self.insert(cursor, "planes", table)

    def insert(self, cursor: Any, name: str, table: pa.Table) -> None:
        if len(table):
            places = ", ".join([self.place] * table.num_columns)
            rows = [list(map(self.bound, row.values())) for row in table.to_pylist()]
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})", rows)

    def bound(self, value: Any) -> Any:
        return value

    def source(self, **options: Any) -> Source:
        if "query" not in options:
            options.setdefault("table", "planes")
        return sql(self.url, **options)

    def quoted(self, name: str) -> str:
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark


class SQLite(Database):
    collated = "TEXT COLLATE NOCASE"
    without_meaning = "TIMESTAMP", "'yesterday'"

    def __init__(self, folder: Path, name: str = "data #1?%41.db") -> None:
        self.path = folder / name
        super().__init__(f"sqlite:///{self.path}".replace("%", "%25").replace("?", "%3F"))

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection.cursor()

    def bound(self, value: Any) -> Any:
        return value if isinstance(value, int | float | str | bytes | None) else str(value)


class DuckDB(Database):
    without_meaning = "HUGEINT", "170141183460469231731687303715884105727"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "data.duckdb"
        self.reader: Any = None  # keeps it open until something is written
        super().__init__(f"duckdb:///{self.path}")

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        import duckdb

        if self.reader is not None:
            self.reader = self.reader.close()
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection

    def source(self, **options: Any) -> Source:
        import duckdb

        # Connections for reading are made quickly then.
        with contextlib.suppress(duckdb.ConnectionException):  # this process writes it
            self.reader = self.reader or duckdb.connect(str(self.path), read_only=True)
        return super().source(**options)

    def bound(self, value: Any) -> Any:
        return str(value) if isinstance(value, Decimal) else value


_connections: dict[str, Any] = {}


def connected(url: str) -> Any:
    """A connection to PostgreSQL that stays, to be used at once; one that has ended is replaced."""
    import psycopg

    with contextlib.suppress(KeyError, psycopg.Error):
        _connections[url].execute("SELECT 1")
        return _connections[url]
    made = psycopg.connect(url, autocommit=True, prepare_threshold=None)
    made.execute("SET TimeZone = 'UTC'")
    _connections[url] = made
    return made


class PostgreSQL(Database):
    place = "%s"
    schema = "public"
    collated = "CHAR(4)"
    without_meaning = "TIMESTAMP", "'294276-12-31'"

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        connection = connected(self.url)
        with connection.transaction(), connection.cursor() as cursor:
            yield cursor

    def bound(self, value: Any) -> Any:
        return str(value) if isinstance(value, Decimal) else value


class MariaDB(Database):
    place = "%s"
    mark = "`"
    schema = "test"
    collated = "VARCHAR(9) COLLATE utf8mb4_general_ci"
    without_meaning = "DATETIME NULL", "'2024-02-00'"

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        import pymysql

        parts = urlsplit(self.url)
        with (
            contextlib.closing(
                pymysql.connect(
                    host=parts.hostname or "",
                    port=parts.port or 0,
                    user=parts.username,
                    password=unquote(parts.password or "").encode(),
                    database=parts.path[1:],
                    charset="utf8mb4",
                    autocommit=True,
                )
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("SET sql_mode = ''")  # so that it takes dates without a meaning
            yield cursor

    def bound(self, value: Any) -> Any:
        # Of a time with a zone the server would leave the zone out, with a warning.
        return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class ByADBC(Stand):
    """A database of another stand, through its driver alone."""

    def __init__(self, place: Database, driver: str, **where: Any) -> None:
        imported_polars()  # the driver imports it, which sets a variable of the environment
        self.place, self.driver, self.where = place, driver, where
        place.create()

    def put(self, table: pa.Table) -> None:
        self.place.put(table)

    def source(self) -> Source:
        return adbc(self.driver, table="planes", **self.where)


class Parquet(Stand):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "planes"
        self.path.mkdir()
        self.version = 0

    def put(self, table: pa.Table) -> None:
        for path in self.path.iterdir():
            path.unlink()
        self.version += 1
        pq.write_table(table, self.path / f"{self.version}.parquet", row_group_size=3)

    def source(self) -> Source:
        source = parquet(self.path)
        source.listed_every_s = 0  # type: ignore[attr-defined]
        return source


class Delta(Stand):
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "planes.delta")

    def put(self, table: pa.Table) -> None:
        import deltalake

        # In several files, so that some of them are left out.
        deltalake.write_deltalake(self.path, table.slice(0, 1), mode="overwrite")
        for begin in range(1, len(table), 70):
            deltalake.write_deltalake(self.path, table.slice(begin, 70), mode="append")

    def source(self) -> Source:
        source = delta(self.path)
        source.renewed_every_s = 0  # type: ignore[attr-defined]
        return source


class Iceberg(Stand):
    def __init__(self, folder: Path) -> None:
        self.properties = {
            "name": "tests",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/lake",
        }

    @property
    def catalog(self) -> Any:
        """A connection of its own, and there the tables' namespace."""
        from pyiceberg.catalog import load_catalog

        found = load_catalog(**self.properties)
        found.create_namespace_if_not_exists("shop")
        return found

    def put(self, table: pa.Table) -> None:
        from pyiceberg.transforms import BucketTransform

        catalog = self.catalog
        if catalog.table_exists("shop.planes"):
            found = catalog.load_table("shop.planes")
            found.delete()
        else:
            found = catalog.create_table("shop.planes", SCHEMA)
            with found.update_spec() as spec:
                spec.add_field("code", BucketTransform(4), "code_bucket")
        for begin in range(0, len(table), 70):
            found.append(table.slice(begin, 70))

    def source(self) -> Source:
        source = iceberg("shop.planes", catalog=self.properties)
        source.renewed_every_s = 0  # type: ignore[attr-defined]
        return source


class Function(Stand):
    scans = False
    table = SCHEMA.empty_table()

    def put(self, table: pa.Table) -> None:
        type(self).table = table

    def source(self) -> Source:
        return function(rows_of, SCHEMA)


def rows_of(keys: pa.Table) -> pa.Table:
    return matching(Function.table, keys)


class Redis(Stand):
    """Unique keys only."""

    scans = False

    def __init__(self, url: str, kind: str) -> None:
        self.url, self.kind = url, kind

    def client(self) -> Any:
        import redis as driver

        return driver.Redis.from_url(self.url)

    def put(self, table: pa.Table) -> None:
        with self.client() as client:
            client.flushdb()
            for row in table.to_pylist():
                key = f"plane:{row['id']}:{row['code']}"
                fields = {
                    name: value if isinstance(value, int) else str(value)
                    for name, value in row.items()
                    if value is not None
                }
                if self.kind == "json":
                    client.set(key, json.dumps(fields))
                else:
                    client.hset(key, mapping=fields)

    def source(self) -> Source:
        return redis(
            self.url,
            key="plane:{id}:{code}",
            schema=SCHEMA,
            kind="json" if self.kind == "json" else "hash",
        )


class InCluster(Redis):
    """The same, spread over the nodes of a cluster."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        super().__init__(cluster.nodes[1].url, kind)
        self.cluster = cluster

    def client(self) -> Any:
        return self.cluster.writer()


STANDS: dict[str, Callable[[Path, pytest.FixtureRequest], Stand]] = {
    "sqlite": lambda folder, request: SQLite(folder),
    "duckdb": lambda folder, request: DuckDB(folder),
    "postgresql": lambda folder, request: PostgreSQL(request.getfixturevalue("postgresql").url),
    "mariadb": lambda folder, request: MariaDB(request.getfixturevalue("mariadb").url),
    "adbc duckdb": lambda folder, request: ByADBC(
        DuckDB(folder), "duckdb", options={"path": str(folder / "data.duckdb")}
    ),
    "adbc postgresql": lambda folder, request: ByADBC(
        PostgreSQL(request.getfixturevalue("postgresql").url),
        "postgresql",
        uri=request.getfixturevalue("postgresql").url,
        schema={"amount": pa.decimal128(10, 2)},
    ),
    "parquet": lambda folder, request: Parquet(folder),
    "delta": lambda folder, request: Delta(folder),
    "iceberg": lambda folder, request: Iceberg(folder),
    "function": lambda folder, request: Function(),
    # From here on sources that are asked by their whole key.
    "redis hash": lambda folder, request: Redis(
        request.getfixturevalue("redis_server").url, "hash"
    ),
    "redis json": lambda folder, request: Redis(
        request.getfixturevalue("redis_server").url, "json"
    ),
    "redis cluster hash": lambda folder, request: InCluster(
        request.getfixturevalue("cluster"), "hash"
    ),
    "redis cluster json": lambda folder, request: InCluster(
        request.getfixturevalue("cluster"), "json"
    ),
}
"""Every kind of source; the contract suite, test_sources_contract.py, runs all of them."""

EVERYWHERE = tuple(STANDS)


def kinds(every: Iterable[str], *quick: str) -> list[Any]:
    """Kinds of sources as parameters; all but the quick ones are left to ``make long``."""
    return [pytest.param(kind, marks=[] if kind in quick else [pytest.mark.long]) for kind in every]


def matching(table: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows of the keys, row by row; what a source is held against."""
    asked = {tuple(row.values()) for row in keys.to_pylist()}
    rows = zip(*(table.column(name).to_pylist() for name in keys.column_names), strict=True)
    return table.filter(pa.array([row in asked for row in rows], pa.bool_()))


def rows(table: pa.Table, names: Sequence[str] | None = None) -> list[str]:
    """The rows in an order of their own, to be compared."""
    names = table.column_names if names is None else names
    return sorted(map(repr, table.select(list(names)).to_pylist()))


def typed(source: Source, **columns: Sequence[Any]) -> pa.Table:
    """Keys of the types that a source has."""
    schema = source.schema
    return pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns.items()})
