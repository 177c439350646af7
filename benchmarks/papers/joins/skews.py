"""Hot keys without Spark: the skew DS under every rule.

A cycle of keys is routed by tasks as in a plan, and its statistics travel as texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.zipf import Shifting, hashed
from bsjoin import partitioning

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
PARTITIONS = (6, 16, 128)
HASH, PAPER = "hash", "the paper's rule"
WHOLE, SPLIT = "whole keys", "split hot keys"
WAYS = (HASH, PAPER, WHOLE, SPLIT)
PAPERS_SAMPLE = 100_000
_TASKS = 6

Int64s = NDArray[np.int64]
Observe = Callable[[partitioning.CycleStatistics], partitioning.Rule | None]


def rule_maker(way: str, partitions: int) -> tuple[Observe, int]:
    """What makes the rules of a way, and how many rows of a cycle it samples."""
    options = partitioning.HotSpot(partitions=partitions, split_hot_keys=way == SPLIT)
    if way == PAPER:

        def observe(statistics: partitioning.CycleStatistics) -> partitioning.Rule | None:
            if statistics.skew <= options.threshold:
                return None
            return partitioning.algorithm_2(statistics.sample, partitions, statistics.version + 1)

        return observe, PAPERS_SAMPLE
    if way in (WHOLE, SPLIT):
        return partitioning.Controller(options).observe, options.sample
    return (lambda _: None), 1


def measure(keys: int, rows: int, seed: int) -> dict[float, Any]:
    """DS of the second cycle, by exponent, partitions and way."""
    found: dict[float, Any] = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=seed + 1)
        cycles = [hashed(stream.cycle(index)) for index in range(2)]
        found[z] = {n: {way: _second(way, n, cycles) for way in WAYS} for n in PARTITIONS}
    return found


def _second(way: str, partitions: int, cycles: list[Int64s]) -> float:
    """DS of the last cycle, each under the rule that results from the cycles before it."""
    observe, sample = rule_maker(way, partitions)
    router, skew = partitioning.Router(partitioning.Rule.even(partitions)), 0.0
    for index, codes in enumerate(cycles):
        contents = hashed(np.arange(len(codes)) + index * len(codes))
        notes = []
        for task, rows in enumerate(np.array_split(np.arange(len(codes)), _TASKS)):
            collector = partitioning.Collector(router, max(1, sample // _TASKS), seed=task)
            collector.route(codes[rows], contents[rows])
            notes.append(collector.statistics().to_json())
        statistics = partitioning.added(map(partitioning.CycleStatistics.from_json, notes))
        skew = statistics.skew
        if (other := observe(statistics)) is not None:
            router = partitioning.Router(other)
    return skew
