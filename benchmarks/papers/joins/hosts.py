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

from benchmarks.papers.joins.skews import Int64s, routed

HOSTS = 6
ROW_US, LOOK_UP_US = 1.0, 10.0
"""A row on one core, and a key in a query for many: about what the README measures on two cores."""


@dataclass
class Routed:
    """What a stream did to the hosts, cycle by cycle.

    The first cycle is the same under every rule: shares, times and the median of DS leave it out.

    Args:
        skew: DS of each cycle.
        loads: rows of each host.
        held: keys in the cache of each host at the end of the cycle.
        distinct: different ones among the last of these.

    Attributes:
        settled: the median of DS.
        shares: percent of the rows that each host got.
        cached: the keys in all caches at last: as many as were looked up.
        latency_ms: the mean time of a cycle on its busiest host.
        throughput: rows a second: those of a cycle over the time of its busiest host.
        warm: likewise with every key in the cache: only the rows of the busiest host count.
    """

    skew: list[float]
    loads: list[list[int]]
    held: list[list[int]]
    distinct: int

    def __post_init__(self) -> None:
        rows, missed = np.array(self.loads[1:]), np.diff(self.held, axis=0)
        self.settled = statistics.median(self.skew[1:])
        self.shares = tuple((100 * rows.sum(axis=0) / rows.sum()).tolist())
        self.cached = sum(self.held[-1])
        self.latency_ms = float((rows * ROW_US + missed * LOOK_UP_US).max(axis=1).mean()) / 1e3
        self.throughput = float(rows.sum(axis=1).mean()) / self.latency_ms * 1e3
        self.warm = float(rows.sum() / (rows.max(axis=1).sum() * ROW_US / 1e6))


def simulate(way: str, cycles: list[Int64s], keys: int) -> Routed:
    """Route a stream's cycles, each under the rule that results from those before it.

    Args:
        way: one of :data:`benchmarks.papers.joins.skews.WAYS`.
        cycles: the keys of each, 0 to ``keys`` - 1.
        keys: of the table; a host's cache has room for all.

    Complexity: O(rows) time; a byte per key and host.
    """
    caches = np.zeros((HOSTS, keys), np.bool_)
    skews, loads, held = [], [], []
    for stream, (skew, places) in zip(cycles, routed(way, HOSTS, cycles), strict=True):
        caches[places, stream] = True
        skews.append(skew)
        loads.append(np.bincount(places, minlength=HOSTS).tolist())
        held.append([int(np.count_nonzero(cache)) for cache in caches])
    return Routed(skews, loads, held, int(np.count_nonzero(caches.any(axis=0))))
