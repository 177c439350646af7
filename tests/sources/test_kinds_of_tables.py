"""What a database calls a table and is none."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from source_stands import STANDS, Database, typed
from sqlite_files import in_sqlite

from bsjoin.errors import SourceError
from bsjoin.sources import sql

VIEW = "CREATE VIEW t AS SELECT k, v, k * 2 AS w FROM base"
# How each makes something with the columns k, v and w, of which w is computed: 2 * k. Its rows are
# those of ``base``, of which only some say how they come.
KINDS: dict[str, dict[str, list[str]]] = {
    "sqlite": {
        "a view": [VIEW],
        "a computed column": ["CREATE TABLE t (k INTEGER, v TEXT, w INTEGER AS (k * 2) STORED)"],
        "a virtual column": ["CREATE TABLE t (k INTEGER, v TEXT, w INTEGER AS (k * 2) VIRTUAL)"],
        "without row numbers": [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, w INTEGER) WITHOUT ROWID",
            "INSERT INTO t SELECT k, v, k * 2 FROM base WHERE k IS NOT NULL",
        ],
        "strict": ["CREATE TABLE t (k INTEGER, v TEXT, w INTEGER) STRICT"],
    },
    "duckdb": {
        "a view": [VIEW],
        "a computed column": ["CREATE TABLE t (k INTEGER, v VARCHAR, w INTEGER AS (k * 2))"],
    },
    "postgresql": {
        "a view": [VIEW],
        "a materialized view": [VIEW.replace("VIEW", "MATERIALIZED VIEW")],
        "a computed column": [
            "CREATE TABLE t (k integer, v text, w integer GENERATED ALWAYS AS (k * 2) STORED)",
        ],
        "partitions": [
            "CREATE TABLE t (k integer, v text, w integer) PARTITION BY LIST (k)",
            "CREATE TABLE t_one PARTITION OF t FOR VALUES IN (1)",
            "CREATE TABLE t_rest PARTITION OF t DEFAULT",
        ],
        "a child": [
            "CREATE TABLE t (k integer, v text, w integer)",
            "CREATE TABLE t_child () INHERITS (t)",
            "INSERT INTO t SELECT k, v, k * 2 FROM base WHERE k < 3",
            "INSERT INTO t_child SELECT k, v, k * 2 FROM base WHERE k >= 3",
        ],
        "a column that was dropped": [
            "CREATE TABLE t (gone integer, k integer, v text, old text, w integer)",
            "INSERT INTO t SELECT 9, k, v, 'x', k * 2 FROM base",
            "ALTER TABLE t DROP COLUMN gone, DROP COLUMN old",
        ],
    },
    "mariadb": {
        "a view": [VIEW],
        "a computed column": ["CREATE TABLE t (k INTEGER, v TEXT, w BIGINT AS (k * 2) VIRTUAL)"],
        "partitions": [
            "CREATE TABLE t (k INTEGER, v VARCHAR(9), w INTEGER) "
            "PARTITION BY HASH (k) PARTITIONS 3",
        ],
        "history": [
            "CREATE TABLE t (k INTEGER, v VARCHAR(9), w INTEGER) WITH SYSTEM VERSIONING",
            "INSERT INTO t SELECT k, 'old', 0 FROM base",
            "UPDATE t, base SET t.v = base.v, w = 2 * t.k WHERE t.k = base.k",
        ],
    },
}
CASES = [(database, kind) for database, kinds in KINDS.items() for kind in kinds]
QUICK = (
    ("sqlite", "a view"), ("sqlite", "a virtual column"), ("sqlite", "without row numbers"),
    ("postgresql", "a child"), ("postgresql", "a column that was dropped"), ("mariadb", "a view"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "what"),
    [pytest.param(*one, marks=[pytest.mark.long] * (one not in QUICK)) for one in CASES],
)
def test_each_kind_of_table_is_scanned_and_asked(
    kind: str, what: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    database = STANDS[kind](tmp_path, request)
    assert isinstance(database, Database)
    clear(database)
    text = "VARCHAR(9)" if kind == "mariadb" else "TEXT"
    database.run(
        "DROP TABLE IF EXISTS base",
        f"CREATE TABLE base (k INTEGER, v {text})",
        "INSERT INTO base VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'd')",
    )
    statements = KINDS[kind][what]
    database.run(*statements)
    if not any("FROM base" in one for one in statements):
        computed = "(k * 2)" in statements[0]
        given = "(k, v) SELECT k, v" if computed else "SELECT k, v, k * 2"
        database.run(f"INSERT INTO t {given} FROM base")
    # SQLite knows no type of what a view computes.
    told = {"schema": {"w": pa.int64()}} if (kind, what) == ("sqlite", "a view") else {}
    source = database.source(table="t", **told)
    try:
        assert source.schema.names == ["k", "v", "w"]
        found = pa.Table.from_batches(source.scan())
        wanted = [(1, "a", 2), (2, "b", 4), (3, None, 6)]
        got = [tuple(row.values()) for row in found.to_pylist() if row["k"] is not None]
        assert sorted(got, key=repr) == sorted(wanted, key=repr)
        one = source.lookup(typed(source, k=[2, 3, 9]))
        assert sorted(tuple(row.values()) for row in one.select(["k", "w"]).to_pylist()) == [
            (2, 4), (3, 6),
        ]  # fmt: skip
        assert source.lookup(typed(source, w=[4]), ["v"]).select(["v"]).to_pylist() == [{"v": "b"}]
        assert not source.is_unique(["w"])
    finally:
        source.close()
        clear(database)


def clear(database: Database) -> None:
    """Leave no ``t`` on a server, whatever kind it is of; those of files go with them."""
    for kind in ("TABLE", "VIEW", "MATERIALIZED VIEW"):
        with contextlib.suppress(Exception):  # it is of another kind
            database.run(f"DROP {kind} IF EXISTS t CASCADE")


def test_an_index_of_sqlite_is_not_taken_for_a_table(tmp_path: Any) -> None:
    """Nor is a name that is not there."""
    script = "CREATE TABLE t (k INTEGER); CREATE INDEX an_index ON t (k)"
    url = in_sqlite(tmp_path / "data.db", script)
    for name in ("an_index", "sqlite_stat1", "nothing"):
        with pytest.raises(SourceError, match=name):
            sql(url, table=name).schema  # noqa: B018
