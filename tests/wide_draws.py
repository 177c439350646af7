"""Property tests with ten times as many cases: ``make long`` runs pytest with this plugin."""

from __future__ import annotations

import hypothesis
import pytest

TIMES = 10


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that are left; a test that is there with several parameters has one number of cases."""
    tests = {item.obj: item for item in items if item.get_closest_marker("property")}  # type: ignore[attr-defined]
    holders = {
        # That of a state machine is its class.
        (item.cls, "settings") if item.cls else (test, "_hypothesis_internal_use_settings")  # type: ignore[attr-defined]
        for test, item in tests.items()
    }
    for holder, name in holders:
        given = getattr(holder, name, None) or hypothesis.settings.default
        setattr(holder, name, hypothesis.settings(given, max_examples=TIMES * given.max_examples))
