"""Checks that need a Spark session of their own: run in another process, told apart here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["environment", "outcomes_of"]

TESTS = Path(__file__).resolve().parent


def environment() -> dict[str, str]:
    """What such a process needs: the checkout's packages, and nothing of our own session."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # What the session of the tests leaves in the environment of its own process.
        if name not in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE")
    }
    kept["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    kept["PYSPARK_PYTHON"] = sys.executable
    return kept


def outcomes_of(script: str, folder: Path) -> dict[str, str | None]:
    """Run all checks of a script in one process: what failed in each."""
    done = subprocess.run(
        [sys.executable, str(TESTS / script), str(folder)],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"check"')]
    assert done.returncode == 0, done.stderr[-5_000:]
    return {outcome["check"]: outcome["failure"] for outcome in map(json.loads, lines)}
