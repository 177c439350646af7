"""Databases by their ADBC driver alone: the SQL of each, its errors, and what is not shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from parquet_samples import imported_polars
from servers import PostgreSQL as PostgreSQLServer
from source_stands import DuckDB, PostgreSQL

from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources import Source, adbc
from bsjoin.sources.databases import adbc as adbc_source

ROWS = pa.table({"k": pa.array([1], pa.int64()), 'n a`m"e': ["x"]})


@pytest.fixture(autouse=True)
def _polars() -> None:
    imported_polars()  # drivers import it, which sets a variable of the environment


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """Stands for a connection to a database that cannot be here, which answers with one row."""
    found = mock.Mock(spec=["cursor", "execute", "fetch_arrow_table", "close"])
    found.cursor.return_value = found
    found.fetch_arrow_table.return_value = ROWS
    module = SimpleNamespace(connect=lambda **_: found)
    monkeypatch.setattr("bsjoin.sources.databases.adbc.imported", lambda *_: module)
    return found


def test_a_connection_that_cannot_be_prepared_is_closed(server: mock.Mock) -> None:
    server.execute.side_effect = OSError("broken")
    source: Any = adbc("postgresql", uri="postgresql://host/db", table="t")
    with pytest.raises(OSError, match="broken"):
        source._open()
    assert server.close.call_count == 2  # of the cursor, and of the connection


@pytest.mark.parametrize(
    ("driver", "wanted"),
    [
        (
            "snowflake",
            'SELECT t."k" AS "k", t."n a`m""e" AS "n a`m""e" FROM "db"."shop"."c""1" AS t '
            'WHERE (t."k", t."n a`m""e") IN ((?, ?), (?, ?))',
        ),
        (
            "bigquery",
            'SELECT t.`k` AS `k`, t.`n a``m"e` AS `n a``m"e` FROM `db`.`shop`.`c"1` AS t '
            'WHERE (t.`k`, t.`n a``m"e`) IN ((?, ?), (?, ?))',
        ),
        (
            "redshift",
            'SELECT t."k" AS "k", t."n a`m""e" AS "n a`m""e" FROM "db"."shop"."c""1" AS t '
            'WHERE (t."k", t."n a`m""e") IN (($1, $2), ($3, $4))',
        ),
    ],
)
def test_names_are_quoted_and_keys_are_bound(driver: str, wanted: str, server: mock.Mock) -> None:
    source = adbc(driver, options={"a": "b"}, table=["db", "shop", 'c"1'])
    keys = pa.table({"k": pa.array([1, 2], pa.int64()), ROWS.column_names[1]: ["'; DROP", "y"]})
    calls = server.execute.call_args_list
    assert source.lookup(keys).num_rows == 1
    assert calls[1].args[0] == wanted
    assert [column.to_pylist() for column in calls[1].args[1].columns] == [
        [1],
        ["'; DROP"],
        [2],
        ["y"],
    ]
    null = pa.table({"k": pa.array([None], pa.int64())})
    source.lookup(null)
    assert calls[2].args[0].endswith("IS NULL) AS t")
    many = pa.table({"k": range(9_000), ROWS.column_names[1]: ["x"] * 9_000})
    source.lookup(many)
    assert [len(call.args[1].columns) for call in calls[3:] if call.args[1]] == [10_000, 8_000]


@pytest.mark.parametrize("name", ["snowflake", "bigquery"])
def test_the_drivers_that_have_no_server_here_load(name: str) -> None:
    source = adbc(name, options={"username": "me", "adbc.snowflake.sql.account": "x"}, table="t")
    with pytest.raises(SourceError, match=r"adbc\('\w+', table='t'\): \w+Error") as caught:
        _ = source.schema
    assert "no driver" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: adbc("a b", table="t"), ArgumentError, "driver='a b'"),
        (lambda: adbc("sqlite", uri="x", table="t"), ArgumentError, r"sources\.sql"),
        (lambda: adbc("x", uri=5, table="t"), ArgumentError, "uri: give a text"),
        (lambda: adbc("x", uri="a", options={"uri": "b"}, table="t"), ArgumentError, "uri: opt"),
        (lambda: adbc("x", options={"a": 1}, table="t"), ArgumentError, "all of them texts"),
        (lambda: adbc("x"), ArgumentError, "not neither"),
        (lambda: adbc("x", table="t", query="SELECT 1"), ArgumentError, "not both"),
        (lambda: adbc("x", table="t", unique="yes"), ArgumentError, "unique='yes'"),
        (lambda: adbc("x", table="t", timeout=0), ArgumentError, "timeout=0"),
        (lambda: adbc("nowhere", table="t").schema, SourceError, "no driver 'nowhere' here: pip"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    make: Callable[[], Source], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_types_that_spark_lacks_queries_and_errors_of_the_database(tmp_path: Path) -> None:
    place = DuckDB(tmp_path)
    place.run(
        "CREATE TABLE t AS SELECT 1 AS k, TIME '10:20:30' AS at, [1, 2] AS l, "
        "TIMESTAMP '2024-01-01 00:00:01' AS ts",
        "CREATE TABLE wrong AS SELECT 1 AS k, 'x' AS n",
    )
    options = {"path": str(place.path)}
    source = adbc("duckdb", options=options, table="main.t", unique=True)
    assert source.is_unique(["k"])
    assert source.schema.field("at").type == pa.string()
    (row,) = source.lookup(pa.table({"k": pa.array([1, 2], pa.int32())})).to_pylist()
    assert (row["at"], row["l"]) == ("10:20:30", [1, 2])
    by_text = pa.table({"at": ["10:20:30"]})
    assert len(source.lookup(by_text, ["k"])) == 1
    asked = adbc("duckdb", options=options, query="SELECT k + 1 AS k FROM t;")
    assert pa.Table.from_batches(asked.scan()).to_pylist() == [{"k": 2}]
    assert asked.size() == 1
    numbers = adbc("duckdb", options=options, table="wrong", schema={"n": pa.int64()})
    with pytest.raises(Exception, match="'n' holds 'x', which is no int64"):
        numbers.lookup(pa.table({"k": pa.array([1], pa.int32())}))
    with pytest.raises(SourceError, match="nowhere"):
        _ = adbc("duckdb", options=options, table="nowhere").schema


def test_what_older_drivers_of_postgresql_bind_otherwise_is_found(
    postgresql: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decimals as other ones, and null for what is empty."""
    place = PostgreSQL(postgresql.url)
    place.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (n numeric(10, 2), c text, b bytea)")
    place.run("INSERT INTO t VALUES (1.10, '', 'x'), (100, 'a', ''), (-0.01, 'b', 'y')")
    schema, fetched = {"n": pa.decimal128(10, 2)}, adbc_source.fetched

    def older(connection: Any, statement: str, bound: pa.RecordBatch | None = None) -> pa.Table:
        if bound is not None:
            assert schema["n"] not in bound.schema.types
            values = [pa.nulls(1, v.type) if not len(v[0].as_buffer()) else v for v in bound]
            bound = pa.record_batch(values, bound.schema.names)
        return fetched(connection, statement, bound)

    source = adbc("postgresql", uri=place.url, table="t", schema=schema)
    rows = pa.Table.from_batches(source.scan()).sort_by("n")
    monkeypatch.setattr(adbc_source, "fetched", older)
    for keys in (rows.select(["n"]), rows.select(["c"]), rows.select(["b"]), rows):
        assert source.lookup(keys).select(["n", "c", "b"]).sort_by("n").equals(rows)


