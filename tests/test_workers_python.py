"""Workers whose Python cannot run bsjoin are refused with an error that says what to set."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import workers_python_checks
from checks_apart import each, passes

from bsjoin._version import NEEDED
from bsjoin.commands import doctor


@pytest.mark.long
@each([*workers_python_checks.CHECKS, *workers_python_checks.NEWCOMER])
def test_workers_run_a_python_that_has_bsjoin_or_are_refused(check: str) -> None:
    passes("workers_python_checks.py", check)


def test_the_packages_that_are_looked_at_are_those_that_bsjoin_is_installed_with() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
    declared = {*project["project"]["dependencies"]}
    assert {f"{name}>={least}" for name, least in NEEDED.items()} < declared
    of_spark = project["project"]["optional-dependencies"]["spark"]
    declared |= {one.replace("[sql]", "").partition(",")[0] for one in of_spark}
    assert {f"{name}>={least}" for name, least in doctor._PACKAGES.items()} == declared
