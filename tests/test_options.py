"""Options are checked when they are made; durations are read as users write them."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bsjoin import Full
from bsjoin.errors import ArgumentError
from bsjoin.values.durations import seconds


def test_the_defaults_are_a_temporary_store_and_no_refresh() -> None:
    full = Full()
    assert (full.store, full.refresh, full.unique, full.fingerprint) == (None, None, False, None)
    assert full.refresh_s == 0.0
    assert full.segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("refresh", "expected"),
    [(30, 30.0), (0.5, 0.5), ("10 minutes", 600.0), (timedelta(hours=1), 3600.0)],
)
def test_a_refresh_interval_is_read_in_seconds(refresh: Any, expected: float) -> None:
    assert Full(refresh=refresh).refresh_s == expected


@pytest.mark.parametrize(
    "refresh",
    [0, -1, "0 s", timedelta(0), timedelta(seconds=-1), math.nan, math.inf, True, "soon", "", []],
)
def test_a_refresh_interval_that_is_none_is_refused(refresh: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Full(refresh=refresh)
    assert f"refresh={refresh!r}" in str(caught.value)


@pytest.mark.parametrize("size", [0, -1, (1 << 20) - 1, 1 << 31])
def test_a_segment_that_is_too_small_or_too_large_is_refused(size: int) -> None:
    with pytest.raises(ArgumentError, match=f"segment_bytes={size}: it must be 1048576 to"):
        Full(segment_bytes=size)


@pytest.mark.parametrize(
    "options",
    [
        {"store": ""},
        {"store": 5},
        {"segment_bytes": "1 GB"},
        {"segment_bytes": True},
        {"segment_bytes": None},
        {"unique": "yes"},
        {"fingerprint": 7},
        {"fingerprint": ""},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_refused_and_named(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        Full(**options)


def test_a_store_may_be_a_path_object(tmp_path: Path) -> None:
    assert Full(store=tmp_path).store == tmp_path


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="ttl"):
        Full(ttl=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 minutes", 300),
        ("5 Minutes", 300),
        ("5minutes", 300),
        (" 1 min ", 60),
        ("1 hour 30 minutes", 5400),
        ("1 hour, 30 minutes", 5400),
        ("1h30m", None),
        ("1h 30min", 5400),
        ("1.5 h", 5400),
        ("2 days", 172_800),
        ("1 week", 604_800),
        ("250 ms", 0.25),
        ("10 milliseconds", 0.01),
        ("10 us", 1e-5),
        ("3 microseconds", 3e-6),
        ("-5 s", -5),
        ("1 month", None),
        ("1 year", None),
        ("5", None),
        ("minutes", None),
        ("5 minutes ago", None),
        ("5 - 3 s", None),
        ("1e3 s", None),
    ],
)
def test_durations_are_read_or_refused(text: str, expected: float | None) -> None:
    if expected is not None:
        assert seconds(text, "d") == pytest.approx(expected)
        return
    with pytest.raises(ArgumentError) as caught:
        seconds(text, "d")
    assert f"d={text!r}" in str(caught.value)
    assert "10 minutes" in str(caught.value)


def test_numbers_and_timedeltas_are_durations() -> None:
    assert seconds(5, "d") == 5.0
    assert seconds(timedelta(days=1, microseconds=1), "d") == 86_400.000001
    assert seconds(-1.5, "d") == -1.5


@pytest.mark.parametrize("value", [None, True, math.nan, -math.inf, b"5 s", [5], object()])
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="is not a duration"):
        seconds(value, "d")