def test_times_in_nanoseconds_are_found_by_the_microsecond_that_they_are_read_as(
    tmp_path: Path,
) -> None:
    place = DuckDB(tmp_path)
    place.run(
        "CREATE TABLE t (k INTEGER, c TIMESTAMP_NS)",
        "INSERT INTO t VALUES (1, '2024-01-01 00:00:00.000001999'), (2, '2024-01-01'), "
        "(3, '1969-12-31 23:59:59.999999001'), (4, '2024-01-01 00:00:00.000002'), (5, NULL)",
    )
    source = adbc("duckdb", options={"path": str(place.path)}, table="t")
    rows = pa.Table.from_batches(source.scan()).sort_by("k")
    numbers = [1_704_067_200_000_001, 1_704_067_200_000_000, -1, 1_704_067_200_000_002, None]
    assert rows["c"].cast(pa.int64()).to_pylist() == numbers
    # Beyond what nanoseconds reach there is none.
    far = pa.array([(1 << 63) - 1, -(1 << 63), 5 * 10**15], pa.int64())
    asked = pa.concat_arrays([rows["c"].combine_chunks(), far.cast(pa.timestamp("us"))])
    assert source.lookup(pa.table({"c": asked})).sort_by("k").equals(rows.select(["c", "k"]))
    assert source.lookup(rows.select(["k", "c"])).sort_by("k").equals(rows)
    many = pa.array(range(20_000), pa.int64()).cast(pa.timestamp("us"))
    with mock.patch.object(adbc_source, "fetched", wraps=adbc_source.fetched) as fetched:
        assert source.lookup(pa.table({"c": many})).num_rows == 0
    for _, statement, bound in (call.args for call in fetched.call_args_list):
        assert statement.endswith(') AND t."c" >= ? AND t."c" <= ?')
        assert bound.num_columns == statement.count("?") <= 10_000
        first, last = bound.columns[0], bound.columns[-3]
        assert bound.columns[-2:] == [first, last]


@pytest.mark.parametrize("uri", ["me:s3cr3t/x@db.example/shop", "x://me:s3cr3t%2Fx@db.example"])
def test_credentials_are_in_no_message(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(**options: Any) -> None:
        raise OSError(f"cannot reach {options}: h3ader is not known")

    module = SimpleNamespace(connect=connect)
    monkeypatch.setattr("bsjoin.sources.databases.adbc.imported", lambda *_: module)
    header = {"adbc.flight.sql.authorization_header": "Bearer h3ader"}
    options = {"adbc.some.private_key": "pr1v-key", "region": "eu", **header}
    source = adbc("snowflake", uri=uri, options=options, table="t")
    with pytest.raises(SourceError, match=r"region.*eu") as caught:
        _ = source.schema
    for text in (str(caught.value), repr(source), source.database or ""):
        assert not [one for one in ("s3cr3t", "pr1v-key", "h3ader") if one in text]
    assert caught.value.__context__ is None
