"""Processes that use the folders of a host, in containers of their own where that is wanted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Processes numbered from 1 on; the user and the files are the same as outside.
CONTAINER = ("unshare", "--map-current-user", "--pid", "--fork", "--mount-proc", "--kill-child")
# With mounts of its own.
MOUNTS = ("unshare", "--map-root-user", "--mount")

needs_containers = pytest.mark.skipif(
    shutil.which("unshare") is None
    or any(
        subprocess.run([*c, "true"], capture_output=True).returncode for c in (CONTAINER, MOUNTS)
    ),
    reason="this machine does not let its users make namespaces",
)


def environment(temp: Path, **more: str) -> dict[str, str]:
    """What a process needs that has its own folder for temporary files."""
    tests = ROOT / "tests"
    found = [str(folder) for folder in (ROOT, tests, tests / "cache", tests / "storage")]
    return {**os.environ, "TMPDIR": str(temp), "PYTHONPATH": os.pathsep.join(found), **more}


def run(code: str, temp: Path, *, within: Sequence[str] = ()) -> str:
    """Run Python to its end: what it printed."""
    done = subprocess.run(
        [*within, sys.executable, "-c", code],
        env=environment(temp),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def running(
    code: str, temp: Path, *, within: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run Python until it has printed a line; then it waits for the end of its input."""
    process = subprocess.Popen(
        [*within, sys.executable, "-c", f"{code}\nimport sys; sys.stdin.read()"],
        env=environment(temp),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def folders(parent: Path, kind: str = "") -> list[Path]:
    """This user's folders in a place, of one kind."""
    return sorted(path for path in parent.glob(f"bsjoin-*/{kind}*") if path.is_dir())
