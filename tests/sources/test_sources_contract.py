"""What holds for every source: look-ups equal a filter, see what is committed, and travel."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import traceback
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from source_stands import (
    EVERYWHERE,
    SCHEMA,
    STANDS,
    Database,
    Redis,
    Stand,
    kinds,
    matching,
    rows,
)

IDS = list(range(-2, 9))
CODES = ["a", "A", "b'", '"', "é", "e", "", "a ", "x'); DROP TABLE planes; --", "%s", "\\", "☃"]
KEYS = SCHEMA.names[:2]


def model(copies: int) -> pa.Table:
    made = [
        {
            "id": number,
            "code": code,
            "amount": Decimal(number * 100 + copy) / 100 if number else None,
            "day": dt.date(2024, 1, 1) + dt.timedelta(number),
            "note": None if number == 3 else f"{code}/{number}/{copy}",
        }
        for number in IDS[:-2]
        for code in CODES[:-1]
        for copy in range(copies)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.fixture(scope="module", params=EVERYWHERE)
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stand:
    found = STANDS[request.param](tmp_path_factory.mktemp("stand"), request)
    if isinstance(found, Database):
        found.create()
    found.put(rows_for(found))
    return found


def rows_for(stand: Stand) -> pa.Table:
    return model(1 if isinstance(stand, Redis) else 2)


@pytest.fixture(scope="module")
def table(stand: Stand) -> pa.Table:
    return rows_for(stand)


def stands(*quick: str, without: str | tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Each kind of source; all but the quick ones are left to ``make long``."""
    every = (kind for kind in EVERYWHERE if not kind.startswith(without))
    return pytest.mark.parametrize("stand", kinds(every, *quick), indirect=True)


