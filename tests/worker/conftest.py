"""What the tests of the worker's side share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bsjoin.runtimes.python.worker import full_cache, notes
from bsjoin.storage import StorageLocation


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What one test has opened is not there for the next."""
    yield
    full_cache._tables.clear()
    notes._kept.clear()


@pytest.fixture
def location(tmp_path: Path) -> StorageLocation:
    return StorageLocation.of(tmp_path)
