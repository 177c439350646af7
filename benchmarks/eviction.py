"""Hit rates of eviction policies on Zipf traces: simulated, and in the shared cache.

The traces come in batches, as the cache gets its keys: what is missing is loaded when the batch was
looked up, and the cache evicts then. The models keep no more than they need for that; they are also
what the policies of the shared cache are held against (tests/benchmarks/test_eviction.py).
"""

from __future__ import annotations

import argparse
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.zipf import mixed, scattered, zipf
from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.policy import POLICIES

Int64s = NDArray[np.int64]

TRACES = {
    "Zipf": "keys drawn by themselves",
    "scans": "a third of the uses are runs of keys that occur once",
    "moving": "in each of 20 parts of the trace the ranks have moved on by 1 % of the keys",
}
_PARTS = 20


class Cache(Protocol):
    """A cache of a number of keys."""

    def batch(self, keys: Sequence[int]) -> int:
        """Use keys, then store the missing ones; how many were hits."""


class LRU:
    """The least recently used key goes first."""

    def __init__(self, size: int):
        self.size, self.keys = size, OrderedDict[int, None]()

    def batch(self, keys: Sequence[int]) -> int:
        """See :meth:`Cache.batch`."""
        hits = sum(key in self.keys for key in keys)
        for key in _by_last_use(keys):
            self.keys[key] = None
            self.keys.move_to_end(key)
        while len(self.keys) > self.size:
            self.keys.popitem(last=False)
        return hits


class S3FIFO:
    """Two queues and a memory of evicted keys (Yang et al., SOSP 2023)."""

    def __init__(self, size: int):
        self.size, self.visits = size, dict[int, int]()
        self.small, self.main, self.ghosts = deque[int](), deque[int](), OrderedDict[int, None]()

    def batch(self, keys: Sequence[int]) -> int:
        """See :meth:`Cache.batch`."""
        missing = [key for key in keys if key not in self.visits]
        for key in dict.fromkeys(keys):
            if key in self.visits:
                self.visits[key] = min(3, self.visits[key] + 1)
        for key in _by_last_use(missing):
            known = key in self.ghosts
            self.ghosts.pop(key, None)
            (self.main if known else self.small).append(key)
            self.visits[key] = 0
        while len(self.visits) > self.size:
            self._evict()
        return len(keys) - len(missing)

    def _evict(self) -> None:
        if len(self.small) > self.size // 10:
            key = self.small.popleft()
            if self.visits[key]:
                self.visits[key] = 0
                self.main.append(key)
                return
            self.ghosts[key] = None
            if len(self.ghosts) > self.size:
                self.ghosts.popitem(last=False)
        else:
            key = self.main.popleft()
            if self.visits[key]:
                self.visits[key] -= 1
                self.main.append(key)
                return
        del self.visits[key]


class Sieve:
    """A hand passes over used keys, and evicts the others (Zhang et al., NSDI 2024).

    Room is made before keys are stored: a hand that reached the new ones would evict them first.
    """

    def __init__(self, size: int):
        self.size, self.used = size, dict[int, bool]()
        self.queue, self.hand = list[int](), 0

    def batch(self, keys: Sequence[int]) -> int:
        """See :meth:`Cache.batch`."""
        missing = [key for key in keys if key not in self.used]
        for key in keys:
            if key in self.used:
                self.used[key] = True
        fresh = _by_last_use(missing)[-self.size :]
        self._evict(len(self.used) + len(fresh) - self.size)
        self.queue += fresh
        self.used |= dict.fromkeys(fresh, False)
        return len(keys) - len(missing)

    def _evict(self, many: int) -> None:
        hand = self.hand
        while many > 0:
            hand %= len(self.queue)
            key = self.queue[hand]
            if key in self.used:
                if self.used[key]:
                    self.used[key] = False
                else:
                    del self.used[key]
                    many -= 1
            hand += 1
        self.hand = sum(key in self.used for key in self.queue[:hand])
        self.queue = [key for key in self.queue if key in self.used]


