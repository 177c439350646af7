"""What a database calls a table and is none, and types that few tables have."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from source_stands import STANDS, Database, Iceberg, rows
from sqlite_files import in_sqlite

from bsjoin.errors import SourceError
from bsjoin.sources import Source, delta, sql

# How each makes something with the columns k, v and w, of which w is computed: 2 * k.
KINDS: dict[str, dict[str, list[str]]] = {
    "sqlite": {
        "a view": ["CREATE VIEW t AS SELECT k, v, k * 2 AS w FROM base"],
        "a computed column": [
            "CREATE TABLE t (k INTEGER, v TEXT, w INTEGER AS (k * 2) STORED)",
            "INSERT INTO t (k, v) SELECT k, v FROM base",
        ],
        "a virtual column": [
            "CREATE TABLE t (k INTEGER, v TEXT, w INTEGER AS (k * 2) VIRTUAL)",
            "INSERT INTO t (k, v) SELECT k, v FROM base",
        ],
        "without row numbers": [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, w INTEGER) WITHOUT ROWID",
            "INSERT INTO t SELECT k, v, k * 2 FROM base",
        ],
        "strict": [
            "CREATE TABLE t (k INTEGER, v TEXT, w INTEGER) STRICT",
            "INSERT INTO t SELECT k, v, k * 2 FROM base",
        ],
    },
    "duckdb": {
        "a view": ["CREATE VIEW t AS SELECT k, v, k * 2 AS w FROM base"],
        "a computed column": [
            "CREATE TABLE t (k INTEGER, v VARCHAR, w INTEGER AS (k * 2))",
            "INSERT INTO t SELECT k, v FROM base",
        ],
    },
    "postgresql": {
        "a view": ["CREATE VIEW t AS SELECT k, v, k * 2 AS w FROM base"],
        "a materialized view": ["CREATE MATERIALIZED VIEW t AS SELECT k, v, k * 2 AS w FROM base"],
        "a computed column": [
            "CREATE TABLE t (k integer, v text, w integer GENERATED ALWAYS AS (k * 2) STORED)",
            "INSERT INTO t SELECT k, v FROM base",
        ],
        "partitions": [
            "CREATE TABLE t (k integer, v text, w integer) PARTITION BY LIST (k)",
            "CREATE TABLE t_one PARTITION OF t FOR VALUES IN (1)",
            "CREATE TABLE t_rest PARTITION OF t DEFAULT",
            "INSERT INTO t SELECT k, v, k * 2 FROM base",
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
        "a view": ["CREATE VIEW t AS SELECT k, v, k * 2 AS w FROM base"],
        "a computed column": [
            "CREATE TABLE t (k INTEGER, v VARCHAR(9), w BIGINT AS (k * 2) VIRTUAL)",
            "INSERT INTO t (k, v) SELECT k, v FROM base",
        ],
        "partitions": [
            "CREATE TABLE t (k INTEGER, v VARCHAR(9), w INTEGER) "
            "PARTITION BY HASH (k) PARTITIONS 3",
            "INSERT INTO t SELECT k, v, k * 2 FROM base",
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
    ("postgresql", "_int4"), ("postgresql", "point"), ("sqlite", "JSON"), ("duckdb", "BIT"),
)  # fmt: skip


def some(cases: list[tuple[str, str]]) -> list[Any]:
    """Cases, of which all but a few are left to ``make long``."""
    long = pytest.mark.long
    return [pytest.param(*one, marks=[] if one in QUICK else [long]) for one in cases]


def asked(source: Source, **columns: list[Any]) -> pa.Table:
    schema = source.schema
    return pa.table({n: pa.array(v, schema.field(n).type) for n, v in columns.items()})


@pytest.mark.parametrize(("kind", "what"), some(CASES))
def test_each_kind_of_table_is_scanned_and_asked(
    kind: str, what: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    database = STANDS[kind](tmp_path, request)
    assert isinstance(database, Database)
    cascade = " CASCADE" if kind == "postgresql" else ""
    drops = [f"DROP {one} IF EXISTS t{cascade}" for one in dropped(kind)]
    for statement in drops:
        quietly(database, statement)
    text = "VARCHAR(9)" if kind == "mariadb" else "TEXT"
    database.run(
        "DROP TABLE IF EXISTS base",
        f"CREATE TABLE base (k INTEGER, v {text})",
        "INSERT INTO base VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'd')"
        if what != "without row numbers"
        else "INSERT INTO base VALUES (1, 'a'), (2, 'b'), (3, NULL)",
    )
    database.run(*KINDS[kind][what])
    # SQLite knows no type of what a view computes.
    told = {"schema": {"w": pa.int64()}} if (kind, what) == ("sqlite", "a view") else {}
    source = database.source(table="t", **told)
    try:
        assert source.schema.names == ["k", "v", "w"]
        found = pa.Table.from_batches(source.scan())
        wanted = [(1, "a", 2), (2, "b", 4), (3, None, 6)]
        got = [tuple(row.values()) for row in found.to_pylist() if row["k"] is not None]
        assert sorted(got, key=repr) == sorted(wanted, key=repr)
        one = source.lookup(asked(source, k=[2, 3, 9]))
        assert sorted(tuple(row.values()) for row in one.select(["k", "w"]).to_pylist()) == [
            (2, 4), (3, 6),
        ]  # fmt: skip
        assert source.lookup(asked(source, w=[4]), ["v"]).select(["v"]).to_pylist() == [{"v": "b"}]
        assert not source.is_unique(["w"])
    finally:
        source.close()
        for statement in drops:
            quietly(database, statement)


def dropped(kind: str) -> tuple[str, ...]:
    return ("TABLE", "VIEW", *(("MATERIALIZED VIEW",) if kind == "postgresql" else ()))


def quietly(database: Database, statement: str) -> None:
    """Of another kind it is an error."""
    with contextlib.suppress(Exception):
        database.run(statement)


# Types that Spark has not: their text, by which they are found.
TYPES: dict[str, dict[str, str]] = {
    "postgresql": {
        "tsvector": "'a fat cat'::tsvector", "point": "'(1,2)'::point",
        "macaddr": "'08:00:2b:01:02:03'::macaddr", "int4multirange": "'{[1,3),[5,7)}'",
        "timetz": "'10:11:12+02'", "varbit": "B'1010'", "pg_lsn": "'16/B374D848'",
        "regclass": "'pg_class'::regclass", "cidr": "'10.0.0.0/8'", "circle": "'<(0,0),1>'",
        "_int4": "'[0:1]={1,2}'::int4[]", "tid": "'(0,1)'::tid", "jsonpath": "'$.a'",
    },
    "duckdb": {
        "TIME WITH TIME ZONE": "'10:11:12+02'", "INTERVAL": "INTERVAL 1 DAY",
        "BIT": "'101'::BIT", "INTEGER[2]": "[1, 2]", "UNION(a INTEGER, b VARCHAR)": "'x'",
        "UHUGEINT": "5",
    },
    "mariadb": {
        "INET6": "'::1'", "UUID": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "POINT": "POINT(1, 2)",
        "INT ZEROFILL": "5", "DOUBLE UNSIGNED": "0.5", "INET4": "'1.2.3.4'",
    },
    "sqlite": {
        "CLOB": "'a'", "NVARCHAR(9)": "'é'", "INT2": "5", "FLOATING POINT": "5", "JSON": "'{}'",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "declared"), some([(k, t) for k, each in TYPES.items() for t in each])
)
def test_a_type_that_few_tables_have_is_read_and_found(
    kind: str, declared: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    database = STANDS[kind](tmp_path, request)
    assert isinstance(database, Database)
    database.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (k INTEGER, v {declared})")
    database.run(f"INSERT INTO t VALUES (1, {TYPES[kind][declared]}), (2, NULL)")
    source = database.source(table="t")
    try:
        table = pa.Table.from_batches(source.scan())
        by_key = source.lookup(asked(source, k=[1, 2]))
        assert rows(by_key, ["k", "v"]) == rows(table, ["k", "v"])
        value = next(row["v"] for row in table.to_pylist() if row["k"] == 1)
        assert value is not None
        if not pa.types.is_nested(source.schema.field("v").type):
            found = source.lookup(asked(source, v=[value]))
            assert found.select(["k"]).to_pylist() == [{"k": 1}], (declared, value)
    finally:
        source.close()


PLACES = ["a/b", "50%", "%41", "a=b", "é ☃", " ", "a:b", "a\\b", "..", "#?&", None, "x" * 200]


@pytest.mark.parametrize("lake", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_partitions_of_lakes_have_any_value(lake: str, tmp_path: Any) -> None:
    """Of which paths are made, and read again."""
    table = pa.table({"k": pa.array(range(len(PLACES)), pa.int64()), "part": PLACES})
    if lake == "delta":
        import deltalake

        deltalake.write_deltalake(str(tmp_path / "t"), table, partition_by=["part"])
        source: Source = delta(str(tmp_path / "t"))
    else:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.transforms import IdentityTransform

        stand = Iceberg(tmp_path)
        catalog = load_catalog(**stand.properties)
        catalog.create_namespace("shop")
        made = catalog.create_table("shop.planes", table.schema)
        with made.update_spec() as spec:
            spec.add_field("part", IdentityTransform(), "part_of")
        made.append(table)
        source = stand.source()
    assert rows(pa.Table.from_batches(source.scan())) == rows(table)
    for row in table.to_pylist():
        if row["part"] is not None:
            found = source.lookup(asked(source, part=[row["part"]]), ["k"])
            assert found.select(["k"]).to_pylist() == [{"k": row["k"]}], row
    null = source.lookup(asked(source, part=[None]), ["k"])
    assert null.select(["k"]).to_pylist() == [{"k": PLACES.index(None)}]


def test_an_index_of_sqlite_is_not_taken_for_a_table(tmp_path: Any) -> None:
    """Nor is a name that is not there."""
    script = "CREATE TABLE t (k INTEGER); CREATE INDEX an_index ON t (k)"
    url = in_sqlite(tmp_path / "data.db", script)
    for name in ("an_index", "sqlite_stat1", "nothing"):
        with pytest.raises(SourceError, match=name):
            sql(url, table=name).schema  # noqa: B018
