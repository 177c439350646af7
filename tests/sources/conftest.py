"""Every source that a test makes is closed when the test ends, as a worker closes those it drops.

The drivers of databases leave a connection that breaks, or is refused, to the garbage collector;
here connections break on purpose.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis_clusters import Cluster
from servers import Redis
from source_stands import DATABASES, STANDS, Database, Iceberg

from bsjoin.sources import Source

_LEFT_BY_DRIVERS = pytest.mark.filterwarnings(
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/sources" in item.path.as_posix():
            item.add_marker(_LEFT_BY_DRIVERS)


@pytest.fixture(scope="module", autouse=True)
def _collect_what_drivers_have_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="session")
def cluster(redis_server: Redis) -> Iterator[Cluster]:
    made = Cluster(redis_server.program)
    yield made
    made.remove()


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    """One of Iceberg, with the namespace ``shop``."""
    return Iceberg(tmp_path).catalog


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database without a table ``t``."""
    found = STANDS[request.param](tmp_path, request)
    assert isinstance(found, Database)
    found.run("DROP TABLE IF EXISTS t")
    return found


@pytest.fixture(autouse=True)
def _close_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: weakref.WeakSet[Source] = weakref.WeakSet()
    first = Source.__init__

    def remembered(self: Source, *args: Any) -> None:
        first(self, *args)
        made.add(self)

    monkeypatch.setattr(Source, "__init__", remembered)
    yield
    for source in made:
        source.close()
