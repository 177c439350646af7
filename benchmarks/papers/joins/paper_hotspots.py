"""Skewed streams, and Figures 11 and 12 of the BS-Join paper: six TaskManagers, by way of routing.

``hotspot`` routes in a Spark stream, and measures DS of the first cycle under a new rule. The rest
is a simulation: rows are routed by bsjoin's own rules and counted exactly; a host asks for the
distinct keys of a cycle that are not in its cache, which has room for all. Throughput and latency
follow from two costs, a row's and a look-up's: a cycle takes as long as its busiest host.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import bsjoin
from benchmarks.data.kept import kept, write_stream
from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, add_batch_ms, file_stream, in_runtime, run_stream
from benchmarks.harness.timing import Times, check_equal, outcome, ratio
from bsjoin import BatchTable, Hash, HotSpot, partitioning
from bsjoin.index.integer_hash import hashes_of_integers

EXPONENTS = (0.98, 1.04, 1.10, 1.16)
PARTITIONS = (6, 16, 128)
HASH, PAPER = "hash", "the paper's rule"
WHOLE, SPLIT = "whole keys", "split hot keys"
_RULES = (HASH, PAPER, WHOLE, SPLIT)
_PAPERS_SAMPLE, _TASKS = 100_000, 6

Int64s = NDArray[np.int64]
Observe = Callable[[partitioning.CycleStatistics], partitioning.Rule | None]


def measure(keys: int, rows: int, seed: int) -> dict[float, dict[int, dict[str, float]]]:
    """DS of the second cycle, by exponent, partitions and way."""
    found: dict[float, dict[int, dict[str, float]]] = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=seed + 1)
        cycles = [stream.cycle(index) for index in range(2)]
        found[z] = {n: {way: [*routed(way, n, cycles)][1][0] for way in _RULES} for n in PARTITIONS}
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


HOSTS = 6
ROW_US, LOOK_UP_US = 1.0, 10.0
"""A row on one core, and a key in a query for many: about what the README measures on two cores."""
WAYS = (HASH, PAPER, SPLIT)
_NOTE = (
    f"A row takes {ROW_US:g} µs, a look-up of a key {LOOK_UP_US:g} µs; a cycle takes the time of "
    "its busiest TaskManager, and a cache has room for all. The paper has these figures as "
    "pictures only: its text gives no numbers. Its rule evens rows, not distinct keys: a "
    "TaskManager with cold keys alone asks the database most, so that while caches fill the "
    "look-ups cost what the even rows save."
)


@dataclass
class Routed:
    """What a stream did to the hosts, cycle by cycle.

    The first cycle is the same under every rule: shares, times and the median of DS leave it out.

    ``skew`` is DS of each cycle, ``loads`` the rows of each host, ``held`` the keys in its cache at
    the end, and ``distinct`` the different ones among the last of these. Of them are computed
    ``settled``, the median of DS; ``shares`` of the rows by host, in percent; ``cached``, the keys
    in all caches at last; ``latency_ms``, the mean time of a cycle on its busiest host;
    ``throughput``, the rows of a cycle over that time, a second; and ``warm``, the same with every
    key in the cache.
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

    ``cycles`` have keys of 0 to ``keys`` - 1. Complexity: O(rows) time; a byte per key and host.
    """
    caches = np.zeros((HOSTS, keys), np.bool_)
    skews, loads, held = [], [], []
    for stream, (skew, places) in zip(cycles, routed(way, HOSTS, cycles), strict=True):
        caches[places, stream] = True
        skews.append(skew)
        loads.append(np.bincount(places, minlength=HOSTS).tolist())
        held.append([int(np.count_nonzero(cache)) for cache in caches])
    return Routed(skews, loads, held, int(np.count_nonzero(caches.any(axis=0))))


Found = dict[float, dict[str, Routed]]
"""By exponent and way."""


def run(context: Context) -> Outcome:
    """Figs. 11 and 12, and the paper's statements about them."""
    keys, rows = 10_000_000, 1_000_000
    count = context.pick(6, 12)
    found: Found = {}
    for z in EXPONENTS:
        stream = Shifting(keys, z, rows, seed=context.seed)
        cycles = [stream.cycle(index) for index in range(count)]
        found[z] = {way: simulate(way, cycles, keys) for way in WAYS}
        skews = "   ".join(f"{way} {one.settled:.3f}" for way, one in found[z].items())
        context.say(f"Zipf {z:g}, {HOSTS} TaskManagers: DS   {skews}")
    note = f"Simulated: {keys:,} keys, {count} cycles of {rows:,} rows, {HOSTS} TaskManagers. "
    return Outcome(figures(found), [statements(found, note)], found)


