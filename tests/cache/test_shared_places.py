"""All processes of a host find one cache, whatever room there is and whatever is temporary."""

from __future__ import annotations

import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from bsjoin.cache import cache_folder, places
from bsjoin.errors import StoreAccessError
from bsjoin.host import processes


def test_a_cache_is_stored_in_the_folder_of_its_options(tmp_path: Path) -> None:
    folder = cache_folder("x", str(tmp_path / "cache"))
    assert folder.path.parent == tmp_path / "cache" / f"bsjoin-{os.geteuid()}"
    assert folder.path.name.startswith("cache-x-")
    assert cache_folder("x", str(tmp_path / "cache")).path == folder.path
    folder.path.chmod(0o777)
    with pytest.raises(StoreAccessError, match="mode 0777"):
        cache_folder("x", str(tmp_path / "cache"))


def test_the_room_in_memory_decides_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes first, and however the room changes while many begin."""
    memory, temporary, room = tmp_path / "memory", tmp_path / "temporary", [0]
    for folder in (memory, temporary):
        folder.mkdir()
    monkeypatch.setattr(places, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    sizes = SimpleNamespace(f_frsize=1)

    def statvfs(_: Path) -> SimpleNamespace:
        return SimpleNamespace(**vars(sizes), f_bavail=random.choice(room))

    monkeypatch.setattr(os, "statvfs", statvfs)
    for name, rooms, there in (("full", [0], temporary), ("empty", [1 << 30], memory)):
        room[:] = rooms
        first = cache_folder(name, None).path
        assert there in first.parents
        room[:] = [0, 1 << 30]
        assert {cache_folder(name, None).path for _ in range(9)} == {first}
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            found = list(threads.map(lambda name: cache_folder(name, None).path, [str(number)] * 8))
            assert len(set(found)) == 1
            there = [*tmp_path.rglob(f"cache-{number}-*")]
            assert len(there) == 1 + (temporary in found[0].parents)


def test_a_cache_from_before_the_machine_was_started_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times are by a clock that begins then: rows would live for as long as it ran before."""
    before = cache_folder("x", str(tmp_path))
    monkeypatch.setattr(processes, "_machine", lambda: "another")
    assert cache_folder("x", str(tmp_path)).path != before.path
