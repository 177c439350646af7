"""Versions of sources in manifests: whatever a source tells, they can be read again."""

from __future__ import annotations

import json

import pytest

from bsjoin.storage.source_version import SourceVersion


@pytest.mark.parametrize("name", ["source", "version", "identity", "selection"])
def test_long_texts_are_read_again_and_stay_apart(name: str) -> None:
    texts = {"source": "a table", "version": "17", "identity": "", "selection": ""}
    found = []
    for end in ("", "x", "y"):
        version = SourceVersion(**{**texts, name: "p; " * 60_000 + end})
        assert SourceVersion.from_json(json.loads(json.dumps(version.to_json()))) == version
        found.append(version)
    assert len(set(found)) == 3
    most = SourceVersion(**{**texts, name: "é" * 4096})
    assert getattr(most, name) == "é" * 4096
    with pytest.raises(ValueError, match=f"{name} has 4097 characters"):
        SourceVersion.from_json({**texts, name: "x" * 4097})


@pytest.mark.parametrize("time_us", [-1, 253_402_300_799_000_001, 1 << 70])
def test_times_that_no_calendar_has_are_not_known(time_us: int) -> None:
    version = SourceVersion("a table", "17", time_us)
    assert version.committed_at_us is None
    assert SourceVersion.from_json(version.to_json()) == version
