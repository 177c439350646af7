"""The commands that look for faults start: no other test imports them as they are run."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_COMMANDS = ("tests.fuzz", "tests.fuzz.plans", "tests.chaos", "tests.endurance")
_RUN = """
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    try:
        runpy.run_module(name, run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, name
"""


def test_the_commands_tell_how_they_are_used() -> None:
    command = [sys.executable, "-c", _RUN, *_COMMANDS]
    told = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert [name for name in _COMMANDS if f"usage: python -m {name} " not in told.stdout] == []
    importlib.import_module("tests.fuzz.find_faults")
