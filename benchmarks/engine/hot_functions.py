"""The cache that all workers of a host share: finding and putting keys, beside an ``LRUCache``.

Nanoseconds differ from machine to machine. So each function is compared with a plain way to do the
same in the same run, after its answer was checked.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.timing import Times, alternate, rows_by_way, seconds_of
from bsjoin.cache import CacheLimits, HostCache, State

Ints = NDArray[np.int64]
_NOW = 1_000_000
_FEW = 1_000  # of an LRUCache, which takes microseconds a key
_PROBES = 10_000  # of a batch, as in an Arrow batch of Spark
_COMPARED = (
    ("cache: claimed and put", "lru cache put and evict"),
    ("cache: found", "lru cache hit"),
)


def run(context: Context) -> Outcome:
    """Check and time; quick: 100,000 rows, not two million, and fewer rounds."""
    rows, rounds = context.pick((100_000, 20), (2_000_000, 100))
    # In memory if the machine has such a folder.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as folder:
        times = _measured(Path(folder), rows, rounds)
    note = "For one key, on one core; an LRUCache with one key at a time, in one process."
    return Outcome(
        [_figure(name, over, times) for name, over in _COMPARED],
        [Table.of("The shared cache beside an LRUCache", rows_by_way(times, "ns"), note)],
        measured=times,
    )


def _measured(folder: Path, rows: int, rounds: int) -> Times:
    """Nanoseconds for one key, round by round."""
    full, new = _cache(folder / "full"), _cache(folder / "new")
    for begin in range(0, rows, 100_000):
        _put(full, np.arange(begin, min(begin + 100_000, rows)))
    lru, small = LRUCache[int, int](rows), LRUCache[int, int](_PROBES)
    lru.update((key, key) for key in range(rows))
    small.update((key, key) for key in range(_PROBES))
    asked = np.random.default_rng(20261122).integers(0, rows, _PROBES)
    few, batches, keys = asked[:_FEW].tolist(), count(0, _PROBES), count(_PROBES)

    def put() -> None:
        _put(new, next(batches) + np.arange(_PROBES))

    def put_into_lru() -> None:
        for _ in range(_FEW):
            key = next(keys)
            small[key] = key

    put()
    put_into_lru()
    if not (
        (_find(full, asked).states == State.HIT).all()
        and (_find(new, np.arange(_PROBES)).states == State.HIT).all()
        and [lru.get(key) for key in few] == few
        and len(small) == _PROBES
    ):
        raise AssertionError("a cache does not have what was put into it")
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "cache: claimed and put": (put, _PROBES),
        "lru cache put and evict": (put_into_lru, _FEW),
        "cache: found": (lambda: _find(full, asked), _PROBES),
        "lru cache hit": (lambda: [lru.get(key) for key in few], _FEW),
    }
    seconds = alternate({name: partial(seconds_of, way) for name, (way, _) in ways.items()}, rounds)
    return {name: [1e9 * one / ways[name][1] for one in some] for name, some in seconds.items()}


def _figure(name: str, over: str, times: Times) -> Figure:
    """The ratio of the shortest rounds: all else on a machine only makes rounds longer.

    Its spread: the least of one over the upper quartile of the other, to the reverse.
    """
    ours, plain = times[name], times[over]
    slow = [statistics.quantiles(one, n=4)[2] for one in (ours, plain)]
    spread = (min(ours) / slow[1], slow[0] / min(plain))
    return Figure(f"{name} / {over}", min(ours) / min(plain), at_most=True, spread=spread)


def mixed(keys: Ints) -> Ints:
    """A hash of 64 bits that no two keys share."""
    hashes = keys * np.int64(-7046029254386353131)
    return hashes ^ (hashes >> np.int64(29))


def _cache(folder: Path) -> HostCache:
    folder.mkdir()
    return HostCache(folder, [pa.int64()], [pa.int64()], CacheLimits(max_rows=None), exact=True)


def _find(cache: HostCache, keys: Ints) -> Any:
    return cache.find(mixed(keys), [pa.array(keys)], _NOW)[0]


def _put(cache: HostCache, keys: Ints) -> int:
    hashes, columns = mixed(keys), [pa.array(keys)]
    _, ticks = cache.find(hashes, columns, _NOW)
    cache.claim(hashes, columns, ticks, _NOW)
    ones, rows = np.ones(len(keys), np.int64), [pa.array(7 * keys)]
    return cache.put(hashes, columns, ones, rows, ticks, _NOW, cache.header.invalidations)
