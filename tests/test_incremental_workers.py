"""Many workers of a host share one cache: they ask once, hold it once, and survive each other."""

from __future__ import annotations

import pytest
import worker_checks
from checks_apart import each, passes


@each(worker_checks.CHECKS)
def test_four_workers_share_a_cache(request: pytest.FixtureRequest, check: str) -> None:
    passes("worker_checks.py", check, f"seed {request.config.option.hypothesis_seed}")


@pytest.mark.long
@each(worker_checks.LONG)
def test_workers_may_die_at_every_step(check: str) -> None:
    passes("worker_checks.py", check, "long")
