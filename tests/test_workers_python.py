"""Workers whose Python cannot run bsjoin are refused with an error that says what to set."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import workers_python_checks
from checks_apart import each, passes

from bsjoin.spark import workers


@pytest.mark.long
@each([*workers_python_checks.CHECKS, *workers_python_checks.NEWCOMER])
def test_workers_run_a_python_that_has_bsjoin_or_are_refused(check: str) -> None:
    passes("workers_python_checks.py", check)


def test_the_packages_that_workers_need_are_those_that_are_installed_with_bsjoin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
    declared = project["project"]["dependencies"]
    assert {f"{name}>={least}" for name, least in workers._NEEDED.items()} <= set(declared)
