"""Hosts with a partition and a cache each, under a skewed stream: a simulation.

Rows are routed by bsjoin's own rules and counted exactly; a host asks for the distinct keys of a
cycle that are not in its cache. Throughput and latency follow from two costs, a row's and a
look-up's: a cycle takes as long as its busiest host. On one host bsjoin's workers share a cache,
and routing changes nothing.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.zipf import hashed
from benchmarks.papers.joins.skews import Int64s, rule_maker
from bsjoin.partitioning import Collector, Router, Rule

HOSTS = 6
ROW_US, LOOK_UP_US = 1.0, 10.0
"""A row on one core, and a key in a query for many: about what the README measures on two cores."""


class FullCache:
    """A cache with room for all of so many keys."""

    def __init__(self, keys: int):
        self._has = np.zeros(keys, np.bool_)

    def add(self, keys: Int64s) -> int:
        """Look up keys; the number of misses."""
        before = np.count_nonzero(self._has)
        self._has[keys] = True
        return int(np.count_nonzero(self._has) - before)

    def keys(self) -> Int64s:
        """The keys in the cache."""
        return np.flatnonzero(self._has)


@dataclass
class Routed:
    """What a stream did to the hosts, cycle by cycle.

    The first cycle is the same under every rule: shares, times and the median of DS leave it out.

    Args:
        skew: DS of each cycle.
        loads: rows of each host.
        look_ups: misses of each host.
        cached: keys in all caches at the end of the cycle.
        distinct: different ones among the last of these.

    Attributes:
        settled: the median of DS.
        shares: percent of the rows that each host got.
        latency_ms: the mean time of a cycle on its busiest host.
        throughput: rows a second: those of a cycle over the time of its busiest host.
        warm: likewise with every key in the cache: only the rows of the busiest host count.
        remote: all misses.
    """

    skew: list[float]
    loads: list[list[int]]
    look_ups: list[list[int]]
    cached: list[int]
    distinct: int = 0

    def __post_init__(self) -> None:
        rows, missed = np.array(self.loads[1:]), np.array(self.look_ups[1:])
        self.settled = statistics.median(self.skew[1:])
        self.shares = tuple((100 * rows.sum(axis=0) / rows.sum()).tolist())
        self.latency_ms = float((rows * ROW_US + missed * LOOK_UP_US).max(axis=1).mean()) / 1e3
        self.throughput = float(rows.sum(axis=1).mean()) / self.latency_ms * 1e3
        self.warm = float(rows.sum() / (rows.max(axis=1).sum() * ROW_US / 1e6))
        self.remote = int(np.sum(self.look_ups))


def simulate(way: str, cycles: list[Int64s], keys: int) -> Routed:
    """Route a stream's cycles, each under the rule that results from those before it.

    Args:
        way: one of :data:`benchmarks.papers.joins.skews.WAYS`.
        cycles: the keys of each, 0 to ``keys`` - 1.
        keys: of the table; a host's cache has room for all.

    Complexity: O(rows) time; a byte per key and host.
    """
    observe, sample = rule_maker(way, HOSTS)
    router = Router(Rule.even(HOSTS))
    caches = [FullCache(keys) for _ in range(HOSTS)]
    cycle_by_cycle: list[tuple[float, list[int], list[int], int]] = []
    for index, stream in enumerate(cycles):
        collector = Collector(router, sample, seed=index)
        contents = hashed(np.arange(len(stream)) + index * len(stream))
        places: NDArray[np.int64] = collector.route(hashed(stream), contents)
        seen = collector.statistics()
        loads = np.bincount(places, minlength=HOSTS).tolist()
        missed = [cache.add(stream[places == host]) for host, cache in enumerate(caches)]
        held = sum(len(cache.keys()) for cache in caches)
        cycle_by_cycle.append((seen.skew, loads, missed, held))
        if (rule := observe(seen)) is not None:
            router = Router(rule)
    skew, every_load, every_miss, cached = map(list, zip(*cycle_by_cycle, strict=True))
    distinct = len(np.unique(np.concatenate([cache.keys() for cache in caches])))
    return Routed(skew, every_load, every_miss, cached, distinct)
