"""``sql`` and SQLite, whose columns hold values of any type, and whose file is shared."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from source_stands import SQLite
from test_sources_sql_types import (
    MORE,
    TIMES,
    ZONED,
    Case,
    check_own_keys,
    filled,
    quoted,
    text,
    told,
    us,
    utc,
)

from bsjoin.errors import ColumnError, DataError, SourceError
from bsjoin.sources import Source, sql
from bsjoin.sources.databases.sqlite_keys import canonical
from bsjoin.sources.transient import TransientSourceError

DRAWN = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def place(tmp_path: Path) -> SQLite:
    return SQLite(tmp_path)


def source_of(place: SQLite, declared: str, dtype: pa.DataType, values: Sequence[str]) -> Source:
    """A table whose column ``c`` has each of the values, as SQL, twice."""
    place.run("DROP TABLE IF EXISTS t")
    return filled(place, (Case(declared, dtype), [], [*values] * 2))


@DRAWN
@given(
    times=st.lists(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), max_size=8),
    units=st.sampled_from([1, 10, 1000, 10**6, 60 * 10**6, 3600 * 10**6, 86_400 * 10**6]),
    seed=st.integers(0, 1 << 32),
)
def test_any_spelling_of_a_time_is_found(
    place: SQLite, times: list[dt.datetime], units: int, seed: int
) -> None:
    chance = random.Random(seed)
    values = []
    for time in times:
        micro = (time - dt.datetime(1, 1, 1)) // dt.timedelta(microseconds=1) // units * units
        full = (dt.datetime(1, 1, 1) + dt.timedelta(microseconds=micro)).isoformat(
            chance.choice(" T"), "microseconds"
        )
        shortest = full.rstrip("0").rstrip(".") if "." in full else full
        for tail in (":00", ":00", "T00", " 00"):
            shortest = shortest.removesuffix(tail)
        ends = [end for end in (10, 13, 16, 19, 21, 22, 23, 24, 25, 26) if end >= len(shortest)]
        values += [full[: chance.choice(ends)] for _ in range(3)]
    source = source_of(place, "TIMESTAMP", us, quoted(*values))
    scanned = pa.Table.from_batches(source.scan())
    assert len(scanned) == 2 * len(values) + 1
    check_own_keys(source, scanned)
    source.close()


@DRAWN
@given(
    numbers=st.lists(
        st.floats(-1e18, 1e18) | st.integers(-(1 << 63), (1 << 63) - 1)
        | st.decimals(-(10**12), 10**12, places=2).map(float), max_size=12,
    ),
    steps=st.integers(0, 40),
    scale=st.integers(0, 14),
    digits=st.sampled_from([14, 15, 38]),
    indexed=st.booleans(),
)  # fmt: skip
@example(numbers=[0.3, 1e15 - 0.125, 1e15, 9.995, 10.0], steps=1, scale=2, digits=38, indexed=True)
@example(numbers=[0.3, 9.995, 10.0, 99.99], steps=5, scale=2, digits=14, indexed=True)
def test_any_number_of_a_decimal_is_found(
    place: SQLite, numbers: list[float], steps: int, scale: int, digits: int, indexed: bool
) -> None:
    near = list(numbers)
    for number in numbers:
        for _ in range(steps if isinstance(number, float) else 0):
            number = math.nextafter(number, math.inf)
        near.append(number)
    column = f"DECIMAL({digits}, {scale})", pa.decimal128(digits, scale)
    source, fine = source_of(place, *column, list(map(repr, near))), []
    for row in range(len(near)):
        with contextlib.suppress(DataError):
            fine += source.lookup(pa.table({"i": [row]}), ["c", "i"]).column("i").to_pylist()
    source.close()
    source = source_of(place, *column, [repr(near[row]) for row in fine])
    if indexed:
        place.run("CREATE INDEX t_c ON t (c)")
    check_own_keys(source, pa.Table.from_batches(source.scan()))
    source.close()


def test_a_binary_fraction_means_its_decimal_text(place: SQLite) -> None:
    numbers = ["0.1 + 0.2", "1.1", "12345678901234567.0"]
    source = source_of(place, "DECIMAL(20, 2)", pa.decimal128(20, 2), numbers)
    found = pa.Table.from_batches(source.scan(["c"])).column("c").to_pylist()[:3]
    assert found == [Decimal("0.30"), Decimal("1.10"), Decimal("12345678901234568.00")]
    assert canonical(math.inf, pa.decimal128(20, 2)) is None


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="it has no STRICT tables")
def test_any_of_a_strict_table_alone_is_no_decimal_key(place: SQLite) -> None:
    """Elsewhere texts of numbers become numbers."""
    dtype = pa.decimal128(10, 2)
    asked = pa.table({"c": pa.array([Decimal("1.50")], dtype)})

    def found(**what: str) -> list[int]:
        source = place.source(schema={"c": dtype}, **what)
        return sorted(source.lookup(asked, ["i"]).column("i").to_pylist())

    place.run(
        "CREATE TABLE t (i INTEGER, c ANY)",
        "INSERT INTO t VALUES (1, 1.5), (2, '1.50'), (3, 2)",
        "CREATE VIEW v AS SELECT * FROM t",
    )
    for what in ({"table": "T"}, {"table": "v"}, {"query": "SELECT * FROM t"}):
        assert found(**what) == [1, 2]
    place.run("CREATE TABLE s (i INTEGER, c ANY) STRICT", "INSERT INTO s VALUES (1, '1.50')")
    with pytest.raises(ColumnError, match=r"'c' is declared as ANY.*query="):
        found(table="s")
    assert found(table="t") == [1, 2]


def test_a_text_that_is_not_utf_8_costs_no_other_key_its_row(place: SQLite) -> None:
    columns: list[tuple[str, pa.DataType, Any]] = [
        ("TEXT", utc, "2024-01-01T00:00:00Z"),
        ("TEXT", us, "2024-01-01"),
        ("DECIMAL(20, 2)", pa.decimal128(20, 2), 1.5),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), 1.5),
        ("REAL", pa.float32(), 1.5),
    ]
    for declared, dtype, fine in columns:
        with place.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t (i INTEGER, c {declared})")
            cursor.execute("INSERT INTO t VALUES (1, ?)", [fine])
            for wrong in (b"\xff", b"2024-01-01 00:00:00\x00\xff", b"2024-01-01T00:00:00Z\xff"):
                cursor.execute("INSERT INTO t VALUES (2, CAST(? AS TEXT))", [wrong])
        source = place.source(table="t", schema={"c": dtype})
        value = dt.datetime(2024, 1, 1) if pa.types.is_timestamp(dtype) else fine
        key = pa.table({"c": pa.array([value]).cast(dtype)})
        assert source.lookup(key, ["i"]).column("i").to_pylist() == [1]


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_of_any_encoding_are_found(place: SQLite, encoding: str) -> None:
    place.run(f"PRAGMA encoding = '{encoding}'", "CREATE TABLE first (i INTEGER)")
    cases = Case("TIMESTAMP", us, [], TIMES), told("TEXT", utc, ZONED), Case("TEXT", text, [], MORE)
    source = filled(place, *((case, [], [*case.written]) for case in cases))
    scanned = pa.Table.from_batches(source.scan())
    for number, case in enumerate(cases):
        values = scanned.select(["i", f"c{number or ''}"])
        assert len(values.drop_null()) == len(case.written)
        check_own_keys(source, values)


def test_a_file_that_has_taken_the_place_of_another_is_read(place: SQLite) -> None:
    places = [SQLite(place.path.parent, f"{number}.db") for number in range(2)]
    for number, one in enumerate(places):
        one.run("CREATE TABLE t (a INTEGER)", f"INSERT INTO t VALUES ({number})")
    source, asked = place.source(table="t"), pa.table({"a": [0, 1]})
    for number, one in enumerate(places):
        one.path.rename(place.path)
        assert source.lookup(asked).to_pylist() == [{"a": number}]
        place.path.rename(one.path)
        for _ in range(2):
            with pytest.raises(TransientSourceError, match="there is no file"):
                source.lookup(asked)
    with pytest.raises(SourceError, match="there is no file"):  # on another machine
        pickle.loads(pickle.dumps(source)).lookup(asked)
    place.path.parent.joinpath("file").touch()
    with pytest.raises(SourceError, match="there is no file"):
        _ = sql(f"sqlite:///{place.path.parent}/file/a.db", table="t").schema


def test_a_file_that_is_written_over_is_read(place: SQLite) -> None:
    """By another one of the same length and as many commits, which SQLite takes for the same."""
    other = SQLite(place.path.parent, "other.db")
    for one, value in ((place, 1), (other, 2)):
        one.run("CREATE TABLE t (a INTEGER, b INTEGER)", f"INSERT INTO t VALUES (0, {value})")
    source, asked = place.source(table="t"), pa.table({"a": [0]})
    assert source.lookup(asked).to_pylist() == [{"a": 0, "b": 1}]
    place.path.write_bytes(other.path.read_bytes())
    assert source.lookup(asked).to_pylist() == [{"a": 0, "b": 2}]


def test_a_column_without_a_type_needs_the_users_word(place: SQLite) -> None:
    place.run("CREATE TABLE t (i INTEGER, c)", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(SourceError, match=r"'c'.*schema="):
        _ = place.source(table="t").schema
    source = place.source(table="t", schema={"c": pa.string()})
    assert source.lookup(pa.table({"c": ["a"]})).column("i").to_pylist() == [1]


def test_texts_of_one_time_are_not_unique(place: SQLite) -> None:
    place.run(
        "CREATE TABLE t (at TIMESTAMP PRIMARY KEY)",
        "INSERT INTO t VALUES ('2024-01-01 00:00:00'), ('2024-01-01T00:00:00.000')",
    )
    source = place.source(table="t")
    assert not source.is_unique(["at"])
    asked = pa.Table.from_batches(source.scan()).slice(0, 1)
    assert source.lookup(asked).num_rows == 2


def test_a_look_up_uses_the_index(place: SQLite) -> None:
    place.run("CREATE TABLE t (a INTEGER, b TEXT, k DECIMAL, PRIMARY KEY (b, a))")
    place.run("CREATE INDEX t_k ON t (k)")
    source: Any = place.source(table="t")
    source.lookup(pa.table({"b": ["x"]}))
    for asked, used in (
        (pa.table({"a": [1, 2], "b": ["x", "y"]}), "INDEX sqlite_autoindex_t_1 (b=? AND a=?)"),
        (pa.table({"b": ["x"]}), "INDEX sqlite_autoindex_t_1 (b=?)"),
        (pa.table({"k": pa.array([1], pa.decimal128(38, 18))}), "INDEX t_k (k>? AND k<?)"),
    ):
        connection = source._session.held[1]
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        source.lookup(asked, [])
        connection.set_trace_callback(None)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall()
        assert used in " ".join(row[3] for row in plan)


def test_variables_of_a_statement_are_bounded(
    place: SQLite, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.run("CREATE TABLE t (i INTEGER, at TIMESTAMP)", "INSERT INTO t VALUES (7, '2024-01-01')")
    source: Any = place.source(table="t")
    opened = type(source)._open

    def small(self: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = opened(self)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 10)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 1000)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        return connection

    monkeypatch.setattr(type(source), "_open", small)
    times = pa.array([1_704_067_200_000_000 + n for n in range(50)], us)
    for keys in (
        pa.table({"i": list(range(50))}),
        pa.table({"at": times}),
        pa.table({"i": [7] * 50, "at": times}),
    ):
        assert source.lookup(keys, ["i"]).column("i").to_pylist() == [7]


def test_a_file_that_is_locked_is_a_fault_and_one_in_wal_mode_is_only_read(place: SQLite) -> None:
    place.run("PRAGMA journal_mode = wal", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)")
    source: Any = place.source(table="t", timeout=0.2)
    asked = pa.table({"a": [1]})
    assert source.lookup(asked).num_rows == 1
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        source._session.held[1].execute("DELETE FROM t")
    for query in ("DELETE FROM t RETURNING a", "SELECT 1) AS t; DELETE FROM t; --"):
        with pytest.raises(SourceError):
            _ = place.source(query=query).schema
    source.close()
    place.run("PRAGMA journal_mode = delete")
    with place.cursor() as cursor:
        cursor.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TransientSourceError, match="locked"):
            source.lookup(asked)
    assert source.lookup(asked).num_rows == 1


def test_what_a_writer_has_left_that_died_is_a_fault_until_the_next_one_writes(
    place: SQLite,
) -> None:
    place.run("CREATE TABLE t (a INTEGER, b TEXT)", "INSERT INTO t VALUES (1, 'x')")
    left = SQLite(place.path.parent, "left.db")
    with contextlib.closing(sqlite3.connect(place.path, isolation_level=None)) as writer:
        for statement in ("PRAGMA cache_size = 1", "BEGIN", "UPDATE t SET b = 'y'"):
            writer.execute(statement)
        writer.executemany("INSERT INTO t VALUES (?, ?)", [(n, "y" * 1000) for n in range(99)])
        for end in ("", "-journal"):
            shutil.copyfile(f"{place.path}{end}", f"{left.path}{end}")
    source, asked = sql(f"sqlite:///{left.path}", table="t"), pa.table({"a": [1]})
    with pytest.raises(SourceError, match="died in a transaction") as caught:
        _ = source.schema
    assert caught.value.is_transient
    left.run("CREATE INDEX t_a ON t (a)")
    assert source.lookup(asked).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a mount of its own")
def test_wal_mode_on_a_read_only_mount_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    database = SQLite(folder, "a.db")
    database.run("PRAGMA journal_mode = wal", "CREATE TABLE t (a INTEGER)")
    url = f"sqlite:///{database.path}"
    code = f"from bsjoin.sources import sql\nprint(sql({url!r}, table='t').schema)"
    mounted = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mounted} || exit 77; exec "$0" -c "$1"',
         sys.executable, code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert "SourceError" in done.stderr
    assert "journal_mode" in done.stderr
    assert sql(url, table="t").schema.names == ["a"]


def test_a_relative_path_is_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = SQLite(tmp_path, "a.db")
    database.run("CREATE TABLE t (a INTEGER)")
    monkeypatch.chdir(tmp_path)
    source = sql("sqlite:///a.db", table="t")
    monkeypatch.chdir("/")
    assert source.schema.names == ["a"]
    assert sql("sqlite:///a.db", table="t").database != source.database  # nor is the connection