def figures(found: Found) -> list[Figure]:
    """The paper's statements about Fig. 11 as numbers."""
    low, high = min(found), max(found)
    name = f"DS by hash, Z {high:g} / Z {low:g}"
    risen = found[high][HASH].settled / found[low][HASH].settled
    worst = max(by[SPLIT].settled for by in found.values())
    return [
        Figure(name, risen, 1.0, paper="rises with the skew (Fig. 11a)", simulated=True),
        Figure("DS with hot keys split, the largest of four exponents", worst, 0.05, True,
               paper="stable and far below hash (Fig. 11a)", simulated=True),
    ]  # fmt: skip


def statements(found: Found, note: str = "") -> Table:
    """Each statement of the text about Figs. 11 and 12, our numbers, and whether it holds."""
    rows = []

    def add(where: str, what: str, values: NDArray[np.float64], shape: str, holds: bool) -> None:
        head = f"found for Z {min(found):g} to {max(found):g}"
        seen = {"where": where, "the paper": what, head: ", ".join(map(shape.format, values))}
        rows.append(seen | {"holds": "yes" if holds else "no"})

    def by_z(way: str, name: str) -> NDArray[np.float64]:
        return np.array([getattr(by[way], name) for by in found.values()])

    def rises(values: NDArray[np.float64]) -> bool:
        return bool((np.diff(values) > 0).all())

    def over_hash(way: str, name: str) -> NDArray[np.float64]:
        return by_z(way, name) / by_z(HASH, name)

    skew, others = by_z(HASH, "settled"), (PAPER, SPLIT)
    parts = {way: np.ptp(by_z(way, "shares"), axis=1) for way in WAYS}
    rates = {"all cached": "warm", "with look-ups": "throughput"}
    add("Fig. 11a", "DS by hash rises with Z", skew, "{:.3f}", rises(skew))
    for way in others:
        far = over_hash(way, "settled").max() <= 0.5
        add("Fig. 11a", f"DS far below hash ({way})", by_z(way, "settled"), "{:.3f}", far)
    for way in WAYS:
        cached = by_z(way, "cached") / 1e6
        add("Fig. 11b", f"cached rows fall as Z rises ({way})", cached, "{:.2f} M", rises(-cached))
    for way in others:
        over, what = over_hash(way, "cached"), f"fewer cached rows than by hash ({way} / hash)"
        add("Fig. 11b", what, over, "{:.4f}", over.max() < 1)
    for what, name in rates.items():
        rate, what = by_z(HASH, name) / 1e6, f"throughput by hash falls as Z rises ({what})"
        add("Fig. 11c", what, rate, "{:.2f} M/s", rises(-rate))
    for way in others:
        for what, name in rates.items():
            over, what = over_hash(way, name), f"throughput above hash, {what} ({way} / hash)"
            add("Fig. 11c", what, over, "{:.2f}", over.min() > 1)
        over = over_hash(way, "latency_ms")
        add("Fig. 11d", f"latency below hash ({way} / hash)", over, "{:.2f}", over.max() < 1)
    what = "shares of the TaskManagers part by hash as Z rises (largest minus smallest, points)"
    add("Fig. 12", what, parts[HASH], "{:.1f}", rises(parts[HASH]))
    for way in others:
        what = f"each TaskManager has a balanced load, within 2 points ({way})"
        add("Fig. 12", what, parts[way], "{:.1f}", parts[way].max() <= 2)
    return Table.of("Figs. 11 and 12: what the paper says, and what was found", rows, note + _NOTE)


