"""Figures 11 and 12 of the BS-Join paper: six TaskManagers under Zipf streams, by way of routing.

A simulation. Rows are routed by bsjoin's own rules, counted exactly, and each TaskManager keeps
the rows that it has asked the database for, all of them: an incremental cache with room for
everything. Throughput and latency follow from two costs, a row's and a look-up's: a cycle takes
as long as its busiest TaskManager. What a Spark stream on this machine does is beside it in the
full sizes (:mod:`benchmarks.hotspot.live`).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.outcome import Context, Outcome, Table

__all__ = ["EXPONENTS", "HASH", "OURS", "PAPER", "TASK_MANAGERS", "Routed", "route", "run"]

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
TASK_MANAGERS = 6
HASH, PAPER, OURS = "hash", "the paper's rule", "split hot keys"
WAYS = (HASH, PAPER, OURS)
ROW_US, LOOK_UP_US = 1.0, 10.0
"""A row on one core, and a key in a query for many: about what README measures on two cores."""

Found = dict[float, dict[str, "Routed"]]


@dataclass
class Routed:
    """What a stream did to six TaskManagers, cycle by cycle."""

    skew: list[float] = field(default_factory=list)
    loads: list[list[int]] = field(default_factory=list)
    look_ups: list[list[int]] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)

    @property
    def settled(self) -> float:
        """DS after the first cycle, which is the same under every rule: the median."""
        return statistics.median(self.skew[1:])

    @property
    def shares(self) -> tuple[float, ...]:
        """Percent of the rows that each TaskManager got after the first cycle."""
        rows = np.array(self.loads[1:]).sum(axis=0)
        return tuple((100 * rows / rows.sum()).tolist())

    @property
    def latency_ms(self) -> float:
        """What a cycle takes its busiest TaskManager after the first, the mean."""
        rows, missed = np.array(self.loads[1:]), np.array(self.look_ups[1:])
        spent = (rows * ROW_US + missed * LOOK_UP_US).max(axis=1)
        return float(spent.mean()) / 1e3

    @property
    def throughput(self) -> float:
        """Rows a second: those of a cycle over what its busiest TaskManager takes."""
        rows = np.array(self.loads[1:]).sum(axis=1).mean()
        return float(rows) / self.latency_ms * 1e3

    @property
    def warm(self) -> float:
        """Rows a second with every key in the cache: rows of the busiest TaskManager count."""
        rows = np.array(self.loads[1:])
        return float(rows.sum() / (rows.max(axis=1).sum() * ROW_US / 1e6))


def route(way: str, cycles: list[NDArray[np.int64]], keys: int, managers: int) -> Routed:
    """Route a stream's cycles, each under the rule that those before it have led to.

    Args:
        way: one of ``WAYS``.
        cycles: the keys of each, 0 to ``keys`` - 1.
        keys: of the table.
        managers: how many TaskManagers, with a partition and a cache each.

    Returns:
        DS, rows and look-ups of every TaskManager, cached rows of all of them, cycle by cycle.

    Complexity:
        O(rows) time, a byte a key and TaskManager.
    """
    from benchmarks.data.zipf import hashed
    from benchmarks.hotspot.skews import steering
    from bsjoin.hotspot import Collector, Router, Rule

    observe, sample = steering(way, managers)
    router, found = Router(Rule.even(managers)), Routed()
    cached = np.zeros((managers, keys), np.bool_)
    for index, stream in enumerate(cycles):
        collector = Collector(router, sample, seed=index)
        contents = hashed(np.arange(len(stream)) + index * len(stream))
        places = collector.route(hashed(stream), contents)
        seen = collector.statistics()
        found.skew.append(seen.skew)
        found.loads.append(np.bincount(places, minlength=managers).tolist())
        look_ups = []
        for manager, own in enumerate(cached):
            before = np.count_nonzero(own)
            own[stream[places == manager]] = True
            look_ups.append(int(np.count_nonzero(own) - before))
        found.look_ups.append(look_ups)
        found.cached.append(int(np.count_nonzero(cached)))
        if (rule := observe(seen)) is not None:
            router = Router(rule)
    return found


def run(context: Context) -> Outcome:
    """Figs. 11 and 12, and what the paper says of them."""
    from benchmarks.data.shifting import Shifting
    from benchmarks.paper.hotspot_claims import figures, statements
    from benchmarks.paper.hotspot_picture import draw

    keys, rows = 10_000_000, 1_000_000
    count = 6 if context.quick else 12
    found: Found = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=context.seed)
        cycles = [stream.cycle(index) for index in range(count)]
        found[z] = {way: route(way, cycles, keys, TASK_MANAGERS) for way in WAYS}
        shown = "   ".join(f"{way} {one.settled:.3f}" for way, one in found[z].items())
        context.say(f"Zipf {z:g}, {TASK_MANAGERS} TaskManagers: DS   {shown}")
    live = {} if context.quick else _live(context)
    told = statements(found)
    return Outcome(
        figures=figures(found),
        tables=[*_tables(found, keys, rows, count), told, *_live_table(live)],
        pictures=draw(found, context.out),
        measured={
            "keys": keys,
            "rows": rows,
            "by_exponent": {
                str(z): {w: vars(one) for w, one in by.items()} for z, by in found.items()
            },
            "live": live,
        },
    )


def _tables(found: Found, keys: int, rows: int, count: int) -> list[Table]:
    told = {
        HASH: "rises with Z",
        PAPER: "stable, far below hash",
        OURS: None,
    }
    overall: tuple[tuple[str | float | None, ...], ...] = tuple(
        (
            f"{z:g}",
            way,
            told[way],
            round(one.settled, 4),
            round(one.cached[-1] / 1e6, 3),
            sum(map(sum, one.look_ups)),
            round(one.throughput / 1e6, 2),
            round(one.warm / 1e6, 2),
            round(one.latency_ms),
        )
        for z, by in found.items()
        for way, one in by.items()
    )
    loads: tuple[tuple[str | float | None, ...], ...] = tuple(
        (f"{z:g}", way, *(round(share, 2) for share in one.shares))
        for z, by in found.items()
        for way, one in by.items()
    )
    note = (
        f"Simulated: {keys:,} keys, {count} cycles of {rows:,} rows, {TASK_MANAGERS} TaskManagers. "
    )
    return [
        Table(
            "Fig. 11: DS, cache, throughput and latency by Zipf exponent",
            (
                "Z",
                "routed by",
                "DS in the paper",
                "DS",
                "cached rows, M",
                "look-ups",
                "throughput, M rows/s",
                "all cached, M rows/s",
                "latency of a cycle, ms",
            ),
            overall,
            f"{note}A cache has room for all. A row takes {ROW_US:g} µs, a key that is asked of "
            f"the database {LOOK_UP_US:g} µs; a cycle takes what its busiest TaskManager takes. "
            "DS is the median after the first cycle; the paper's rule has a sample of 100,000, "
            "ours one of 10,000.",
        ),
        Table(
            "Fig. 12: percent of the rows that each TaskManager gets",
            ("Z", "routed by", *(f"TM {at + 1}" for at in range(TASK_MANAGERS))),
            loads,
            f"{note}The paper: by hash the shares part as Z rises, by its rule they are balanced. "
            "Even is 16.67 %.",
        ),
    ]


def _live(context: Context) -> dict[str, Any]:
    """A Spark stream of this machine; the exponent is 1.16."""
    from benchmarks.hotspot import live

    size = 1_000_000
    return live.measure(
        context.spark, context.data, size, size, 12, TASK_MANAGERS, seed=context.seed
    )


def _live_table(live: dict[str, Any]) -> list[Table]:
    if not live:
        return []
    rows = tuple(
        (way, round(one["rows_per_s"]), round(statistics.median(one["ms"])))
        for way, one in live.items()
    )
    return [
        Table(
            "Fig. 11c and d, a Spark stream on this machine, Z 1.16",
            ("partition", "rows/s", "addBatch, ms"),
            rows,
            "One host with two cores, not six TaskManagers: routing is only a cost here.",
        )
    ]
