"""Hot keys without Spark: the partitions and the skew DS of a stream's cycles, under every rule.

A cycle of keys is routed by tasks as in a plan, and its statistics travel as texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.zipf import Shifting
from bsjoin import partitioning
from bsjoin.index.integer_hash import hashes_of_integers

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
PARTITIONS = (6, 16, 128)
HASH, PAPER = "hash", "the paper's rule"
WHOLE, SPLIT = "whole keys", "split hot keys"
WAYS = (HASH, PAPER, WHOLE, SPLIT)
_PAPERS_SAMPLE, _TASKS = 100_000, 6

Int64s = NDArray[np.int64]
Observe = Callable[[partitioning.CycleStatistics], partitioning.Rule | None]


def measure(keys: int, rows: int, seed: int) -> dict[float, dict[int, dict[str, float]]]:
    """DS of the second cycle, by exponent, partitions and way."""
    found: dict[float, dict[int, dict[str, float]]] = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=seed + 1)
        cycles = [stream.cycle(index) for index in range(2)]
        found[z] = {n: {way: [*routed(way, n, cycles)][1][0] for way in WAYS} for n in PARTITIONS}
    return found


def routed(way: str, partitions: int, cycles: Iterable[Int64s]) -> Iterator[tuple[float, Int64s]]:
    """DS of each cycle, and where its rows go, under the rule that results from those before it."""
    observe, sample = _rule_maker(way, partitions)
    router = partitioning.Router(partitioning.Rule.even(partitions))
    for index, keys in enumerate(cycles):
        codes = hashes_of_integers(keys)
        contents = hashes_of_integers(np.arange(len(keys)) + index * len(keys))
        places, notes = [], []
        for task, rows in enumerate(np.array_split(np.arange(len(keys)), _TASKS)):
            collector = partitioning.Collector(router, max(1, sample // _TASKS), seed=task)
            places.append(collector.route(codes[rows], contents[rows]))
            notes.append(collector.statistics().to_json())
        statistics = partitioning.added(map(partitioning.CycleStatistics.from_json, notes))
        yield statistics.skew, np.concatenate(places)
        if (rule := observe(statistics)) is not None:
            router = partitioning.Router(rule)


def _rule_maker(way: str, partitions: int) -> tuple[Observe, int]:
    """What makes the rules of a way, and how many rows of a cycle it samples."""
    options = partitioning.HotSpot(partitions=partitions, split_hot_keys=way == SPLIT)
    if way == PAPER:

        def observe(statistics: partitioning.CycleStatistics) -> partitioning.Rule | None:
            if statistics.skew <= options.threshold:
                return None
            return partitioning.algorithm_2(statistics.sample, partitions, statistics.version + 1)

        return observe, _PAPERS_SAMPLE
    if way in (WHOLE, SPLIT):
        return partitioning.Controller(options).observe, options.sample
    return (lambda _: None), 1
