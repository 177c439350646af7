"""The cache that all workers of a host share: found, missed, kept and evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cachetools import LRUCache

from benchmarks.data.zipf import mixed
from benchmarks.kernels.conftest import Ints, Sizes, Timed
from bsjoin.cache import CacheLimits, HostCache, State

_NOW = 1_000_000
_FEW = 1_000  # of an LRUCache, which takes microseconds a key

Filled = Callable[..., HostCache]


@pytest.fixture
def filled() -> Iterator[Filled]:
    """Makes a cache with so many rows, in memory if the machine has such a folder."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as folder:

        def fill(rows: int, most: int | None = None) -> HostCache:
            limits = CacheLimits(max_rows=most)
            cache = HostCache(Path(folder), [pa.int64()], [pa.int64()], limits, exact=True)
            for begin in range(0, rows, 100_000):
                _put(cache, np.arange(begin, min(begin + 100_000, rows)))
            return cache

        yield fill


@pytest.fixture
def asked(sizes: Sizes) -> Ints:
    """Keys that a cache with all rows has."""
    return sizes.random().integers(0, sizes.rows, sizes.probes)


def _plain(way: Callable[[int], Any], rows: int) -> Any:
    cache = way(rows)
    cache.update((key, key) for key in range(rows))
    return cache


@pytest.mark.parametrize(
    ("way", "many"),
    [
        pytest.param(lambda rows: {}, None, id="dict look up"),
        pytest.param(LRUCache, _FEW, id="lru cache hit"),
    ],
)
def test_plain_hit(timed: Timed, asked: Ints, sizes: Sizes, way: Any, many: int | None) -> None:
    cache, keys = _plain(way, sizes.rows), asked[:many].tolist()
    assert [cache.get(key) for key in keys] == keys
    timed(lambda: [cache.get(key) for key in keys], len(keys))


def test_lru_cache_miss(timed: Timed, sizes: Sizes) -> None:
    cache, keys = _plain(LRUCache, sizes.rows), range(sizes.rows, sizes.rows + _FEW)
    assert [cache.get(key) for key in keys] == [None] * _FEW
    timed(lambda: [cache.get(key) for key in keys], _FEW)


def test_lru_cache_put_and_evict(timed: Timed, sizes: Sizes) -> None:
    cache, new = _plain(LRUCache, sizes.probes), count(sizes.probes)

    def put() -> None:
        for _ in range(_FEW):
            key = next(new)
            cache[key] = key

    put()
    assert len(cache) == sizes.probes
    timed(put, _FEW)


@pytest.mark.parametrize(
    "over",
    [
        pytest.param("lru cache hit", id="found"),
        pytest.param("dict look up", id="found against a dict"),
    ],
)
def test_found(timed: Timed, filled: Filled, asked: Ints, sizes: Sizes, over: str) -> None:
    cache = filled(sizes.rows)
    assert (_find(cache, asked).states == State.HIT).all()
    timed(lambda: _find(cache, asked), len(asked), over)


def test_missed(timed: Timed, filled: Filled, asked: Ints, sizes: Sizes) -> None:
    cache, keys = filled(sizes.rows), asked + sizes.rows
    assert (_find(cache, keys).states == State.MISS).all()
    timed(lambda: _find(cache, keys), len(keys), "lru cache miss")


def test_gathered(timed: Timed, filled: Filled, asked: Ints, sizes: Sizes) -> None:
    seen = _find(filled(sizes.rows), asked)
    assert (seen.view.rows.gather(seen.first)[0].to_numpy() == 7 * asked).all()
    timed(lambda: seen.view.rows.gather(seen.first), len(asked), "dict look up", "row")


def test_claimed_and_put(timed: Timed, filled: Filled, sizes: Sizes) -> None:
    cache, many = filled(0), np.arange(sizes.probes)
    _put(cache, many)
    assert (_find(cache, many).states == State.HIT).all()
    _time_puts(timed, cache, sizes.probes, sizes.probes)


def test_put_and_evicted(timed: Timed, filled: Filled, sizes: Sizes) -> None:
    cache, many = filled(sizes.rows, sizes.rows), np.arange(sizes.probes)
    assert _put(cache, sizes.rows + many) == sizes.probes
    assert cache.held()[0] == sizes.rows
    cache._check()
    _time_puts(timed, cache, sizes.rows + sizes.probes, sizes.probes)


def _time_puts(timed: Timed, cache: HostCache, begin: int, many: int) -> None:
    """Time to put new keys, others in each round."""
    begins = count(begin, many)
    fresh = lambda: (next(begins) + np.arange(many),)  # noqa: E731
    timed(partial(_put, cache), many, "lru cache put and evict", fresh=fresh)


def _find(cache: HostCache, keys: Ints) -> Any:
    return cache.find(mixed(keys), [pa.array(keys)], _NOW)[0]


def _put(cache: HostCache, keys: Ints) -> int:
    hashes, columns = mixed(keys), [pa.array(keys)]
    _, ticks = cache.find(hashes, columns, _NOW)
    cache.claim(hashes, columns, ticks, _NOW)
    ones = np.ones(len(keys), np.int64)
    rows = [pa.array(7 * keys)]
    return cache.put(hashes, columns, ones, rows, ticks, _NOW, cache.header.invalidations)