class TinyLFU:
    """W-TinyLFU (Einziger et al., ACM ToS 2017): the more frequent of two keys stays.

    With exact counts where it has a sketch, halved after ten uses for each key of the cache.
    """

    def __init__(self, size: int):
        self.window_size = max(1, size // 100)
        self.main_size, self.protected_size = size - self.window_size, size * 8 // 10
        self.window, self.trial, self.protected = (OrderedDict[int, None]() for _ in range(3))
        self.counts, self.counted, self.sample = dict[int, int](), 0, 10 * size

    def batch(self, keys: Sequence[int]) -> int:
        """See :meth:`Cache.batch`."""
        hits = 0
        for key in keys:
            hits += key in self.window or key in self.protected or key in self.trial
            self.counts[key] = min(15, self.counts.get(key, 0) + 1)
        self.counted += len(keys)
        if self.counted >= self.sample:
            self.counts = {key: count // 2 for key, count in self.counts.items() if count > 1}
            self.counted = 0
        for key in _by_last_use(keys):
            self._use(key)
        while len(self.window) > self.window_size:
            self._admit(self.window.popitem(last=False)[0])
        return hits

    def _use(self, key: int) -> None:
        if key in self.protected:
            self.protected.move_to_end(key)
        elif key in self.trial:
            del self.trial[key]
            self.protected[key] = None
            if len(self.protected) > self.protected_size:
                self.trial[self.protected.popitem(last=False)[0]] = None
        else:
            self.window[key] = None
            self.window.move_to_end(key)

    def _admit(self, key: int) -> None:
        if len(self.trial) + len(self.protected) >= self.main_size:
            among = self.trial or self.protected
            if self.counts.get(key, 0) <= self.counts.get(next(iter(among)), 0):
                return
            among.popitem(last=False)
        self.trial[key] = None


class Shared:
    """The shared cache of a host, with one of its policies."""

    def __init__(self, folder: Path, size: int, eviction: str):
        limits = CacheLimits(max_rows=size, eviction=eviction)
        self.cache = HostCache(folder, [pa.int64()], [], limits, exact=True)

    def batch(self, keys: Sequence[int]) -> int:
        """See :meth:`Cache.batch`."""
        batch = np.array(keys)
        hashes = mixed(batch)
        found, ticks = self.cache.find(hashes, [pa.array(batch)], 0)
        missing = np.flatnonzero(found.states == State.MISS)
        _, last = np.unique(hashes[missing][::-1], return_index=True)
        new = missing[::-1][last]
        columns, ones = [pa.array(batch[new])], np.ones(len(new), np.int64)
        self.cache.claim(hashes[new], columns, ticks[new], 0)
        self.cache.put(hashes[new], columns, ones, [], ticks[new], 0, 0)
        return len(keys) - len(missing)


MODELS: dict[str, Callable[[int], Cache]] = {
    "LRU": LRU,
    "S3-FIFO": S3FIFO,
    "SIEVE": Sieve,
    "W-TinyLFU": TinyLFU,
}


def trace(kind: str, z: float, keys: int, uses: int, seed: int) -> Int64s:
    """A trace of ``TRACES``; scans are added to its ``uses``."""
    ranks = zipf(keys, z, uses, seed)
    if kind == "moving":
        ranks = (ranks + np.arange(uses) * _PARTS // uses * (keys // 100)) % keys + 1
    drawn = scattered(ranks, keys)
    if kind != "scans":
        return drawn
    each = uses // _PARTS // 2
    parts = [
        np.concatenate((part, np.arange(keys + n * each, keys + (n + 1) * each)))
        for n, part in enumerate(np.array_split(drawn, _PARTS))
    ]
    return np.concatenate(parts)


def hit_rate(cache: Cache, uses: Int64s, batch: int) -> float:
    """Percent of the uses that are hits, after the first quarter, which warms the cache up."""
    hits = counted = 0
    for begin in range(0, len(uses), batch):
        part = uses[begin : begin + batch].tolist()
        found = cache.batch(part)
        if begin >= len(uses) // 4:
            hits, counted = hits + found, counted + len(part)
    return 100 * hits / counted


def measured(keys: int, uses: int, batch: int, seed: int) -> Iterator[dict[str, str | float]]:
    """The hit rates of every policy, trace by trace."""
    for kind in TRACES:
        for z in (0.8, 1.0, 1.2):
            drawn = trace(kind, z, keys, uses, seed)
            for share in (100, 10):
                size = keys // share
                line = {"trace": kind, "z": f"{z:g}", "cache": f"{100 // share} %"}
                rates = {name: hit_rate(made(size), drawn, batch) for name, made in MODELS.items()}
                for option in POLICIES:
                    with tempfile.TemporaryDirectory() as folder:
                        shared = Shared(Path(folder), size, option)
                        rates[f"cache: {option}"] = hit_rate(shared, drawn, batch)
                yield line | rates


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keys", type=int, default=20_000, help="default 20000")
    parser.add_argument("--uses", type=int, default=200_000, help="default 200000")
    parser.add_argument("--batch", type=int, default=500, help="default 500")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    arguments = parser.parse_args()
    for number, row in enumerate(measured(**vars(arguments))):
        if not number:
            print("| " + " | ".join(row) + " |", "| --- " * len(row) + "|", sep="\n")
        cells = (cell if isinstance(cell, str) else f"{cell:.1f}" for cell in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def _by_last_use(keys: Sequence[int]) -> list[int]:
    """The different keys in the order of their last uses."""
    return list(dict.fromkeys(reversed(keys)))[::-1]


if __name__ == "__main__":
    main()
