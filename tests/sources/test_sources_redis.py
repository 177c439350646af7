"""``redis``: rows by their keys, values held against the schema."""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from servers import Redis
from test_sources_credentials import raised

import bsjoin.sources
from bsjoin.errors import ArgumentError, ColumnError, DataError, SourceError
from bsjoin.sources.transient import TransientSourceError

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("utc", pa.timestamp("us", "UTC")),
    ]
)
ROW: dict[str, Any] = {
    "n": -5,
    "f": 0.1,
    "d": Decimal("12345678.90"),
    "s": "é☃ \"'",
    "ok": True,
    "day": dt.date(2024, 2, 29),
    "at": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
    "utc": dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
}
TEXTS = {
    name: str(value).lower() if isinstance(value, bool) else str(value)
    for name, value in ROW.items()
}


@pytest.fixture
def client(redis_server: Redis) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(redis_server.url) as made:
        made.flushdb()
        yield made


def source_of(server: Redis, schema: Any = SCHEMA, key: str = "row:{id}", **options: Any) -> Any:
    return bsjoin.sources.redis(server.url, key=key, schema=schema, **options)


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def test_fields_of_hashes_get_their_types(client: Any, redis_server: Redis) -> None:
    client.hset("row:1", mapping=TEXTS)
    client.hset("row:2", mapping={"n": "7"})
    client.hset("row:3", mapping={"other": "7"})
    source = source_of(redis_server)
    found = source.lookup(ids(1, 2, 3, 4))
    assert found.schema.equals(SCHEMA)
    empty = dict.fromkeys(ROW)
    assert found.to_pylist() == [
        {"id": 1, **ROW},
        {"id": 2, **empty, "n": 7},
        {"id": 3, **empty},
    ]
    assert source.lookup(ids(1, 4), ["s"]).to_pylist() == [{"id": 1, "s": ROW["s"]}]
    assert source.lookup(ids(3, 4), []).to_pylist() == [{"id": 3}]


def test_members_of_json_get_their_types(client: Any, redis_server: Redis) -> None:
    nested = pa.schema(
        [
            ("l", pa.list_(pa.float64())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("o", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.decimal128(5, 2)))])),
        ]
    )
    schema = pa.schema([*SCHEMA, *nested])
    more = {"l": [1.5, None], "m": {"a": 1}, "o": {"x": 1, "y": [1.25]}}
    plain = {**TEXTS, "n": -5, "f": 0.1, "ok": True, **more}
    client.set("row:1", json.dumps(plain))
    client.set("row:2", "{}")
    client.set("row:3", '{"f": 5, "d": 12345678.90, "n": null}')
    source = source_of(redis_server, schema, kind="json")
    found = source.lookup(ids(1, 2, 3, 4))
    assert found.schema.equals(schema)
    rows = found.to_pylist()
    assert rows[0] == {
        "id": 1, **ROW, "l": [1.5, None], "m": [("a", 1)],
        "o": {"x": 1, "y": [Decimal("1.25")]},
    }  # fmt: skip
    assert set(rows[1].values()) == {2, None}
    assert (rows[2]["f"], rows[2]["d"], rows[2]["n"]) == (5.0, ROW["d"], None)
    assert len(rows) == 3


