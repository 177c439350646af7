"""Figure 13 and Tables 6 to 8 of the BS-Join paper: skip lists, alone and in a join.

The paper counts comparisons as "the memory access frequency". It has 8, 32 and 128 TaskManagers;
one machine has some workers, so times cannot be compared, but ratios of one way to another can.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from itertools import product

import numpy as np

from benchmarks.data.ranges import Case, probes
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, rate_stream, time_batches
from benchmarks.harness.timing import Times, check_equal, outcome, ratio
from benchmarks.papers.joins.linked import LinkedSkipList
from benchmarks.papers.joins.searches import (
    DIRECTORY,
    FLAT_MAP,
    RANDOM,
    SORTED,
    prepare,
    search_join,
)
from bsjoin.index import SkipList

WAYS = (FLAT_MAP, RANDOM, SORTED, DIRECTORY)
SIZES = (1 << 21, 1 << 22, 1 << 23)
RATE, LATENCY = "rows/s", "latency"

PUBLISHED: dict[str, Times] = {
    RATE: {
        FLAT_MAP: [16.32, 72.09, 187.28, 14.59, 69.91, 176.08, 12.43, 58.38, 168.77],
        RANDOM: [65.71, 186.19, 447.82, 62.00, 173.45, 419.77, 55.66, 161.40, 382.11],
        SORTED: [87.33, 233.85, 506.02, 81.59, 213.22, 476.40, 74.71, 193.89, 442.76],
    },
    LATENCY: {
        FLAT_MAP: [301.40, 283.36, 372.55, 311.98, 304.42, 397.42, 351.11, 344.53, 420.08],
        RANDOM: [171.52, 164.01, 220.08, 179.66, 169.98, 228.89, 191.63, 178.92, 236.01],
        SORTED: [149.63, 144.00, 194.63, 156.34, 148.89, 200.88, 165.32, 155.47, 204.43],
    },
}
"""Tables 6, 7 and 8: thousand rows a second, and milliseconds, by ``SIZES`` and 8, 32 and 128
TaskManagers."""

_SEARCHES, _BUILDS = 10_000, 10  # the paper's ten tests
_NOTE = (
    "Reads are values that a search reads, once each, the paper's 'memory access frequency': "
    "least and most of ten builds (Fig. 13). Ways in a stream: rows a second of large "
    "micro-batches, milliseconds of small ones (Tables 6 to 8). A query of FlatMap crosses a "
    "network there, none here."
)


def run(context: Context) -> Outcome:
    """Count the lists' reads, and time the ways in a stream beside the paper's ratios."""
    exponents = context.pick((16, 18), range(18, 24))
    lists = {1 << one: measure_lists(1 << one, context.seed) for one in exponents}
    measured = _measure_ways(context)
    shown = {f"reads of a search, {size:,} rows": one for size, one in lists.items()}
    for what, cells in measured.items():
        shown |= {f"{what}, {cell}": by_way for cell, by_way in cells.items()}
    figures = [list_figure(lists), *way_figures(measured)]
    return outcome("Skip lists", shown, figures, _NOTE, "median")


def measure_lists(size: int, seed: int) -> Times:
    """The mean reads of random searches in random and in sorted lists, by build.

    The sorted list is counted in a list of nodes; bsjoin's own search must find the same.
    """
    random = np.random.default_rng([seed, size])
    values = np.sort(random.integers(0, size << 20, size))
    searched = random.integers(0, size << 20, _SEARCHES)
    right = np.searchsorted(values, searched)
    if (SkipList(values).search(searched) != right).any():
        raise AssertionError(f"bsjoin finds other rows than numpy, {size} rows")
    # The sorted list has the same shape each time, the random one is drawn anew.
    built: dict[str, Callable[[int], LinkedSkipList]] = {
        RANDOM: lambda number: LinkedSkipList.random(values, number),
        SORTED: lambda _: LinkedSkipList.fixed(values.copy()),
    }
    found: Times = {kind: [] for kind in built}
    for (kind, build), number in product(built.items(), range(_BUILDS)):
        rows, reads = build(number).counted(searched)
        if (rows != right).any():
            raise AssertionError(f"{kind} finds other rows than numpy, {size} rows")
        found[kind].append(float(reads.mean()))
    return found


def _measure_ways(context: Context) -> dict[str, dict[str, Times]]:
    """Throughput in large micro-batches and latency in small ones, by cell and way."""
    spark = context.spark
    large, batches = context.pick((10_000, 3), (50_000, 4))
    found: dict[str, dict[str, Times]] = {RATE: {}, LATENCY: {}}
    for size in context.pick((1 << 18,), SIZES):
        case = Case(
            name="search", kind="band", rows=size, probes=1_000, keys=1_500, width_s=3_600,
            seed=context.seed,
        )  # fmt: skip
        folder = context.data / "ranges" / f"search-{size}-{context.seed}"
        prepare(case, folder)
        joins = {way: search_join(way, case, folder) for way in WAYS}
        sample = probes(spark.range(2_000), "id", case)
        check_equal({n: sorted(map(tuple, way(sample).collect())) for n, way in joins.items()})

        def timed(
            join: Join, many: int, rows: int, count: int, warm: int, case: Case = case
        ) -> list[float]:
            stream = join(probes(rate_stream(spark, rows, many), "value", case))
            return time_batches(stream, count, warm)

        for workers, (way, join) in product(context.pick((2,), (1, 2, 4)), joins.items()):
            few = (max(2, batches // 3), 1) if way == FLAT_MAP else (batches, 2)
            rates = [large / ms * 1e3 for ms in timed(join, workers, large, *few)]
            latencies = timed(join, workers, 5_000, batches, 3)
            cell = f"{size:,} rows, {workers} workers"
            found[RATE].setdefault(cell, {})[way] = rates
            found[LATENCY].setdefault(cell, {})[way] = latencies
            rate, ms = statistics.median(rates), statistics.median(latencies)
            context.say(f"  {cell}  {way:<20} {rate / 1e3:8.1f} K rows/s   {ms:7.1f} ms")
    return found


def list_figure(lists: Mapping[int, Times]) -> Figure:
    """Reads of random lists over those of sorted ones."""
    means = [{kind: statistics.mean(some) for kind, some in one.items()} for one in lists.values()]
    times = [one[RANDOM] / one[SORTED] for one in means]
    return Figure(
        f"reads a search, random / fixed levels, {min(lists):,} to {max(lists):,}",
        statistics.mean(times), 1.33, spread=(min(times), max(times)),
        paper="about 25 % fewer with fixed ones, Fig. 13(a)",
    )  # fmt: skip


def way_figures(measured: Mapping[str, Mapping[str, Times]]) -> list[Figure]:
    """Ratios of Tables 6 to 8, ours and the paper's; then what bsjoin has instead of a list."""
    found = []
    for what, above, below, bound, tables in (
        (RATE, SORTED, FLAT_MAP, 2.0, "Tables 6 and 8"),
        (RATE, SORTED, RANDOM, 1.0, "Tables 7 and 8"),
        (RATE, RANDOM, FLAT_MAP, 2.0, "Tables 6 and 7"),
        (LATENCY, SORTED, FLAT_MAP, 0.55, "Tables 6 and 8"),
        (LATENCY, SORTED, RANDOM, 1.0, "Tables 7 and 8"),
        (RATE, DIRECTORY, SORTED, 1.0, ""),
    ):
        ours, paper = (
            (
                [statistics.median(cell[way]) for cell in measured[what].values()]
                for way in (above, below)
            ),
            "",
        )
        if tables:
            theirs = published(what, above, below)
            least, most = min(theirs), max(theirs)
            paper = f"{statistics.median(theirs):.2f}, {least:.2f} to {most:.2f} ({tables})"
        more = {"at_most": what == LATENCY, "by_round": True, "paper": paper}
        found.append(ratio(f"{what}, {above} / {below}", *ours, bound, **more))
    return found


def published(what: str, above: str, below: str) -> list[float]:
    """The paper's ratios of one way to another, cell by cell."""
    return [a / b for a, b in zip(PUBLISHED[what][above], PUBLISHED[what][below], strict=True)]
