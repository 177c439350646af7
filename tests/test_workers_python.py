"""Workers whose Python cannot run bsjoin are refused with an error that says what to set."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import workers_python_checks
from checks_apart import TESTS, each, environment, passes

from bsjoin.spark import workers


@each(workers_python_checks.CHECKS)
def test_workers_that_cannot_run_bsjoin_are_refused(check: str) -> None:
    passes("workers_python_checks.py", check)


def test_a_local_session_needs_no_setting_to_run_the_drivers_python(tmp_path: Path) -> None:
    program = [sys.executable, str(TESTS / "workers_python_checks.py"), "newcomer"]
    done = subprocess.run(program, env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert "a newcomer's session: right" in done.stdout, done.stderr[-5_000:]


def test_the_packages_that_workers_need_are_those_that_are_installed_with_bsjoin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
    declared = project["project"]["dependencies"]
    assert {f"{name}>={least}" for name, least in workers._NEEDED.items()} <= set(declared)
