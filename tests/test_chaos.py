"""What the chaos run is made of; ``python -m tests.chaos`` runs it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from tests.chaos.proxy import Proxy
from tests.chaos.schedule import FAULTS, schedule
from tests.chaos.verify import wrong_files, wrong_rows

STREAM = [(0, 1, 0), (1, 2, 0), (2, 9, 1)]
COPIES = {1: 1, 2: 2}
FILES = [(0, 1, 0, 3, 0), (1, 2, 0, 3, 0), (1, 2, 0, 3, 1), (2, 9, 1, None, None)]
ROWS = [(0, 1, 0, "one"), (1, 2, 0, None), (2, 9, 1, "nine")]
NAMES = {1: "one", 9: "nine"}


def test_a_seed_draws_one_schedule_of_all_faults() -> None:
    events = schedule(5, 3600)
    assert events == schedule(5, 3600) != schedule(6, 3600)
    assert {event.what for event in events} == set(FAULTS)
    assert [e.at_s for e in events] == sorted(e.at_s for e in events)
    assert events[-1].at_s < 3240
    without = schedule(5, 3600, ["disk full"])
    assert {event.what for event in without} == set(FAULTS) - {"disk full"}


def test_exact_sinks_are_right() -> None:
    assert wrong_rows(STREAM, ROWS, NAMES) == []
    assert wrong_files(STREAM, FILES, COPIES, {1, 3}) == []


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ROWS[1:], "1 rows lost"),
        ([*ROWS, ROWS[0]], "1 rows doubled"),
        ([(0, 1, 0, "two"), *ROWS[1:]], "1 rows lost"),
    ],
)
def test_a_wrong_row_of_a_look_up_is_told(rows: list[tuple[object, ...]], told: str) -> None:
    assert wrong_rows(STREAM, rows, NAMES)[0].startswith(told)


@pytest.mark.parametrize(
    ("rows", "versions", "told"),
    [
        (FILES[:-1], {3}, "1 rows lost"),
        ([*FILES, FILES[1]], {3}, "1 rows doubled"),
        (FILES, {1, 2}, "micro-batch 0 has rows of the versions [3]"),
        ([(0, 1, 0, 2, 0), *FILES[1:]], {2, 3}, "micro-batch 0 has rows of the versions [2, 3]"),
        ([(0, 1, 0, None, 0), *FILES[1:]], {3}, "key 1 has the version None"),
    ],
)
def test_a_wrong_row_of_the_stored_table_is_told(
    rows: list[tuple[object, ...]], versions: set[int], told: str
) -> None:
    assert wrong_files(STREAM, rows, COPIES, versions)[0].startswith(told)


def test_a_stream_that_goes_back_to_an_older_version_is_told() -> None:
    stream = [(0, 1, 0), (1, 1, 1)]
    rows = [(0, 1, 0, 2, 0), (1, 1, 1, 1, 0)]
    told = ["micro-batch 1 goes back from version 2 to 1"]
    assert wrong_files(stream, rows, {1: 1}, {1, 2}) == told


@pytest.fixture
def echo() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(100):
                    connection.sendall(data)

    threading.Thread(target=answer, daemon=True).start()
    return listener


def test_the_proxy_forwards_stalls_and_resets(echo: socket.socket) -> None:
    proxy = Proxy(echo.getsockname()[1])
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"one"
        proxy.stalled = True
        client.sendall(b"two")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
        proxy.stalled = False
        client.settimeout(5)
        assert client.recv(100) == b"two"
        proxy.reset()
        end = time.monotonic() + 5
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end and client.recv(100):
                pass
        assert time.monotonic() < end
    proxy.close()
    echo.close()