FIELDS = [
    ("n", "1.5"), ("n", "1_0"), ("n", " 1"), ("n", "3000000000"), ("f", "x"), ("d", "1.005"),
    ("n", "0x10"), ("d", "NaN"), ("d", "1e30"), ("ok", "yes"), ("day", "2024-02-30"), ("at", "now"),
    ("at", "2024-01-01T00:00:00Z"), ("s", b"\xff"), ("n", ""),
]  # fmt: skip
MEMBERS = [
    ("n", "5"), ("n", 1.5), ("n", True), ("n", 1 << 40), ("f", "0.1"), ("s", 5), ("ok", "true"),
    ("day", 20240101), ("s", ["a"]), ("l", [1, "x"]), ("l", 5), ("o", []), ("o", {"x": "1"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "wrong"), [("hash", FIELDS), ("json", MEMBERS)])
def test_a_wrong_value_is_named_with_its_key(
    client: Any, redis_server: Redis, kind: str, wrong: list[tuple[str, Any]]
) -> None:
    nested = [("l", pa.list_(pa.int64())), ("o", pa.struct([("x", pa.int32())]))]
    schema = pa.schema([*SCHEMA, *(nested if kind == "json" else [])])
    source = source_of(redis_server, schema, kind=kind)
    for number, (name, value) in enumerate(wrong):
        if kind == "hash":
            client.hset(f"row:{number}", mapping={**TEXTS, name: value})
        else:
            client.set(f"row:{number}", json.dumps({name: value}))
        with pytest.raises(SourceError, match=rf"field '{name}' of the key 'row:{number}'"):
            source.lookup(ids(number, 99))


def test_what_is_stored_otherwise_is_named(client: Any, redis_server: Redis) -> None:
    client.set("row:1", "text")
    client.set("row:2", "[1]")
    client.set("row:4", "[" * 1_000_000)
    client.hset("row:3", mapping=TEXTS)
    hashes = source_of(redis_server)
    with pytest.raises(SourceError, match=r"'row:1' does not contain a hash"):
        hashes.lookup(ids(1))
    texts = source_of(redis_server, kind="json")
    for number in (1, 2, 4):
        with pytest.raises(SourceError, match=rf"'row:{number}' does not contain a JSON object"):
            texts.lookup(ids(number))
    assert texts.lookup(ids(3)).num_rows == 0  # MGET has no word for it


@pytest.mark.parametrize("kind", ["hash", "json"])
def test_a_fault_names_all_keys_that_it_concerns(
    client: Any, redis_server: Redis, kind: str
) -> None:
    other, wrong, absent = {3, 4, 17}, {5, 18, 19}, {7, 20}
    for number in set(range(20)) - absent:
        value = "x" if number in wrong else number
        if number in other:
            client.set(f"row:{number}", "no object")
        elif kind == "hash":
            client.hset(f"row:{number}", mapping={"n": value})
        else:
            client.set(f"row:{number}", json.dumps({"n": value}))
    source = source_of(redis_server, kind=kind)
    asked = ids(*range(21))
    for bad in (other, wrong):
        with pytest.raises(DataError) as caught:
            source.lookup(asked)
        assert caught.value.keys.column_names == ["id"]
        assert set(caught.value.keys["id"].to_pylist()) == bad
        asked = ids(*(set(asked["id"].to_pylist()) - bad))
    assert set(source.lookup(asked)["id"].to_pylist()) == set(range(20)) - other - wrong - absent


KEYS: list[tuple[pa.DataType, Any, str]] = [
    (pa.int8(), -5, "-5"),
    (pa.string(), "a:{b}*? é", "a:{b}*? é"),
    (pa.string(), "", ""),
    (pa.bool_(), True, "true"),
    (pa.bool_(), False, "false"),
    (pa.date32(), dt.date(2024, 2, 29), "2024-02-29"),
    (pa.decimal128(38, 10), Decimal("0.0000000001"), "0.0000000001"),
    (pa.decimal128(10, 2), Decimal("1.50"), "1.50"),
]


def test_key_columns_stand_in_the_key(client: Any, redis_server: Redis) -> None:
    for dtype, value, text in KEYS:
        client.hset(f"{{x}}/{text}/7", mapping={"v": "b"})
        schema = {"k": dtype, "n": pa.int64(), "v": pa.string()}
        source = source_of(redis_server, schema, key="{{x}}/{k}/{n}")
        asked = pa.table({"n": pa.array([7, 8]), "k": pa.array([value, value], dtype)})
        assert source.lookup(asked).select(["k", "n", "v"]).to_pylist() == [
            {"k": value, "n": 7, "v": "b"}
        ]
    source_of(redis_server, key="{{{ok}{day}{{{n}")  # of texts that end by themselves
    assert source.is_unique(["n", "k"])
    assert not source.is_unique(["k"])
    with pytest.raises(ColumnError, match="exactly the columns"):
        source.lookup(asked.select(["k"]))
    # Python's calendar ends with the year 9999: a later day has no text, and so is in no key.
    client.hset("row:2000-01-01", mapping={"v": "b"})
    source = source_of(redis_server, {"id": pa.date32(), "v": pa.string()})
    far = [10_000_000, 24_847_447, -(2**31)]  # the second is of the year 70,000: 4464 in 16 bits
    days = pa.array([10_957, *far], pa.int32()).cast(pa.date32())
    found = source.lookup(pa.table({"id": days}))
    assert found.to_pylist() == [{"id": dt.date(2000, 1, 1), "v": "b"}]
    for kind in ("hash", "json"):
        source = source_of(redis_server, {"id": pa.date32(), "v": pa.string()}, kind=kind)
        assert source.lookup(pa.table({"id": days[1:]})).num_rows == 0


def test_a_hash_that_is_made_during_a_look_up_has_its_fields(
    client: Any, redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(redis_server)
    answers = source._client.answers

    def slow(there: Any, commands: Any) -> Any:
        found = answers(there, commands)
        client.hset("row:1", mapping={"n": "7"})
        client.hset("row:2", mapping={"other": "7"})
        return found

    monkeypatch.setattr(source._client, "answers", slow)
    found = source.lookup(ids(1, 2, 3), ["n"])
    assert found.to_pylist() == [{"id": 1, "n": 7}, {"id": 2, "n": None}]


def test_a_restart_is_a_fault_and_then_forgotten_and_so_is_a_server_that_answers_nothing(
    client: Any, redis_server: Redis
) -> None:
    schema = {"id": pa.int64(), "v": pa.string()}
    sources = [source_of(redis_server, schema, kind=kind, timeout=0.5) for kind in ("hash", "json")]
    assert [source.lookup(ids(1)).num_rows for source in sources] == [0, 0]
    redis_server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(TransientSourceError):
            sources[0].lookup(ids(1))
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
    assert sources[0].lookup(ids(1)).num_rows == 0
    try:
        redis_server.kill()
        for source in sources * 2:
            raised(lambda source=source: source.lookup(ids(1)), TransientSourceError)
    finally:
        redis_server.start()
    for source in sources:
        assert source.lookup(ids(1)).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "http://host"}, "not known"),
        ({"url": "redis+sentinel://me:secret@host:26379/mymaster"}, "not known"),
        ({"url": "redis://u:p/w@host"}, "percent-encoded"),
        ({"url": "redis://host/shop"}, "no number of a database"),
        ({"key": "row"}, "name the key columns"),
        ({"key": "row:{"}, "key="),
        ({"key": "row:{}"}, "no column ''"),
        ({"key": "row:{ide}"}, "Did you mean 'id'"),
        ({"key": "row:{id:05}"}, "no formats"),
        ({"key": "row:{id!r}"}, "no formats"),
        ({"key": "row:{f}"}, "no unique text form"),
        ({"key": "row:{b}", "schema": {"b": pa.binary()}}, "no unique text form"),
        ({"key": 5}, "key=5"),
        ({"key": "row:{id}{n}"}, r"nothing is between 'id' and 'n'.*one column.*F\.concat"),
        ({"kind": "set"}, "kind='set'"),
        ({"timeout": 0}, "timeout=0"),
        ({"max_keys": 0}, "max_keys=0"),
        ({"schema": {"id": pa.int64(), "l": pa.list_(pa.int64())}}, 'kind="json"'),
        ({"schema": {"id": pa.int64(), "b": pa.binary()}, "kind": "json"}, "binary"),
    ],
)
def test_arguments_are_checked_at_the_call(arguments: dict[str, Any], words: str) -> None:
    given = {"url": "redis://host", "key": "row:{id}", "schema": SCHEMA, **arguments}
    with pytest.raises(ArgumentError, match=words):
        bsjoin.sources.redis(**given)


def test_an_absent_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SourceError, match=r'pip install "bsjoin\[redis\]"'):
        bsjoin.sources.redis("redis://host", key="{id}", schema=SCHEMA).lookup(ids(1))
