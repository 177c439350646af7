"""Many workers of Spark share one cache: they ask once, hold it once, and survive each other.

Processes without Spark do so in `cache/test_shared_processes.py`.
"""

from __future__ import annotations

import pytest
import worker_checks
from checks_apart import each, passes


@pytest.mark.long
@each(worker_checks.CHECKS)
def test_four_workers_share_a_cache(check: str) -> None:
    passes("worker_checks.py", check)
