"""Live: a plain stream whose load rises and falls is followed by executors, and loses no row."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from checks_apart import found_by

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is no address elsewhere"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``scaling_scenario.py`` has seen."""
    return found_by("scaling_scenario.py", tmp_path_factory.mktemp("scaling"), 840)


def test_a_rise_is_followed_within_three_decisions_and_the_backlog_is_done(
    found: dict[str, Any],
) -> None:
    assert found["reason"] is None
    assert 1 <= found["requests to grow"] <= 3
    assert "drained" in found["seen"]


def test_a_fall_is_followed_and_the_dearest_executors_leave(found: dict[str, Any]) -> None:
    assert found["first"] == ["127.0.0.2"]  # the cheapest
    assert "127.0.0.2" in found["left"]
    assert len(found["left"]) <= 2


def test_no_row_is_lost_or_doubled(found: dict[str, Any]) -> None:
    rows, different, written = found["rows"]
    assert rows == different == written > 0


def test_what_is_requested_is_waited_for(found: dict[str, Any]) -> None:
    """Between two requests the first is there, or was waited for in vain."""
    state = ""
    for _, after, _, _, target, _ in found["steps"]:
        assert target is None or state != "changing"
        state = after
