"""The programs of ``examples/``: each runs, and finds that its results are right."""

from __future__ import annotations

import subprocess
import sys

import pytest
from checks_apart import each, passes
from example_checks import ARGUMENTS, EXAMPLES

ELSEWHERE = {
    "follow": "tests/lakes/test_whole_job.py",
    "kafka": "tests/test_kafka.py",
    "road_data": "of roads",
}


@pytest.mark.long
@each(ARGUMENTS)
def test_the_program_is_right(check: str) -> None:
    passes("example_checks.py", check)


def test_the_flights_need_nothing_that_a_new_python_lacks() -> None:
    """Their package imports pkg_resources, and does not say so."""
    code = (
        "import sys; sys.modules['pkg_resources'] = None; import _support; "
        "print(len(_support.flown('planes')), len(_support.flown('airlines')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3322", "16"]


def test_no_program_is_left_out() -> None:
    there = {file.stem for file in EXAMPLES.glob("*.py") if not file.stem.startswith("_")}
    assert there == {*ARGUMENTS, *ELSEWHERE}
