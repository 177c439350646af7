"""Under Spark Connect everything works as it does in a classic session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="install bsjoin[connect] to test Spark Connect")

import connect_checks

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Run all checks in one process: what failed in each."""
    environment = {
        name: value
        for name, value in os.environ.items()
        # What a classic session leaves in the environment of its own process.
        if name not in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE")
    }
    # The server's Python workers import the checkout's packages, installed or not.
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("connect")
    done = subprocess.run(
        [sys.executable, str(TESTS / "connect_checks.py"), str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"check"')]
    assert done.returncode == 0, done.stderr[-5_000:]
    return {outcome["check"]: outcome["failure"] for outcome in map(json.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("check", connect_checks.CHECKS)
def test_connect_does_as_classic_does(outcomes: dict[str, str | None], check: str) -> None:
    if outcomes[check]:
        pytest.fail(f"{check} failed under Spark Connect:\n{outcomes[check]}", pytrace=False)
