"""Many workers of a host share one cache: they ask once, hold it once, and survive each other."""

from __future__ import annotations

import pytest
import worker_checks
from checks_apart import each, passes


@each(worker_checks.CHECKS)
def test_four_workers_share_a_cache(check: str) -> None:
    passes("worker_checks.py", check)


@pytest.mark.long
@each(worker_checks.LONG)
def test_a_bound_holds_a_start_is_slow_and_workers_may_die(check: str) -> None:
    passes("worker_checks.py", check, "long")
