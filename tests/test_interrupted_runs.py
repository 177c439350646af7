"""Whatever ends a run of the tests, nothing that it has started is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from checks_apart import environment

TESTS = Path(__file__).resolve().parent
RUN = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "interrupted_run.py")]


def told_by(process: subprocess.Popen[bytes], file: Path) -> dict[str, Any]:
    while not file.exists():
        assert process.poll() is None, "the run has ended before it was interrupted"
        time.sleep(0.05)
    told: dict[str, Any] = json.loads(file.read_text())
    return told


def left_of(told: dict[str, Any]) -> list[object]:
    """What is still there of all that the run has started."""
    found: list[object] = [folder for folder in told["folders"] if os.path.exists(folder)]
    for pid in (told["run"], *told["started"]):
        try:
            one = psutil.Process(pid)
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append((pid, one.cmdline()[:4]))
        except psutil.NoSuchProcess:
            pass
    return found


@pytest.mark.parametrize(
    ("number", "way", "fixtures"),
    [
        (signal.SIGINT, "alone", "redis_server"),
        (signal.SIGTERM, "alone", "mariadb"),
        (signal.SIGKILL, "alone", "redis_server spark"),
        (signal.SIGKILL, "worker of a run in two processes", "redis_server"),
        (signal.SIGKILL, "first of a run in two processes", "postgresql"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_nothing_is_left(tmp_path: Path, number: signal.Signals, way: str, fixtures: str) -> None:
    (tmp_path / "temp").mkdir()
    given = {
        "INTERRUPTED_FIXTURES": fixtures,
        "INTERRUPTED_TELLS": str(tmp_path / "told"),
        "INTERRUPTED_IS_STUBBORN": "yes" * (number == signal.SIGTERM),
        "TMPDIR": str(tmp_path / "temp"),
    }
    more = [] if way == "alone" else ["-n", "1"]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(
            [sys.executable, *RUN, *more], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            env=environment() | given, cwd=TESTS.parent, start_new_session=True,
        )  # fmt: skip
    try:
        told = told_by(run, tmp_path / "told")
        assert left_of(told)
        os.kill(told["run"] if way.startswith("worker") else run.pid, number)
        until = time.monotonic() + 60
        while (left := left_of(told)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, (tmp_path / "log").read_text()[-3_000:]
    finally:
        run.kill()
        run.wait()
