"""A temporary store lies in a private folder of its process, and goes with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bsjoin.errors import StoreAccessError
from bsjoin.storage.temporary import temporary_location


def test_each_is_a_folder_of_its_own_where_temporary_files_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = temporary_location(), temporary_location()
    one.create("versions/1", b"")
    assert other.names("versions") == []
    for location in (one, other):
        assert location.is_local
        assert Path(location.url).parent == tmp_path / f"bsjoin-{os.geteuid()}"


def test_one_is_refused_where_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"bsjoin-{os.geteuid()}").mkdir()
    (tmp_path / f"bsjoin-{os.geteuid()}").chmod(0o777)
    with pytest.raises(StoreAccessError, match="mode 0777"):
        temporary_location()
