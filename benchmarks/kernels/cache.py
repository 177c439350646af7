"""The cache that all workers of a host share: found, missed, kept and evicted."""

from __future__ import annotations

import weakref
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from benchmarks.data.zipf import mixed
from benchmarks.kernels.timing import Ints, Prepared, Sizes, kernel
from bsjoin.shared import CacheLimits, HostCache, State

_NOW = 1_000_000
_FEW = 1_000  # of an LRUCache, which takes microseconds a key

_kernel = partial(kernel, "cache")


@_kernel()
def dict_look_up(sizes: Sizes) -> Prepared:
    rows = {key: key for key in range(sizes.rows)}
    asked = sizes.random().integers(0, sizes.rows, sizes.probes).tolist()
    assert [rows.get(key) for key in asked] == asked
    return lambda: [rows.get(key) for key in asked], len(asked)


def _lru_cache(rows: int) -> LRUCache[int, int]:
    cache: LRUCache[int, int] = LRUCache(rows)
    cache.update((key, key) for key in range(rows))
    return cache


@_kernel()
def lru_cache_hit(sizes: Sizes) -> Prepared:
    cache = _lru_cache(sizes.rows)
    asked = sizes.random().integers(0, sizes.rows, _FEW).tolist()
    assert [cache.get(key) for key in asked] == asked
    return lambda: [cache.get(key) for key in asked], len(asked)


@_kernel()
def lru_cache_miss(sizes: Sizes) -> Prepared:
    cache, asked = _lru_cache(sizes.rows), range(sizes.rows, sizes.rows + _FEW)
    assert [cache.get(key) for key in asked] == [None] * _FEW
    return lambda: [cache.get(key) for key in asked], len(asked)


@_kernel()
def lru_cache_put_and_evict(sizes: Sizes) -> Prepared:
    cache, new = _lru_cache(sizes.probes), count(sizes.probes)

    def put() -> None:
        for _ in range(_FEW):
            key = next(new)
            cache[key] = key

    put()
    assert len(cache) == sizes.probes
    return put, _FEW


@_kernel("lru cache hit")
def found(sizes: Sizes) -> Prepared:
    cache, keys = _filled(sizes.rows, None), sizes.random().integers(0, sizes.rows, sizes.probes)
    seen = _find(cache, keys)
    assert (seen.states == State.HIT).all()
    assert (seen.view.rows.gather(seen.first)[0].to_numpy() == 7 * keys).all()
    return lambda: _find(cache, keys), len(keys)


_kernel("dict look up", name="found against a dict")(found)


@_kernel("lru cache miss")
def missed(sizes: Sizes) -> Prepared:
    cache = _filled(sizes.rows, None)
    keys = sizes.random().integers(sizes.rows, 2 * sizes.rows, sizes.probes)
    assert (_find(cache, keys).states == State.MISS).all()
    return lambda: _find(cache, keys), len(keys)


@_kernel("dict look up", "row")
def gathered(sizes: Sizes) -> Prepared:
    cache, keys = _filled(sizes.rows, None), sizes.random().integers(0, sizes.rows, sizes.probes)
    seen = _find(cache, keys)
    assert (seen.view.rows.gather(seen.first)[0].to_numpy() == 7 * keys).all()
    return lambda: seen.view.rows.gather(seen.first), len(keys)


@_kernel("lru cache put and evict")
def claimed_and_put(sizes: Sizes) -> Prepared:
    cache, many = _filled(0, None), np.arange(sizes.probes)
    _put(cache, many)
    assert (_find(cache, many).states == State.HIT).all()
    begins = count(sizes.probes, sizes.probes)
    return partial(_put, cache), sizes.probes, lambda: (next(begins) + many,)


@_kernel("lru cache put and evict")
def put_and_evicted(sizes: Sizes) -> Prepared:
    cache, many = _filled(sizes.rows, sizes.rows), np.arange(sizes.probes)
    begins = count(sizes.rows, sizes.probes)
    assert _put(cache, next(begins) + many) == sizes.probes
    assert cache.held()[0] == sizes.rows
    cache._check()
    return partial(_put, cache), sizes.probes, lambda: (next(begins) + many,)


def _find(cache: HostCache, keys: Ints) -> Any:
    return cache.find(mixed(keys), [pa.array(keys)], _NOW)[0]


def _put(cache: HostCache, keys: Ints) -> int:
    hashes, columns = mixed(keys), [pa.array(keys)]
    _, ticks = cache.find(hashes, columns, _NOW)
    cache.claim(hashes, columns, ticks, _NOW)
    ones = np.ones(len(keys), np.int64)
    rows = [pa.array(7 * keys)]
    return cache.put(hashes, columns, ones, rows, ticks, _NOW, cache.header.invalidations)


def _filled(rows: int, most: int | None) -> HostCache:
    """A cache with so many rows, in a folder that is removed with it."""
    folder = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    limits = CacheLimits(max_rows=most)
    cache = HostCache(Path(folder.name), [pa.int64()], [pa.int64()], limits, exact=True)
    weakref.finalize(cache, folder.cleanup)
    for begin in range(0, rows, 100_000):
        _put(cache, np.arange(begin, min(begin + 100_000, rows)))
    return cache
