"""The cache that all workers of a host share: found, missed, kept and evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cachetools import LRUCache

from benchmarks.kernels.conftest import Ints, Sizes, Timed
from bsjoin.shared import CacheLimits, HostCache, State

_MIX = np.int64(-7046029254386353131)
_NOW = 1_000_000
_FEW = 1_000  # of an LRUCache, which takes microseconds a key


@pytest.fixture
def folders() -> Iterator[Callable[[], Path]]:
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with ExitStack() as kept:
        yield lambda: Path(kept.enter_context(TemporaryDirectory(dir=place)))


def test_dict_look_up(timed: Timed, random: np.random.Generator, sizes: Sizes) -> None:
    rows = {key: key for key in range(sizes.rows)}
    asked = random.integers(0, sizes.rows, sizes.probes).tolist()
    assert timed(lambda: [rows.get(key) for key in asked], len(asked)) == asked


def test_lru_cache_hit(timed: Timed, random: np.random.Generator, sizes: Sizes) -> None:
    cache: LRUCache[int, int] = LRUCache(sizes.rows)
    cache.update((key, key) for key in range(sizes.rows))
    asked = random.integers(0, sizes.rows, _FEW).tolist()
    assert timed(lambda: [cache.get(key) for key in asked], len(asked)) == asked


def test_lru_cache_miss(timed: Timed, sizes: Sizes) -> None:
    cache: LRUCache[int, int] = LRUCache(sizes.rows)
    cache.update((key, key) for key in range(sizes.rows))
    asked = range(sizes.rows, sizes.rows + _FEW)
    assert timed(lambda: [cache.get(key) for key in asked], len(asked)) == [None] * _FEW


def test_lru_cache_put_and_evict(timed: Timed, sizes: Sizes) -> None:
    cache: LRUCache[int, int] = LRUCache(sizes.probes)
    cache.update((key, key) for key in range(sizes.probes))
    new = iter(range(sizes.probes, 1 << 62))

    def put() -> None:
        for _ in range(_FEW):
            key = next(new)
            cache[key] = key

    timed(put, _FEW)
    assert len(cache) == sizes.probes


def test_found(timed: Timed, folders: Any, random: np.random.Generator, sizes: Sizes) -> None:
    cache = _filled(folders(), sizes.rows, None)
    keys = random.integers(0, sizes.rows, sizes.probes)
    found = _find(cache, keys)
    assert (found.states == State.HIT).all()
    assert (found.view.rows.gather(found.first)[0].to_numpy() == 7 * keys).all()
    timed(lambda: _find(cache, keys), len(keys), "test_lru_cache_hit")


def test_found_against_a_dict(
    timed: Timed, folders: Any, random: np.random.Generator, sizes: Sizes
) -> None:
    cache = _filled(folders(), sizes.rows, None)
    keys = random.integers(0, sizes.rows, sizes.probes)
    assert (_find(cache, keys).states == State.HIT).all()
    timed(lambda: _find(cache, keys), len(keys), "test_dict_look_up")


def test_missed(timed: Timed, folders: Any, random: np.random.Generator, sizes: Sizes) -> None:
    cache = _filled(folders(), sizes.rows, None)
    keys = random.integers(sizes.rows, 2 * sizes.rows, sizes.probes)
    assert (_find(cache, keys).states == State.MISS).all()
    timed(lambda: _find(cache, keys), len(keys), "test_lru_cache_miss")


def test_gathered(timed: Timed, folders: Any, random: np.random.Generator, sizes: Sizes) -> None:
    cache = _filled(folders(), sizes.rows, None)
    keys = random.integers(0, sizes.rows, sizes.probes)
    found = _find(cache, keys)
    assert (found.view.rows.gather(found.first)[0].to_numpy() == 7 * keys).all()
    timed(lambda: found.view.rows.gather(found.first), len(keys), "test_dict_look_up", unit="row")


def test_claimed_and_put(timed: Timed, folders: Any, sizes: Sizes) -> None:
    cache = HostCache(folders(), [pa.int64()], [pa.int64()], CacheLimits(), exact=True)
    begin = iter(range(0, 1 << 62, sizes.probes))
    _put(cache, np.arange(-sizes.probes, 0))
    assert (_find(cache, np.arange(-sizes.probes, 0)).states == State.HIT).all()
    timed(
        lambda keys: _put(cache, keys),
        sizes.probes,
        "test_lru_cache_put_and_evict",
        fresh=lambda: (next(begin) + np.arange(sizes.probes),),
    )


def test_put_and_evicted(timed: Timed, folders: Any, sizes: Sizes) -> None:
    cache = _filled(folders(), sizes.rows, sizes.rows)
    begin = iter(range(sizes.rows, 1 << 62, sizes.probes))
    evicted = timed(
        lambda keys: _put(cache, keys),
        sizes.probes,
        "test_lru_cache_put_and_evict",
        fresh=lambda: (next(begin) + np.arange(sizes.probes),),
    )
    assert evicted == sizes.probes
    assert cache.held()[0] == sizes.rows
    cache._check()


def _hashes(keys: Ints) -> Ints:
    mixed = keys * _MIX
    return mixed ^ (mixed >> np.int64(29))


def _find(cache: HostCache, keys: Ints) -> Any:
    return cache.find(_hashes(keys), [pa.array(keys)], _NOW)[0]


def _put(cache: HostCache, keys: Ints) -> int:
    hashes, columns = _hashes(keys), [pa.array(keys)]
    _, ticks = cache.find(hashes, columns, _NOW)
    cache.claim(hashes, columns, ticks, _NOW)
    ones = np.ones(len(keys), np.int64)
    rows = [pa.array(7 * keys)]
    return cache.put(hashes, columns, ones, rows, ticks, _NOW, cache.header.invalidations)


def _filled(folder: Path, rows: int, most: int | None) -> HostCache:
    cache = HostCache(folder, [pa.int64()], [pa.int64()], CacheLimits(max_rows=most), exact=True)
    for begin in range(0, rows, 100_000):
        _put(cache, np.arange(begin, min(begin + 100_000, rows)))
    return cache
