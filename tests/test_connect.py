"""Under Spark Connect everything works as it does in a classic session."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="install bsjoin[connect] to test Spark Connect")

import connect_checks
from checks_apart import outcomes_of


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Run all checks in one process: what failed in each."""
    return outcomes_of("connect_checks.py", tmp_path_factory.mktemp("connect"))


@pytest.mark.parametrize("check", connect_checks.CHECKS)
def test_connect_does_as_classic_does(outcomes: dict[str, str | None], check: str) -> None:
    if outcomes[check]:
        pytest.fail(f"{check} failed under Spark Connect:\n{outcomes[check]}", pytrace=False)
