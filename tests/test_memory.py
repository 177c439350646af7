"""Memory that is given back."""

from __future__ import annotations

from types import SimpleNamespace

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
