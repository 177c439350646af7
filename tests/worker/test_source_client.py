"""SourceClient: retries, backoff, permits, metrics."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from sqlite_files import in_sqlite

import bsjoin
from bsjoin.cache import ConnectionSemaphore
from bsjoin.errors import LookupFailedError
from bsjoin.plan import RetryPolicy
from bsjoin.runtimes.python.worker.connections import SharedConnection
from bsjoin.runtimes.python.worker.source_client import Figures, SourceClient
from bsjoin.sources import Source, transient

SCHEMA = pa.schema([("k", pa.int64())])
KEYS = pa.table({"k": [1, 2, 3]})


class Troubled(Source):
    """Fails so many times before each answer, and notes what happens to it."""

    schema = SCHEMA

    def __init__(self, faults: Sequence[Exception] = ()):
        super().__init__()
        self.faults = list(faults)
        self.asked = self.closed = 0
        self.inside = self.most_inside = 0
        self.seconds = 0.0

    def lookup(self, keys: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        self.asked += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        time.sleep(self.seconds)
        self.inside -= 1
        if self.faults:
            raise self.faults.pop(0)
        return keys

    def close(self) -> None:
        self.closed += 1


def client(source: Source, folder: Path, retries: int = 3, connections: int = 8) -> SourceClient:
    retry_policy = RetryPolicy(
        retries=retries,
        backoff_s=0.1,
        max_connections=connections,
        on_error="fail",
        failure_cooldown_s=1,
    )
    connection = SharedConnection(ConnectionSemaphore(folder, connections))
    return SourceClient(source, retry_policy, connection)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest pauses that were possible; none is made."""
    made: list[float] = []

    def uniform(least: float, most: float) -> float:
        assert least == 0
        made.append(most)
        return 0.0

    monkeypatch.setattr(transient.random, "uniform", uniform)
    return made


def test_a_transient_error_is_retried(tmp_path: Path, pauses: list[float]) -> None:
    source = Troubled([OSError("gone"), TimeoutError("late")])
    figures = Figures()
    assert client(source, tmp_path).look_up(KEYS, ["k"], figures).equals(KEYS)
    assert (source.asked, source.closed) == (3, 2)
    assert (figures.keys, figures.retries, len(figures.ms)) == (3, 2, 1)
    assert pauses == [0.1, 0.2]


def test_a_secret_in_the_error_of_a_service_is_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    fault = "401 for url: https://me:s3cret1@api.example/rows?api_key=s3cret2&id=5"
    source = Troubled([OSError(fault), OSError(fault)])
    with pytest.raises(LookupFailedError, match=r"api\.example.*id=5") as caught:
        client(source, tmp_path, retries=1).look_up(KEYS, ["k"], Figures())
    assert "retrying" in caplog.text
    assert "s3cret" not in caplog.text + str(caught.value)


def test_an_outage_of_any_length_is_waited_for(tmp_path: Path, pauses: list[float]) -> None:
    source = Troubled([OSError("gone")] * 1_100)
    assert client(source, tmp_path, retries=2_000).look_up(KEYS, ["k"], Figures()).equals(KEYS)
    assert (len(pauses), max(pauses)) == (1_100, 30.0)


def test_so_many_processes_are_connected_and_no_more(tmp_path: Path) -> None:
    source = Troubled()
    source.seconds = 0.02
    # Each with slots of its own, as processes have them.
    askers = [client(source, tmp_path, connections=2) for _ in range(5)]
    threads = [
        threading.Thread(
            target=lambda one=one: [one.look_up(KEYS, ["k"], Figures()) for _ in range(3)]
        )
        for one in askers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert source.asked == 15
    assert source.most_inside <= 2


def test_tables_of_one_database_share_a_connection(tmp_path: Path) -> None:
    """With one permit two joins take turns, and neither closes the connection of the other."""
    path = tmp_path / "shop.db"
    for table in ("planes", "pilots"):
        script = f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)"
        url = in_sqlite(path, script, [(1, table)])
    sources = [bsjoin.sources.sql(url, table=table) for table in ("planes", "pilots")]
    assert sources[0].database == sources[1].database
    assert sources[0].database != bsjoin.sources.sql(url, table="planes", timeout=1).database
    connection = SharedConnection(ConnectionSemaphore(tmp_path / "permits", 1))
    policy = RetryPolicy(
        retries=0, backoff_s=0, max_connections=1, on_error="fail", failure_cooldown_s=1
    )
    here = [pickle.loads(pickle.dumps(source)) for source in sources]
    clients = [SourceClient(source, policy, connection) for source in here]

    def opened() -> int:
        links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
        return links.count(str(path.resolve()))

    key = pa.table({"id": [1]})
    for _ in range(2):
        for one, name in zip(clients, ("planes", "pilots"), strict=True):
            assert one.look_up(key, ["name"], Figures())["name"].to_pylist() == [name]
            assert opened() == 1
    clients[0].close()
    assert opened() == 1
    clients[1].close()
    assert opened() == 0


def test_a_source_that_cannot_be_closed_gives_its_permit_back(tmp_path: Path) -> None:
    class Broken(Troubled):
        def close(self) -> None:
            raise ConnectionResetError("the server has gone")

    connection = SharedConnection(ConnectionSemaphore(tmp_path / "permits", 1))
    connection.add(Broken())
    with connection.used():
        pass
    other = ConnectionSemaphore(tmp_path / "permits", 1)
    taken = threading.Thread(target=other.acquire, daemon=True)
    taken.start()
    taken.join(30)
    assert other.is_held


def test_the_name_of_a_database_has_no_secret() -> None:
    urls = [f"postgresql://me:{word}@db.example/shop?sslmode=require" for word in ("hidden", "x")]
    names = {bsjoin.sources.sql(url, table="planes").database for url in urls}
    assert len(names) == 2
    assert not any("hidden" in name for name in names)


def test_a_source_that_leaves_while_another_one_is_asked_is_forgotten(tmp_path: Path) -> None:
    connection = SharedConnection(ConnectionSemaphore(tmp_path / "permits", 1))
    one, other = Troubled(), Troubled()
    connection.add(one)
    connection.add(other)
    with connection.used():
        connection.remove(one)
    assert connection._sources == [other]
    with connection.used():
        connection.remove(other)
    assert connection._sources == []
    assert other.closed == 1
    assert not connection._slots.is_held
