"""Values that Spark's calendar or types cannot hold: their nearest meaning, or an error; arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import MariaDB as MariaDBServer
from servers import PostgreSQL as PostgreSQLServer
from source_stands import Database, DuckDB, MariaDB, PostgreSQL

from bsjoin.errors import DataError
from bsjoin.sources import Source
from bsjoin.sources.infinite import ENDS, Infinities, bounded
from bsjoin.sources.pgarrays import nested

us, utc = pa.timestamp("us"), pa.timestamp("us", "UTC")
FIRST, LAST = ENDS["date"]
BEGIN, END = ENDS["time"]


def numbers(column: pa.ChunkedArray) -> list[Any]:
    """Dates and times as the numbers of Arrow, which reach further than Python's."""
    return [_numbers(value) for value in column]


def _numbers(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, pa.MapScalar):
        return [(pair[0].as_py(), _numbers(pair[1])) for pair in map(_parts, value.values)]
    if isinstance(value, pa.ListScalar):
        return [_numbers(item) for item in value.values]
    if isinstance(value, pa.StructScalar):
        return {name: _numbers(item) for name, item in value.items()}
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


def _parts(pair: pa.Scalar) -> list[pa.Scalar]:
    return [pair[0], pair[1]]


def scanned(source: Source, name: str) -> list[Any]:
    found = numbers(pa.Table.from_batches(source.scan([name])).column(name))
    source.close()
    return found


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_infinite_times_are_the_ends_of_sparks_calendar(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "duckdb":
        place: Database = DuckDB(tmp_path)
        nests = {
            "STRUCT(a DATE, b TIMESTAMP[])": ("{'a': 'infinity', 'b': ['-infinity']}",
                                              {"a": LAST, "b": [BEGIN]}),
            "MAP(VARCHAR, DATE)": ("MAP {'x': DATE '-infinity'}", [("x", FIRST)]),
            "TIMESTAMP_S[]": ("['infinity']", [END // 10**6 * 10**6]),
            "DATE[][]": ("[['infinity'], NULL, ['-infinity', '1970-01-02']]",
                         [[LAST], None, [FIRST, 1]]),
        }  # fmt: skip
    else:
        place = PostgreSQL(request.getfixturevalue("postgresql").url)
        place.run("DROP TYPE IF EXISTS a_pair CASCADE", "CREATE TYPE a_pair AS (a int, b date)")
        nests = {
            "daterange": ("'[2024-01-01,infinity)'", "[2024-01-01,infinity)"),
            "tsrange": ("'[-infinity,2024-01-01)'", '[-infinity,"2024-01-01 00:00:00")'),
            "a_pair": ("(1, 'infinity')", "(1,infinity)"),
            "a_pair[]": ("ARRAY[(1, 'infinity')::a_pair]", ["(1,infinity)"]),
            "date[][]": ("'{{infinity,1970-01-02},{-infinity,null}}'",
                         [[LAST, 1], [FIRST, None]]),
            "timestamptz[]": ("'{-infinity,infinity}'", [BEGIN, END]),
        }  # fmt: skip
    cases: dict[str, tuple[str, Any]] = {
        "DATE": ("'infinity'", LAST),
        "TIMESTAMP": ("'infinity'", END),
        "TIMESTAMPTZ": ("'-infinity'", BEGIN),
        "DATE[]": ("'{infinity,-infinity,1970-01-02}'" if kind != "duckdb" else
                   "['infinity', '-infinity', '1970-01-02']", [LAST, FIRST, 1]),
        **nests,
    }  # fmt: skip
    for declared, (value, meaning) in cases.items():
        place.run(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t (i INTEGER, c {declared})",
            f"INSERT INTO t VALUES (1, {value}), (2, NULL)",
        )
        assert scanned(place.source(table="t"), "c") == [meaning, None], declared
        source = place.source(query="SELECT c, i FROM t WHERE i = 1")
        found = source.lookup(pa.table({"i": pa.array([1], pa.int32())}), ["c"]).column("c")
        assert numbers(found) == [meaning], declared
        source.close()


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_far_times_are_themselves(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place: Database = (
        DuckDB(tmp_path)
        if kind == "duckdb"
        else PostgreSQL(request.getfixturevalue("postgresql").url)
    )
    bc = " (BC)" if kind == "duckdb" else " BC"
    place.run(
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (d DATE, s TIMESTAMP)",
        "INSERT INTO t VALUES ('10000-01-01', '10000-01-01'), ('5874897-12-31', "
        f"'294247-01-10 04:00:54.7758'), ('4713-01-01{bc}', '4713-01-01{bc}')",
    )
    assert scanned(place.source(table="t"), "d") == [2_932_897, 2_145_042_905, -2_440_550]
    assert scanned(place.source(table="t"), "s") == [
        2_932_897 * 86_400_000_000, 9_223_372_036_854_775_800, -2_440_550 * 86_400_000_000,
    ]  # fmt: skip


def test_times_after_the_year_294247_are_an_error(postgresql: PostgreSQLServer) -> None:
    place = PostgreSQL(postgresql.url)
    far = "294276-12-31 23:59:59.999999"
    for declared, value in (
        ("timestamp", f"'{far}'"),
        ("timestamptz", f"'{far}Z'"),
        ("timestamp[]", f"ARRAY['infinity', '{far}', NULL]::timestamp[]"),
    ):
        place.run(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t (i int, c {declared})",
            f"INSERT INTO t VALUES (1, {value}), (2, NULL)",
        )
        source = place.source(table="t")
        with pytest.raises(
            DataError, match=rf"table='t'.*'c' \({declared[:9]}.*{far}.*schema="
        ) as error:
            list(source.scan())
        assert "postgresql://tester:***@" in str(error.value)
        both = [pa.table({"i": pa.array([i], pa.int32())}) for i in (1, 2)]
        with pytest.raises(DataError, match=far):
            source.lookup(both[0])
        assert source.lookup(both[1]).column("c").to_pylist() == [None]
        source.close()
        # What the message says helps.
        source = place.source(table="t", schema={"c": pa.string()})
        assert far in str(source.lookup(both[0]).column("c"))
        source.close()


@pytest.mark.parametrize("kind", ["date", "datetime(6)", "timestamp null"])
def test_the_advice_for_zero_dates_helps(kind: str, mariadb: MariaDBServer) -> None:
    place = MariaDB(mariadb.url)
    written = ["0000-00-00", "2024-01-02"]
    if "timestamp" not in kind:
        written += ["2024-00-15", "2024-02-00"]
    with place.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t (i INT, c {kind})")
        for number, value in enumerate(written):
            cursor.execute("INSERT INTO t VALUES (%s, %s)", [number, value])
    asked = pa.table({"i": pa.array(range(4), pa.int32())})
    source = place.source(table="t")
    with pytest.raises(DataError, match=r"table='t'.*'c'.*0000-00-00.*schema=.*string\(\)"):
        source.lookup(asked)
    assert len(source.lookup(asked.slice(1, 1))) == 1
    source.close()
    source = place.source(table="t", schema={"c": pa.string()})
    found = source.lookup(asked).column("c").to_pylist()
    assert [text[:10] for text in found] == written
    source.close()
    source = place.source(query="SELECT i, CAST(NULLIF(c, 0) AS CHAR) AS c FROM t")
    assert source.lookup(asked.slice(0, 1)).column("c").to_pylist() == [None]
    source.close()


def test_arrays_keep_their_dimensions(postgresql: PostgreSQLServer) -> None:
    place = PostgreSQL(postgresql.url)
    place.run(
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (i int, a int[][], b text[][][], n numeric[][], one int[], c bigint[])",
        "INSERT INTO t VALUES (1, '{{1,2},{3,null}}', '{{{a},{b}}}', '{{1.5},{2}}', '{1}', '{5}'),"
        "(2, '{}', '{}', '{}', '{}', '{}'), (3, NULL, NULL, NULL, NULL, NULL),"
        "(4, '[2:3][5:6]={{1,2},{3,4}}', '{{{x,y}},{{z,null}}}', '{{1,2}}', '[0:1]={1,2}', '{}')",
    )
    items = pa.list_(pa.list_(pa.int32()))
    for source in (
        place.source(table="t"),
        place.source(query="SELECT * FROM t"),
        place.source(query="SELECT i, coalesce(a, a) AS a, b, n, one, c FROM t ORDER BY i"),
    ):
        assert source.schema.field("a").type == items
        found = pa.Table.from_batches(source.scan(["i", "a", "b", "one", "n"])).sort_by("i")
        assert found.column("a").to_pylist() == [
            [[1, 2], [3, None]], [], None, [[1, 2], [3, 4]],
        ]  # fmt: skip
        assert found.column("b").to_pylist() == [
            [[["a"], ["b"]]], [], None, [[["x", "y"]], [["z", None]]],
        ]  # fmt: skip
        assert found.column("one").to_pylist() == [[1], [], None, [1, 2]]
        assert [n and [[str(d)[:3] for d in r] for r in n] for n in found["n"].to_pylist()] == [
            [["1.5"], ["2.0"]], [], None, [["1.0", "2.0"]],
        ]  # fmt: skip
        source.close()
    place.run("INSERT INTO t (i, one, c) VALUES (5, '{{1,2}}', '{{1,2}}')")
    source = place.source(table="t")
    fifth = pa.table({"i": pa.array([5], pa.int32())})
    with pytest.raises(DataError, match=r"'one' \(int4\[\]\).*2 dimensions.*\[1, 2\].*schema="):
        source.lookup(fifth)
    assert source.lookup(fifth, ["a"]).column("a").to_pylist() == [None]
    source.close()
    source = place.source(table="t", schema={"one": items, "c": pa.string()})
    assert source.lookup(fifth).select(["one", "c"]).to_pylist() == [
        {"one": [[1, 2]], "c": "{{1,2}}"}
    ]
    source.close()


def test_types_of_the_user_may_have_any_name(postgresql: PostgreSQLServer) -> None:
    place = PostgreSQL(postgresql.url)
    place.run(
        "DROP SCHEMA IF EXISTS others CASCADE",
        "CREATE SCHEMA others",
        "CREATE TYPE others._a AS (x int, y int[])",
        "CREATE TYPE others._int4 AS (x int)",
        "CREATE TYPE others.numeric AS ENUM ('one', 'two')",
        "CREATE TYPE others.timestamp AS (x date)",
        "CREATE DOMAIN others._date AS date[]",
        "DROP TABLE IF EXISTS t",
        "CREATE TABLE t (i int, a others._a, b others._int4, c others.numeric, d others.timestamp,"
        " e others._date, f others._a[], g others.numeric[], h int2vector)",
        "INSERT INTO t VALUES (1, (1, '{2,3}'), ROW(5), 'two', ROW('infinity'), '{infinity}', "
        "ARRAY[(1, '{2}')::others._a], '{one}', '1 2')",
    )
    for source in (place.source(table="t"), place.source(query="SELECT * FROM t")):
        found = pa.Table.from_batches(source.scan())
        texts = {name: found.column(name)[0].as_py() for name in "abcdfgh"}
        assert texts == {
            "a": '(1,"{2,3}")', "b": "(5)", "c": "two", "d": "(infinity)",
            "f": ['(1,{2})'], "g": ["one"], "h": "1 2",
        }  # fmt: skip
        assert numbers(found.column("e")) == [[LAST]]
        keys = found.select(["c", "b"])
        assert source.lookup(keys, ["i"]).column("i").to_pylist() == [1]
        source.close()


leaves = st.one_of(st.none(), st.integers(-5, 5))


@given(st.lists(st.one_of(st.none(), st.lists(leaves, max_size=3)), max_size=6), st.integers(0, 3))
def test_infinite_values_are_found_in_every_part_of_an_array(
    rows: list[list[int | None] | None], begin: int
) -> None:
    codes = Infinities(date=(-5, 5), time=(-5, 5))
    ends = {-5: FIRST, 5: LAST}
    lists = pa.array(rows, pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    structs = pa.StructArray.from_arrays([lists], ["x"])
    for array in (lists, structs, pa.array(rows, pa.list_(pa.int32()))):
        part = pa.chunked_array([array.slice(begin), array])
        expected = [
            row and [item if item is None else ends.get(item, item) for item in row]
            for row in [*rows[begin:], *rows]
        ]
        found = bounded(part, codes)
        assert found.type == array.type
        if array is structs:
            found = pa.chunked_array([chunk.field(0) for chunk in found.chunks], lists.type)
        if pa.types.is_integer(array.type.value_type if array is not structs else pa.date32()):
            expected = [*rows[begin:], *rows]
        assert numbers(found) == expected


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 3), st.integers(1, 3))), max_size=6))
def test_lengths_make_lists_of_lists(shapes: list[tuple[int, int] | None]) -> None:
    rows = [
        None if shape is None else [list(range(n * 10, n * 10 + shape[1])) for n in range(shape[0])]
        for shape in shapes
    ]
    rows.append([])
    flat = pa.array(
        [row and [x for part in row for x in part] for row in rows], pa.list_(pa.int32())
    )
    lengths = pa.array([*shapes, None], pa.list_(pa.int64()))
    found = nested(pa.chunked_array([flat]), pa.chunked_array([lengths]), 2)
    assert found.to_pylist() == rows
    if any(shapes):
        with pytest.raises(ValueError, match="2 dimensions"):
            nested(pa.chunked_array([flat]), pa.chunked_array([lengths]), 1)
