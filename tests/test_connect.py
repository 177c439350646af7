"""Under Spark Connect everything works as it does in a classic session."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="install bsjoin[connect] to test Spark Connect")

import connect_checks
from checks_apart import each, passes


@each(connect_checks.CHECKS)
def test_connect_does_as_classic_does(check: str) -> None:
    passes("connect_checks.py", check)


@pytest.mark.long
@each(connect_checks.LONG)
def test_so_does_it_in_the_corners(check: str) -> None:
    passes("connect_checks.py", check, "long")
