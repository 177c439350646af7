"""Options are checked when they are made; durations are read as users write them."""

from __future__ import annotations

import math
import queue
import re
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from stored_tables import store

from bsjoin import BatchTable, Full
from bsjoin.build.refresh import start_refreshing
from bsjoin.errors import ArgumentError
from bsjoin.storage import StorageLocation, versions
from bsjoin.values.durations import microseconds_ago, seconds


def test_the_options_of_a_whole_table(tmp_path: Path) -> None:
    full = Full()
    assert (full.store, full.refresh, full.unique, full.fingerprint) == (None, None, False, None)
    assert (full.refresh_s, full.segment_bytes) == (0.0, 1 << 30)
    assert Full(store=tmp_path).store == tmp_path
    intervals: list[tuple[Any, float]] = [
        (30, 30.0), (0.5, 0.5), ("10 minutes", 600.0), (timedelta(hours=1), 3600.0)
    ]  # fmt: skip
    for interval, expected in intervals:
        assert Full(refresh=interval).refresh_s == expected


def test_options_that_are_none_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        *(
            ({"refresh": value}, f"refresh={value!r}")
            for value in (0, -1, "0 s", timedelta(0), math.nan, math.inf, True, "soon", "", [])
        ),
        *(
            ({"segment_bytes": size}, f"segment_bytes={size}: it must be 1048576 to")
            for size in (0, (1 << 20) - 1, 1 << 31)
        ),
        *(({"segment_bytes": size}, "segment_bytes") for size in ("1 GB", True, None)),
        *(({"store": store}, "store") for store in ("", 5)),
        ({"unique": "yes"}, "unique"),
        *(({"fingerprint": word}, "fingerprint") for word in (7, "")),
        *(({"max_staleness": limit}, "max_staleness") for limit in (0, -1, "soon")),
        ({"refresh": "1 hour", "max_staleness": "1 hour"}, "max_staleness"),
        ({"refresh": "1 hour", "max_staleness": "5 minutes"}, "max_staleness"),
    ]
    for options, text in wrong:
        with pytest.raises(ArgumentError, match=re.escape(text)):
            Full(**options)
    with pytest.raises(TypeError, match="ttl"):
        Full(ttl=5)  # type: ignore[call-arg]


def test_an_interval_of_a_table_is_checked_as_an_option_is(tmp_path: Path) -> None:
    """It was a loop without a pause. What is no DataFrame is refused, not logged each time."""
    location = StorageLocation.of(tmp_path / "table")
    versions.publish(location, store(location, [1], pa.table({"x": [1]})))
    table, source = BatchTable.open(location.url, max_staleness="1 hour"), Any
    for interval in (0, -1, "0 s", timedelta(0), math.nan, "1 hour", "soon", None):
        with pytest.raises(ArgumentError, match=re.escape(f"refresh={interval!r}")):
            table.start_refreshing(source, interval)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="it must be a Spark DataFrame"):
        table.start_refreshing(source, "1 minute")


def test_durations_are_read_or_refused() -> None:
    durations: list[tuple[Any, float | None]] = [
        ("5 minutes", 300), ("5 Minutes", 300), ("5minutes", 300), (" 1 min ", 60),
        ("1 hour 30 minutes", 5400), ("1 hour, 30 minutes", 5400), ("1h 30min", 5400),
        ("1.5 h", 5400), ("2 days", 172_800), ("1 week", 604_800), ("250 ms", 0.25),
        ("10 us", 1e-5), ("3 microseconds", 3e-6), ("-5 s", -5), (5, 5.0), (-1.5, -1.5),
        (timedelta(days=1, microseconds=1), 86_400.000001),
        *((text, None) for text in ("1h30m", "1 month", "1 year", "5", "minutes", "5 minutes ago")),
        *((text, None) for text in ("5 - 3 s", "1e3 s", b"5 s")),
        *((value, None) for value in (None, True, math.nan, -math.inf, [5], object())),
    ]  # fmt: skip
    for value, expected in durations:
        if expected is not None:
            assert seconds(value, "d") == pytest.approx(expected)
            continue
        with pytest.raises(ArgumentError, match="is not a duration") as caught:
            seconds(value, "d")
        assert f"d={value!r}" in str(caught.value)
        assert "10 minutes" in str(caught.value)


def test_durations_beyond_all_time_are_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (1e303, 1e308, timedelta.max):
        assert microseconds_ago(value, "older_than") == 1 << 61
    for value in (-1e-6, -1e303):
        with pytest.raises(ArgumentError, match=r"older_than=.* is below zero"):
            microseconds_ago(value, "older_than")
    waits = queue.Queue[float]()

    class Ended:
        def wait(self, timeout_s: float) -> bool:
            waits.put(timeout_s)
            return True

    threads = SimpleNamespace(
        Event=Ended, Thread=threading.Thread, TIMEOUT_MAX=threading.TIMEOUT_MAX
    )
    monkeypatch.setattr("bsjoin.build.refresh.threading", threads)
    spark: Any = None
    for interval in (1e308, timedelta.max.total_seconds(), lambda: 1e308):
        start_refreshing(spark, lambda: None, interval, "table")
        assert waits.get(timeout=60) == threading.TIMEOUT_MAX
