"""Checks that need a process of their own, such as for a session of another kind.

A script names them in ``CHECKS``. It is a program that runs them all and prints one JSON line for
each, with the traceback where it failed. :func:`passes` tells a test what became of one of them.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
_LIMIT_S = 900  # of a program, on a busy machine

Check = Callable[[Any, Path], None]
"""It takes the session, and a folder of its own."""


def named(*checks: Check) -> dict[str, Check]:
    """Checks by their names."""
    return {check.__name__: check for check in checks}


def run(checks: dict[str, Check], session: Any) -> None:
    """Run checks in this process, in the current folder; no stream outlives one."""
    for name, check in checks.items():
        failure = None
        try:
            (folder := Path.cwd() / name).mkdir()
            try:
                check(session, folder)
            finally:
                for query in session.streams.active:
                    query.stop()
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps({"check": name, "failure": failure}), flush=True)
    session.stop()


def environment() -> dict[str, str]:
    """What such a process needs: the checkout's packages, and nothing of our own session."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # What the session of the tests leaves in the environment of its own process.
        if name not in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE")
    }
    # Another Spark than the installed one, which scripts/lakes.py puts in front of it, stays.
    spark = [one for one in kept.get("PYTHONPATH", "").split(os.pathsep) if _has_spark(one)]
    kept["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS), *spark])
    kept["PYSPARK_PYTHON"] = sys.executable
    return kept


def _has_spark(folder: str) -> bool:
    return bool(folder) and Path(folder, "pyspark", "__init__.py").exists()


@functools.cache
def _outcomes(script: str, *arguments: str) -> dict[str, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "timeout",
                "-s",
                "KILL",
                str(_LIMIT_S),
                sys.executable,
                str(TESTS / script),
                *arguments,
            ],
            env=environment(),
            cwd=folder,
            capture_output=True,
            text=True,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"check"')]
    outcomes = {outcome["check"]: outcome["failure"] for outcome in map(json.loads, lines)}
    if done.returncode:
        ended = f"It ended with {done.returncode}: {done.stderr[-5_000:]}"
        return defaultdict(lambda: ended, {name: told or ended for name, told in outcomes.items()})
    return outcomes


def found_by(program: str, folder: Path, limit_s: float) -> dict[str, Any]:
    """What a program of ``scheduling/`` has written into a folder, which it is given."""
    ended = subprocess.run(
        [sys.executable, str(TESTS / "scheduling" / program), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    found = folder / "found.json"
    seen = found.read_text() if found.exists() else ""
    assert ended.returncode == 0, f"{ended.stderr[-4000:]}\n{seen}"
    return json.loads(seen)


def each(checks: Iterable[str]) -> Callable[[Any], Any]:
    """A test of each check, with time for the program that runs them all."""

    def marked(test: Any) -> Any:
        # The program ends before pytest ends the test.
        timed = pytest.mark.timeout(_LIMIT_S + 20)(test)
        return pytest.mark.parametrize("check", checks)(timed)

    return marked


def passes(script: str, check: str, *arguments: str) -> None:
    """Fail with the traceback of a check that failed; the first call runs all of the script."""
    if failure := _outcomes(script, *arguments)[check]:
        pytest.fail(f"{check} failed in {script}:\n{failure}", pytrace=False)
