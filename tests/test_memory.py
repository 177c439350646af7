"""Memory that is given back."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bsjoin.build import memory


def test_memory_is_given_back_in_a_hundredth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.give_back()  # whatever allocators this machine has
    now = [0.0]
    calls: list[int] = []

    def trim(kept: int) -> None:
        calls.append(kept)
        now[0] += 2.0

    monkeypatch.setattr(memory, "_not_before_s", 0.0)
    monkeypatch.setattr(memory, "_trim", lambda: trim)
    monkeypatch.setattr(memory, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(400):
        memory.give_back()
        now[0] += 1.0
    assert calls == [0, 0]


def _no_library(_: None) -> Any:
    raise OSError("no such library")


@pytest.mark.parametrize(
    "ctypes",
    [None, SimpleNamespace(CDLL=_no_library), SimpleNamespace(CDLL=lambda _: SimpleNamespace())],
    ids=["no module", "no library", "no function"],
)
def test_without_a_function_of_the_c_library(monkeypatch: pytest.MonkeyPatch, ctypes: Any) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", ctypes)
    monkeypatch.setattr(memory, "_not_before_s", 0.0)
    memory._trim.cache_clear()
    try:
        memory.give_back()
        assert memory._trim() is None
    finally:
        memory._trim.cache_clear()
