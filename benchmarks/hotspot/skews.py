"""Hot keys without Spark: skew under every rule, cycles until it is even again, what it costs.

A cycle of keys is routed by tasks as a plan would do it, in Arrow batches, and its statistics
travel as texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data.shifting import Shifting
from benchmarks.data.zipf import hashed
from benchmarks.harness.outcome import Figure
from bsjoin.hotspot import (
    Collector,
    Controller,
    CycleStatistics,
    HotSpot,
    Reservoir,
    Router,
    Rule,
    added,
    algorithm_2,
)

__all__ = ["costs", "figures", "measure", "recovery", "run", "skews"]

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
PARTITIONS = (6, 16, 128)
HASH, PAPER = "hash", "the paper's rule"
WHOLE, SPLIT = "whole keys", "split hot keys"
WAYS = (HASH, PAPER, WHOLE, SPLIT)
PAPERS_SAMPLE = 100_000
BATCH = 10_000  # rows of an Arrow batch

_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"

Int64s = NDArray[np.int64]
Observe = Callable[[CycleStatistics], Rule | None]


def steering(way: str, partitions: int) -> tuple[Observe, int]:
    """What makes the rules of a way, and how many rows of a cycle it samples."""
    options = HotSpot(partitions=partitions, split_hot_keys=way == SPLIT)
    if way == HASH:
        return (lambda _: None), 1
    if way == PAPER:

        def observe(statistics: CycleStatistics) -> Rule | None:
            if statistics.skew <= options.threshold:
                return None
            return algorithm_2(statistics.sample, partitions, statistics.version + 1)

        return observe, PAPERS_SAMPLE
    return Controller(options).observe, options.sample


def run(way: str, partitions: int, cycles: list[Int64s], tasks: int = 6) -> list[dict[str, Any]]:
    """Route cycles, each under the rule that the cycles before it have led to.

    Args:
        way: one of ``WAYS``.
        partitions: n.
        cycles: the codes of each.
        tasks: how many route a cycle.

    Returns:
        For each cycle the skew DS, the largest load over the mean, and the version of its rule.
    """
    observe, sample = steering(way, partitions)
    router, found = Router(Rule.even(partitions)), []
    for index, codes in enumerate(cycles):
        contents = hashed(np.arange(len(codes)) + index * len(codes))
        notes, statistics = _statistics(router, codes, contents, sample, tasks)
        loads = statistics.partitions
        found.append(
            {
                "skew": statistics.skew,
                "largest": float(loads.max() / loads.mean()),
                "version": router.rule.version,
                "note_bytes": max(map(len, notes)),
                "rule_bytes": len(router.rule.to_json()),
                "hot_keys": len(router.rule.hot),
            }
        )
        if (rule := observe(statistics)) is not None:
            router = Router(rule)
    return found


def skews(
    keys: int, rows: int, exponents: tuple[float, ...] = EXPONENTS, seed: int = 1
) -> dict[float, dict[int, dict[str, dict[str, Any]]]]:
    """The second cycle under each rule, which the first has led to, by exponent and partitions."""
    found: dict[float, Any] = {}
    for z in exponents:
        stream = Shifting(keys, z, rows, seed=seed)
        cycles = [hashed(stream.cycle(index)) for index in range(2)]
        found[z] = {n: {way: run(way, n, cycles)[1] for way in WAYS} for n in PARTITIONS}
    return found


def recovery(
    keys: int, rows: int, z: float = 1.16, every: int = 4, count: int = 12, seed: int = 2
) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """All cycles of a stream whose hot keys change every few cycles, by partitions and way."""
    stream = Shifting(keys, z, rows, every=every, seed=seed)
    cycles = [hashed(stream.cycle(index)) for index in range(count)]
    return {n: {way: run(way, n, cycles) for way in WAYS} for n in PARTITIONS}


def costs(
    keys: int, rows: int, rounds: int, z: float = 1.16, seed: int = 3
) -> dict[int, dict[str, float]]:
    """What routing, counting and sampling cost a row, and a cycle's detection the driver.

    Returns:
        By number of partitions: nanoseconds of one core a row, under a rule with hot keys, for
        ``route`` (partition ids alone), ``sample`` (each of two tasks its half), ``count`` (the
        rows of cells and partitions), ``deal`` (hot rows by their contents, over dealing them
        out in turns); milliseconds a cycle for ``add`` (the notes of two tasks, from text),
        ``observe`` without and ``change`` with a new rule, and ``ready`` (the rule, made ready to
        route).
    """
    stream = Shifting(keys, z, rows, seed=seed)
    first, second = (hashed(stream.cycle(index)) for index in range(2))
    contents, halves = hashed(np.arange(rows)), np.array_split(second, 2)
    options, found = HotSpot(), {}
    for n in PARTITIONS:
        best: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any], best: dict[str, float] = best) -> Any:
            began = time.process_time()
            result = work()
            spent = time.process_time() - began
            best[name] = min(best.get(name, spent), spent)
            return result

        for _ in range(rounds):
            controller = Controller(options, n)
            statistics = _statistics(Router(controller.rule), first, None, options.sample)[1]
            timed("change", lambda c=controller, s=statistics: c.observe(s))
            router = timed("ready", lambda c=controller: Router(c.rule))
            timed("route", lambda r=router: [r.route(x, 1) for x in _batches(second)])
            timed("sample", lambda: [_sampled(p, options.sample // 2) for p in halves])
            timed("deal", lambda r=router: _statistics(r, second, contents, options.sample))
            notes, statistics = timed(
                "all", lambda r=router: _statistics(r, second, None, options.sample)
            )
            timed("add", lambda t=notes: added(CycleStatistics.from_json(x) for x in t))
            timed("observe", lambda c=controller, s=statistics: c.observe(s))
            assert controller.rule.version == 1
        a_row = 1e9 / rows
        found[n] = {
            "route_ns": best["route"] * a_row,
            "sample_ns": best["sample"] * a_row,
            "count_ns": (best["all"] - best["add"] - best["route"] - best["sample"]) * a_row,
            "deal_ns": (best["deal"] - best["all"]) * a_row,
            **{f"{name}_ms": best[name] * 1e3 for name in ("add", "observe", "change", "ready")},
        }
    return found


def _statistics(
    router: Router, codes: Int64s, contents: Int64s | None, sample: int, tasks: int = 2
) -> tuple[list[str], CycleStatistics]:
    """A cycle as its tasks see it, and what the driver makes of their notes."""
    notes = []
    for task, rows in enumerate(np.array_split(np.arange(len(codes)), tasks)):
        collector = Collector(router, max(1, sample // tasks), seed=task)
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        dealt = None if contents is None else _batches(contents[part])
        for index, batch in enumerate(_batches(codes[part])):
            collector.route(batch, None if dealt is None else dealt[index])
        notes.append(collector.statistics().to_json())
    return notes, added(CycleStatistics.from_json(note) for note in notes)


def _sampled(codes: Int64s, capacity: int) -> Int64s:
    reservoir = Reservoir(capacity)
    for batch in _batches(codes):
        reservoir.add(batch)
    return reservoir.codes


def _batches(codes: Int64s) -> list[Int64s]:
    return [codes[begin : begin + BATCH] for begin in range(0, len(codes), BATCH)]


def measure(*, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """All of it; about a minute, or some seconds."""
    keys, rows = (1_000_000, 200_000) if quick else (10_000_000, 1_000_000)
    return {
        "keys": keys,
        "rows": rows,
        "skews": skews(keys, rows, seed=seed + 1),
        "recovery": recovery(keys, rows, count=6 if quick else 12, seed=seed + 2),
        "costs": costs(keys, rows, 3 if quick else 7, seed=seed + 3),
    }


def figures(measured: dict[str, Any], cycles_s: Sequence[float] = ()) -> list[Figure]:
    """The figures of section 6 of the design.

    Args:
        measured: by :func:`measure`.
        cycles_s: seconds of some cycles of so many rows, where that is known.
    """
    found = []
    for n in (6, 128):
        one = measured["skews"][1.16][n][SPLIT]["skew"]
        name = f"DS of the first adapted cycle, z 1.16, {n} partitions"
        found.append(Figure(name, one, 0.05, True, paper=_FIG_11))
    if cycles_s:
        for n, cost in measured["costs"].items():
            spent = (cost["count_ns"] + cost["sample_ns"]) * measured["rows"] / 1e9
            spent += (cost["add_ms"] + cost["observe_ms"]) / 1e3
            found.append(
                Figure(
                    f"detection and sampling / a cycle, {n} partitions",
                    spent / median(cycles_s),
                    0.05,
                    True,
                    (spent / max(cycles_s), spent / min(cycles_s)),
                )
            )
    return found