def keys(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table(
        {"id": [number for number, _ in pairs], "code": [code for _, code in pairs]},
        schema=pa.schema([SCHEMA.field(name) for name in KEYS]),
    )


def test_the_schema_the_size_and_all_rows_are_those_of_the_table(
    stand: Stand, table: pa.Table
) -> None:
    source = stand.source()
    assert source.schema.equals(SCHEMA)
    assert all(field.nullable for field in source.schema)
    assert source.can_scan == stand.scans
    if not stand.scans:
        return
    for names in (None, ["note", "id"], ["day"]):
        batches = list(source.scan(names))
        wanted = SCHEMA.names if names is None else names
        assert all(batch.schema.names == wanted for batch in batches)
        found = pa.Table.from_batches(batches)
        assert found.schema.equals(pa.schema([SCHEMA.field(name) for name in wanted]))
        assert rows(found) == rows(table, wanted)
    assert source.size() == len(table)


@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_look_up_equals_a_filter(stand: Stand, table: pa.Table, data: st.DataObject) -> None:
    source = stand.source()
    pair = st.tuples(st.sampled_from(IDS), st.sampled_from(CODES))
    asked = keys(*data.draw(st.lists(pair, min_size=1, unique=True)))
    wanted = data.draw(st.none() | st.lists(st.sampled_from(SCHEMA.names), unique=True))
    found = source.lookup(asked, wanted)
    names = list(dict.fromkeys([*KEYS, *(SCHEMA.names if wanted is None else wanted)]))
    assert set(names) <= set(found.column_names)
    for name in names:
        assert found.schema.field(name).type == SCHEMA.field(name).type
    assert rows(matching(found, asked), names) == rows(matching(table, asked), names)


# As Spark's strings may have them.
WRONG_TEXTS = (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80")


# What a function does with such a text is its own.
@stands("sqlite", "postgresql", "delta", without="function")
def test_a_key_that_is_not_utf_8_costs_no_other_its_row(stand: Stand, table: pa.Table) -> None:
    source = stand.source()
    texts = pa.array([b"a", *WRONG_TEXTS, b"\\", b"absent"], pa.binary()).view(pa.string())
    asked = pa.table({"id": pa.array([1] * len(texts), pa.int64()), "code": texts})
    wanted = matching(table, keys((1, "a"), (1, "\\")))
    fine = source.lookup(asked)
    assert rows(matching(fine, keys((1, "a"), (1, "\\")))) == rows(wanted)
    nothing = source.lookup(asked.slice(1, len(WRONG_TEXTS)), ["day"])
    assert set(nothing.schema.names) == {*KEYS, "day"}
    assert len(nothing) == 0


# Redis is asked by its whole key. Of the others all take null keys.
@stands("sqlite", "postgresql", "parquet", "delta", without="redis")
def test_any_columns_are_a_key_and_may_be_null(stand: Stand, table: pa.Table) -> None:
    source = stand.source()
    assert source.takes_null_keys
    for name in ("id", "code", "amount", "day"):
        asked = table.select([name]).group_by(name).aggregate([]).drop_null().slice(0, 5)
        right = rows(matching(table, asked), SCHEMA.names)
        assert rows(matching(source.lookup(asked), asked), SCHEMA.names) == right, name
    both = pa.Table.from_pylist(
        [{"id": 7, "code": None}, {"id": 0, "code": "a", "note": "a/0/0"}, {"code": "A"}], SCHEMA
    )
    null = pc.or_(table["note"].is_null(), table["amount"].is_null())
    rows_of_keys = pa.concat_tables([both, table.filter(null).slice(0, 9), table.slice(50, 3)])
    for names in (["note"], ["amount", "id", "note"], ["code", "amount"], ["amount"]):
        asked = rows_of_keys.select(names).group_by(names).aggregate([])
        only_nulls = asked.filter(pc.invert(asked[names[-1]].is_valid()))
        for part in (asked, only_nulls):
            found = source.lookup(part)
            assert {(f.name, f.type) for f in found.schema} == {(f.name, f.type) for f in SCHEMA}
            right = rows(matching(table, part), SCHEMA.names)
            assert rows(matching(found, part), SCHEMA.names) == right, names


# Those by ADBC split them themselves: test_sources_adbc.py.
@stands("sqlite", "mariadb", "redis json", without="adbc")
def test_a_look_up_takes_as_many_keys_as_it_says(stand: Stand, table: pa.Table) -> None:
    source = stand.source()
    asked = keys(*((n, "a") for n in range(-source.max_keys // 2, source.max_keys // 2)))
    assert len(asked) == source.max_keys == 10_000
    found = source.lookup(asked)
    assert rows(matching(found, asked)) == rows(matching(table, asked))


@stands("sqlite", "postgresql", "iceberg", "redis hash")
def test_a_source_travels_with_its_schema(stand: Stand) -> None:
    source = stand.source()
    asked = keys((1, "a"), (7, "é"))
    here = source.lookup(asked)
    for pickler in (pickle, cloudpickle):
        copy = pickle.loads(pickler.dumps(source))
        assert copy.token == source.token
        assert copy.schema.equals(source.schema)
        assert rows(copy.lookup(asked)) == rows(here)
        copy.close()
    source.close()
    assert rows(source.lookup(asked)) == rows(here)


def in_a_child(work: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        fine = False
        try:
            fine = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0 if fine else 1)
    return os.waitpid(child, 0)[1] == 0


# DuckDB's and Arrow's threads do not survive a fork; Spark's daemon forks before it reads.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "stand", kinds(("sqlite", "postgresql", "mariadb", "redis hash"), "postgresql"), indirect=True
)
def test_a_child_process_opens_its_own_connection(stand: Stand) -> None:
    source = stand.source()
    asked = keys((1, "a"), (7, "é"))
    here = rows(source.lookup(asked))

    def same() -> bool:
        fine = rows(source.lookup(asked)) == here
        source.close()
        return fine

    assert in_a_child(same)
    assert rows(source.lookup(asked)) == here
    assert in_a_child(same)
    assert rows(source.lookup(asked)) == here


@stands("sqlite", "postgresql", "parquet", "iceberg", "function", "redis cluster hash")
def test_what_is_committed_is_seen_by_the_next_look_up(stand: Stand) -> None:
    """The last one: the rows stay changed."""
    source = stand.source()
    asked = keys((1, "a"), (2, "a"), (8, "a"))

    def notes() -> list[object]:
        found = matching(source.lookup(asked), asked)
        return sorted(found.column("note").to_pylist(), key=str)

    one = keys((1, "a"))
    empty = pa.nulls(1, pa.decimal128(10, 2)), pa.nulls(1, pa.date32())

    def row(number: int, note: str) -> pa.Table:
        return pa.table([[number], ["a"], *empty, [note]], schema=SCHEMA)

    stand.put(pa.concat_tables([row(1, "one"), row(2, "two")]))
    assert notes() == ["one", "two"]
    stand.put(pa.concat_tables([row(1, "changed"), row(2, "two"), row(8, "new")]))
    assert notes() == ["changed", "new", "two"]
    stand.put(row(8, "new"))
    assert notes() == ["new"]
    assert len(matching(source.lookup(one), one)) == 0
