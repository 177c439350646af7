"""Caches on several hosts, with rows routed by a rule and without: Fig. 11 of the BS-Join paper.

A simulation: each host has an LRU cache of its own, and a micro-batch on a host asks for the
distinct keys that are not in it. On one host bsjoin's workers share a cache, and routing does not
matter; this shows what it does for several.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.shifting import Shifting
from benchmarks.data.zipf import hashed
from bsjoin.hotspot import Collector, Controller, HotSpot, Router, Rule

__all__ = ["ANYWHERE", "HASH", "HOTSPOT", "measure"]

Int64s = NDArray[np.int64]

ANYWHERE, HASH, HOTSPOT = "no routing", "hash", "HotSpot"


class _Cache:
    """An exact LRU cache of keys."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._keys: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def ask(self, keys: list[int]) -> int:
        """Look distinct keys up; how many of them were not there."""
        missing = 0
        for key in keys:
            if key in self._keys:
                self._keys.move_to_end(key)
                continue
            missing += 1
            self._keys[key] = None
            if len(self._keys) > self._capacity:
                self._keys.popitem(last=False)
        return missing


def measure(
    keys: int,
    rows: int,
    cycles: int,
    hosts: int,
    share: float,
    z: float = 1.16,
    seed: int = 4,
) -> dict[str, dict[str, Any]]:
    """Run a Zipf stream over the caches of some hosts.

    Args:
        keys: distinct keys of the table.
        rows: of a cycle.
        cycles: how many; the hot keys move in the middle.
        hosts: how many, with a partition each.
        share: of the keys that a host's cache may hold.
        z: the exponent.
        seed: of the stream, and of where its rows go without routing.

    Returns:
        For each way: ``remote`` look-ups, ``hit_rate`` of rows (a row whose key is asked for once
        in its micro-batch and host is a miss once), ``cached`` keys on all hosts at the end and
        how many ``distinct`` ones these are, and the ``busiest`` host's rows over the mean.
    """
    stream = Shifting(keys, z, rows, every=max(1, cycles // 2), seed=seed)
    found = {}
    for way in (ANYWHERE, HASH, HOTSPOT):
        controller = Controller(HotSpot(partitions=hosts))
        router = Router(Rule.even(hosts))
        caches = [_Cache(round(keys * share)) for _ in range(hosts)]
        random = np.random.default_rng(seed + 1)
        remote, busiest = 0, []
        for number in range(cycles):
            codes = hashed(stream.cycle(number))
            places: NDArray[Any] = random.integers(0, hosts, rows)
            if way != ANYWHERE:
                collector = Collector(router, 20_000, seed=number)
                places = collector.route(codes, hashed(np.arange(rows) + number * rows))
                if way == HOTSPOT and controller.observe(collector.statistics()) is not None:
                    router = Router(controller.rule)
            counts = np.bincount(places, minlength=hosts)
            busiest.append(float(counts.max() / counts.mean()))
            for host, cache in enumerate(caches):
                remote += cache.ask(np.unique(codes[places == host]).tolist())
        held = [len(cache) for cache in caches]
        distinct = len(set().union(*(cache._keys for cache in caches)))
        found[way] = {
            "remote": remote,
            "hit_rate": 1 - remote / (rows * cycles),
            "cached": sum(held),
            "distinct": distinct,
            "busiest": float(np.median(busiest)),
        }
    return found
