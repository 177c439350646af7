"""Temporary stores go with their application, even with one that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bsjoin.store.temporary import temporary_home

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import os, signal
from bsjoin.store.temporary import temporary_home
home = temporary_home()
home.create("versions/1", b"")
print(home.url, flush=True)
"""


def run(code: str, temp: Path) -> tuple[Path, int]:
    """Run Python with its own temporary folder: the store it made, its exit status."""
    environment = {**os.environ, "TMPDIR": str(temp), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", MAKE + code], env=environment, stdout=subprocess.PIPE, text=True
    )
    return Path(done.stdout.strip()), done.returncode


@pytest.mark.parametrize(
    ("end", "status"), [("", 0), ("raise SystemExit(3)", 3), ("raise RuntimeError", 1)]
)
def test_a_store_is_removed_when_its_process_ends(tmp_path: Path, end: str, status: int) -> None:
    folder, returned = run(end, tmp_path)
    assert returned == status
    assert folder.parent == tmp_path
    assert not folder.exists()


def test_a_killed_process_leaves_its_store_to_the_next(tmp_path: Path) -> None:
    left, returned = run("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert returned < 0
    assert (left / "versions" / "1").exists()
    run("", tmp_path)
    assert not left.exists()


def test_a_child_process_does_not_remove_its_parents_store(tmp_path: Path) -> None:
    _, status = run(
        """
child = os.fork()
if not child:
    raise SystemExit(0)  # runs the clean-up of its parent
os.waitpid(child, 0)
raise SystemExit(0 if os.path.exists(home.url) else 9)
""",
        tmp_path,
    )
    assert status == 0


def test_stores_of_the_living_and_folders_of_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = temporary_home()
    parents = tmp_path / f"bsjoin-store-{os.getppid()}-abc"
    strange = tmp_path / "bsjoin-store-me-abc"
    dead = tmp_path / "bsjoin-store-999999999-abc"  # no process has so large a number
    for folder in (parents, strange, dead):
        folder.mkdir()
    other = temporary_home()
    assert other != mine
    assert Path(mine.url).exists()
    assert parents.exists()
    assert strange.exists()
    assert not dead.exists()