NONE, HASHED, HOTSPOT = "partition=None", "Hash", "HotSpot"
SHUFFLED = "Spark's repartition"
_FILES = 2  # one per core: without a shuffle a file is a task
_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"
_IN_A_STREAM = (
    "DS of the first adapted cycle (Fig. 11(a)): chance alone leaves about the root of partitions "
    "over rows. Then a Spark stream with a full cache, exponent 1.16: on one host routing is only "
    "a cost, for nothing heavy follows the join."
)


def hotspot(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    keys, rows = context.pick((1_000_000, 200_000), (10_000_000, 1_000_000))
    pure = measure(keys, rows, context.seed)
    ms, live = _in_a_stream(
        context, *context.pick((300_000, 50_000, 6), (1_000_000, 1_000_000, 12))
    )
    figures = [
        Figure(f"DS of the first adapted cycle, z 1.16, {n} partitions", pure[1.16][n][SPLIT], 0.05,
               True, paper=_FIG_11)
        for n in (6, 128)
    ]  # fmt: skip
    name = "addBatch in a Spark stream,"
    figures += [
        ratio(f"{name} {HOTSPOT} / {NONE}", ms[HOTSPOT], ms[NONE], 1.3, at_most=True),
        ratio(f"{name} {SHUFFLED} / {NONE}", ms[SHUFFLED], ms[NONE]),
        ratio(f"{name} {HOTSPOT} / {SHUFFLED}", ms[HOTSPOT], ms[SHUFFLED]),
    ]
    shown: dict[str, Times] = {
        f"DS, exponent {z:g}, {n} partitions": {way: [skew] for way, skew in by[n].items()}
        for n in PARTITIONS
        for z, by in pure.items()
    }
    shown |= {"DS in a stream": live, "ms of addBatch in a stream": ms}
    return outcome("Skewed streams", shown, figures, _IN_A_STREAM, "median")


def _in_a_stream(context: Context, keys: int, rows: int, cycles: int) -> tuple[Times, Times]:
    """Join a Zipf stream (z 1.16) in each way of partitioning: ms of ``addBatch``, and DS."""
    spark, seed = context.spark, context.seed + 6
    stream = Shifting(keys, 1.16, rows, every=max(2, cycles // 2), seed=seed)
    # The files of a micro-batch have its rows alternately.
    order = np.concatenate([np.arange(part, rows, _FILES) for part in range(_FILES)])
    batches = (
        pa.table({"k": stream.cycle(number)[order], "n": number * rows + order})
        for number in range(cycles)
    )
    source = context.data / f"skewed-{keys}-{rows}-{cycles}-{seed}"
    kept(source, lambda place: write_stream(place, batches, _FILES))
    df = spark.range(keys).selectExpr("id AS k", "id * 2 AS v")
    join = BatchTable.build(df, on="k", unique=True).join
    ways: dict[str, Join] = {
        NONE: join,
        SHUFFLED: lambda read: join(read.repartition(HOSTS, "k")),
        HASHED: partial(join, partition=Hash(HOSTS)),
        HOTSPOT: partial(join, partition=HotSpot(partitions=HOSTS)),
    }
    ms, skew, joined = Times(), Times(), dict[str, int]()
    for way in (NONE, HOTSPOT, *ways):  # at first Spark compiles
        read = file_stream(spark, "k long, n long", source, _FILES)
        query = run_stream(in_runtime("jvm", ways[way])(read), cycles - 1)
        seen = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        ms[way], joined[way] = add_batch_ms(query)[2:], sum(cycle.rows_out for cycle in seen)
        ruled = [one.partition.skew for one in seen if one.partition and one.partition.rule_version]
        skew |= {way: ruled} if ruled else {}
        context.say(f"  {way:<15} {statistics.median(ms[way]):7,.0f} ms")
    check_equal(joined)
    return ms, skew
