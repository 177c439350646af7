"""Hot keys without Spark: the skew DS under every rule, recovery, and costs.

A cycle of keys is routed by tasks as in a plan, in Arrow batches, and its statistics travel as
texts.
"""

from __future__ import annotations

import time
from collections import defaultdict
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
        For each cycle the skew DS, the largest load over the mean, and the version of its rule.
    """
    observe, sample = rule_maker(way, partitions)
    router, found = partitioning.Router(partitioning.Rule.even(partitions)), []
    for index, codes in enumerate(cycles):
        contents = hashed(np.arange(len(codes)) + index * len(codes))
        notes, statistics = _statistics(router, codes, contents, sample, tasks)
        loads, rule = statistics.partitions, router.rule
        one = {"skew": statistics.skew, "largest": float(loads.max() / loads.mean())}
        one |= {"version": rule.version, "hot_keys": len(rule.hot)}
        one |= {"note_bytes": max(map(len, notes)), "rule_bytes": len(rule.to_json())}
        found.append(one)
        if (other := observe(statistics)) is not None:
            router = partitioning.Router(other)
    return found


def measure(*, quick: bool, seed: int) -> dict[str, Any]:
    """All of it; about a minute, or some seconds.

    Returns:
        ``skews``: the second cycle under each rule, by exponent, partitions and way;
        ``recovery``: all cycles of a stream whose hot keys change every four, by partitions and
        way; ``costs``: see :func:`_costs`; ``keys`` and ``rows`` of a cycle.
    """
    keys, rows = (1_000_000, 200_000) if quick else (10_000_000, 1_000_000)
    skews: dict[float, Any] = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=seed + 1)
        cycles = [hashed(stream.cycle(index)) for index in range(2)]
        skews[z] = {n: {way: run(way, n, cycles)[1] for way in WAYS} for n in PARTITIONS}
    stream = Shifting(keys, 1.16, rows, every=4, seed=seed + 2)
    cycles = [hashed(stream.cycle(index)) for index in range(6 if quick else 12)]
    recovery = {n: {way: run(way, n, cycles) for way in WAYS} for n in PARTITIONS}
    costs = {n: _costs(n, keys, rows, 3 if quick else 7, seed + 3) for n in PARTITIONS}
    return {"keys": keys, "rows": rows, "skews": skews, "recovery": recovery, "costs": costs}


def _costs(n: int, keys: int, rows: int, rounds: int, seed: int) -> dict[str, float]:
    """What routing, counting and sampling cost per row, and detection per cycle on the driver.

    Returns:
        Nanoseconds of one core per row, under a rule with hot keys, for ``route`` (partition ids
        alone), ``sample`` (each of two tasks its half) and ``count`` (rows of cells and
        partitions); milliseconds per cycle for ``add`` (the notes of two tasks, from text),
        ``observe`` without and ``change`` with a new rule, and ``ready`` (preparing to route).
    """
    stream = Shifting(keys, 1.16, rows, seed=seed)
    first, second = (hashed(stream.cycle(index)) for index in range(2))
    contents, halves = hashed(np.arange(rows)), np.array_split(second, 2)
    sample, spent = partitioning.HotSpot().sample, defaultdict(list)  # type: int, dict[str, list[float]]

    def timed(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        began = time.process_time()
        result = work(*arguments)
        spent[name].append(time.process_time() - began)
        return result

    for _ in range(rounds):
        controller = partitioning.Controller(partitioning.HotSpot(), n)
        statistics = _statistics(partitioning.Router(controller.rule), first, contents, sample)[1]
        timed("change", controller.observe, statistics)
        router = timed("ready", partitioning.Router, controller.rule)
        timed("route", lambda r: [r.route(*b) for b in _batches(second, contents)], router)
        timed("sample", lambda: [_sample(half, sample // 2) for half in halves])
        notes, statistics = timed("all", _statistics, router, second, contents, sample)
        timed(
            "add",
            lambda texts: partitioning.added(map(partitioning.CycleStatistics.from_json, texts)),
            notes,
        )
        timed("observe", controller.observe, statistics)
        assert controller.rule.version == 1
    best = {name: min(seconds) for name, seconds in spent.items()}
    best["count"] = best["all"] - best["add"] - best["route"] - best["sample"]
    return {
        **{f"{name}_ns": best[name] * 1e9 / rows for name in ("route", "sample", "count")},
        **{f"{name}_ms": best[name] * 1e3 for name in ("add", "observe", "change", "ready")},
    }


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


def _sample(codes: Int64s, capacity: int) -> None:
    reservoir = partitioning.Reservoir(capacity)
    for (batch,) in _batches(codes):
        reservoir.add(batch)


def _batches(*columns: Int64s) -> list[list[Int64s]]:
    return [[c[at : at + BATCH] for c in columns] for at in range(0, len(columns[0]), BATCH)]
