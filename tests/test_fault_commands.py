"""The commands that look for faults start: no other test imports them as they are run."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_COMMANDS = ("tests.fuzz", "tests.fuzz.plans", "tests.chaos", "tests.endurance")


def test_the_commands_tell_how_they_are_used() -> None:
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", name, "--help"], cwd=_ROOT, stdout=subprocess.PIPE, text=True
        )
        for name in _COMMANDS
    }
    for name, process in started.items():
        told, _ = process.communicate(timeout=120)
        assert (process.returncode, f"python -m {name}" in told) == (0, True), name
    importlib.import_module("tests.fuzz.find_faults")
