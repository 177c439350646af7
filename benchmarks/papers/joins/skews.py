"""Hot keys without Spark: the skew DS under every rule.

A cycle of keys is routed by tasks as in a plan, in Arrow batches, and its statistics travel as
texts.
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
BATCH = 10_000  # rows of an Arrow batch

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


def run(way: str, partitions: int, cycles: list[Int64s], tasks: int = 6) -> list[dict[str, Any]]:
    """Route cycles, each under the rule that results from the cycles before it.

    Returns:
        For each cycle the skew DS, the partitions' loads over the mean, the version of its rule.
    """
    observe, sample = rule_maker(way, partitions)
    router, found = partitioning.Router(partitioning.Rule.even(partitions)), []
    for index, codes in enumerate(cycles):
        contents = hashed(np.arange(len(codes)) + index * len(codes))
        notes, statistics = _statistics(router, codes, contents, sample, tasks)
        loads, rule = statistics.partitions, router.rule
        one = {"skew": statistics.skew, "largest": float(loads.max() / loads.mean())}
        one["shares"] = (loads / loads.mean()).tolist()
        one |= {"version": rule.version, "hot_keys": len(rule.hot)}
        one |= {"note_bytes": max(map(len, notes)), "rule_bytes": len(rule.to_json())}
        found.append(one)
        if (other := observe(statistics)) is not None:
            router = partitioning.Router(other)
    return found


def measure(*, quick: bool, seed: int) -> dict[str, Any]:
    """All of it; about a minute, or some seconds.

    Returns:
        ``skews``: the second cycle under each rule, by exponent, partitions and way; ``keys`` and
        ``rows`` of a cycle.
    """
    keys, rows = (1_000_000, 200_000) if quick else (10_000_000, 1_000_000)
    skews: dict[float, Any] = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=seed + 1)
        cycles = [hashed(stream.cycle(index)) for index in range(2)]
        skews[z] = {n: {way: run(way, n, cycles)[1] for way in WAYS} for n in PARTITIONS}
    return {"keys": keys, "rows": rows, "skews": skews}


def _statistics(
    router: partitioning.Router, codes: Int64s, contents: Int64s, sample: int, tasks: int = 2
) -> tuple[list[str], partitioning.CycleStatistics]:
    """The notes of a cycle's tasks, and what the driver derives from them."""
    notes = []
    for task, rows in enumerate(np.array_split(np.arange(len(codes)), tasks)):
        collector = partitioning.Collector(router, max(1, sample // tasks), seed=task)
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        for both in _batches(codes[part], contents[part]):
            collector.route(*both)
        notes.append(collector.statistics().to_json())
    return notes, partitioning.added(partitioning.CycleStatistics.from_json(note) for note in notes)


def _batches(*columns: Int64s) -> list[list[Int64s]]:
    return [[c[at : at + BATCH] for c in columns] for at in range(0, len(columns[0]), BATCH)]
