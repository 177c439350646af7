"""Figure 13 and Tables 6 to 8 of the BS-Join paper: skip lists, alone and in a join.

The paper counts comparisons as "the memory access frequency". It has 8, 32 and 128 TaskManagers;
one machine has some workers, so times cannot be compared, but ratios of one way to another can.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import bsjoin
from benchmarks.data.ranges import Case, probes, stored
from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, in_runtime, rate_stream, time_batches
from benchmarks.harness.timing import check_equal, seconds_of
from benchmarks.papers.joins.linked import LinkedSkipList, by_directory, descended
from benchmarks.papers.joins.searches import (
    DIRECTORY,
    FLAT_MAP,
    JOIN,
    JOIN_PYTHON,
    RANDOM,
    SORTED,
    prepare,
    search_join,
)
from bsjoin.index import SkipList

WAYS = (FLAT_MAP, RANDOM, SORTED, DIRECTORY)
SIZES, TASK_MANAGERS = (1 << 21, 1 << 22, 1 << 23), (8, 32, 128)
_CELLS = pd.MultiIndex.from_product([SIZES, TASK_MANAGERS], names=["size", "workers"])

PUBLISHED = pd.DataFrame(
    {
        ("rate", FLAT_MAP): (16.32, 72.09, 187.28, 14.59, 69.91, 176.08, 12.43, 58.38, 168.77),
        ("rate", RANDOM): (65.71, 186.19, 447.82, 62.00, 173.45, 419.77, 55.66, 161.40, 382.11),
        ("rate", SORTED): (87.33, 233.85, 506.02, 81.59, 213.22, 476.40, 74.71, 193.89, 442.76),
        ("latency_ms", FLAT_MAP):
            (301.40, 283.36, 372.55, 311.98, 304.42, 397.42, 351.11, 344.53, 420.08),
        ("latency_ms", RANDOM):
            (171.52, 164.01, 220.08, 179.66, 169.98, 228.89, 191.63, 178.92, 236.01),
        ("latency_ms", SORTED):
            (149.63, 144.00, 194.63, 156.34, 148.89, 200.88, 165.32, 155.47, 204.43),
    },
    index=_CELLS,
)  # fmt: skip
"""Tables 6, 7 and 8: thousand rows a second, and milliseconds, by rows and TaskManagers."""

_SEARCHES, _BUILDS = 10_000, 10  # the paper's ten tests


def run(context: Context) -> Outcome:
    """Count and time the lists, time the ways in a stream, compare each cell with the paper's."""
    sizes = [1 << exponent for exponent in context.pick((16, 18), range(18, 24))]
    lists = {size: measure_lists(size, context.pick(2, 7), context.seed) for size in sizes}
    for size, one in lists.items():
        shown = "   ".join(f"{kind} {one[kind]['mean']:5.2f} reads" for kind in (RANDOM, SORTED))
        context.say(f"  {size:>10,} rows  {shown}")
    runs = _measure_ways(context)
    measured = by_cell(runs)
    return Outcome(
        [*list_figures(lists), *way_figures(measured, quick=context.quick)],
        [*list_tables(lists), *cell_tables(measured), ratio_table(measured), _our_table(measured)],
        measured={"lists": lists, "ways": runs},
    )


def by_cell(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """``rate`` (rows a second) and ``latency_ms`` of each way, by rows of the table and workers."""
    values = ["rate", "latency_ms"]
    return pd.DataFrame(runs).pivot(index=["size", "workers"], columns="way", values=values)


def measure_lists(size: int, rounds: int, seed: int) -> dict[str, Any]:
    """Reads and seconds of random searches in lists that are built several times.

    The sorted list is timed by bsjoin's own search, and counted in a list of nodes.

    Returns:
        By kind: ``mean``, the reads of a search; ``one``, the variance over the builds of the
        reads of one search, averaged over the searches; ``all``, the variance over the builds of
        the mean; ``compared``, the comparisons of a search: of the textbook's loop in the
        random list, of bsjoin's descent in the sorted one, of the JVM's search by the directory,
        for which there is no more; ``build`` and ``search``, the seconds of each round.
    """
    random = np.random.default_rng([seed, size])
    values = np.sort(random.integers(0, size << 20, size))
    searched = random.integers(0, size << 20, _SEARCHES)
    right = np.searchsorted(values, searched)
    # The sorted list has the same shape each time, the random one is drawn anew.
    counted: dict[str, Callable[[int], LinkedSkipList]] = {
        RANDOM: lambda number: LinkedSkipList.random(values, number),
        SORTED: lambda _: LinkedSkipList.fixed(values.copy()),
    }
    timed: dict[str, Callable[[int], Any]] = {**counted, SORTED: lambda _: SkipList(values)}
    found: dict[str, Any] = {}
    for kind, build in counted.items():
        reads = np.empty((_BUILDS, _SEARCHES))
        for number in range(_BUILDS):
            rows, reads[number] = build(number).counted(searched)
            if (rows != right).any() or (timed[kind](number).search(searched) != right).any():
                raise AssertionError(f"{kind} finds other rows than numpy, {size} rows")
        found[kind] = {
            "build": [],
            "search": [],
            "mean": float(reads.mean()),
            "one": float(reads.var(axis=0).mean()),
            "all": float(reads.sum(axis=1).var() / _SEARCHES**2),
        }
    textbook = LinkedSkipList.random(values, seed).counted(searched, repeats=True)
    ours = {SORTED: descended(values, searched), DIRECTORY: by_directory(values, searched)}
    for kind, (rows, compared) in {RANDOM: textbook, **ours}.items():
        if (rows != right).any():
            raise AssertionError(f"{kind} finds other rows than numpy, {size} rows")
        found.setdefault(kind, {})["compared"] = float(compared.mean())
    for number, kind in product(range(rounds + 1), timed):  # the first round warms up
        began = time.perf_counter()
        built = timed[kind](seed)
        spent = {"build": time.perf_counter() - began}
        spent["search"] = seconds_of(built.search, searched)
        for what, seconds in spent.items() if number else ():
            found[kind][what].append(seconds)
    return found


def _measure_ways(context: Context) -> list[dict[str, Any]]:
    """Throughput in large micro-batches and latency in small ones, of every way in a stream."""
    spark = context.spark
    large, batches = context.pick((10_000, 3), (50_000, 4))
    found = []
    for size in context.pick((1 << 18,), SIZES):
        case = Case(
            name="search", kind="band", rows=size, probes=1_000, keys=1_500, width_s=3_600,
            seed=context.seed,
        )  # fmt: skip
        folder = context.data / "ranges" / f"search-{size}-{context.seed}"
        prepare(case, folder)
        joins = {way: search_join(way, case, folder) for way in WAYS}
        whole = _whole_join(context, case)
        joins |= {JOIN: in_runtime("jvm", whole), JOIN_PYTHON: in_runtime("python", whole)}
        sample = probes(spark.range(2_000), "id", case)
        check_equal({n: sorted(map(tuple, way(sample).collect())) for n, way in joins.items()})

        def timed(join: Join, many: int, rows: int, count: int, warm: int, c: Case = case) -> Any:
            stream = join(probes(rate_stream(spark, rows, many), "value", c))
            return time_batches(stream, count, warm)

        for workers, (way, join) in product(context.pick((2,), (1, 2, 4)), joins.items()):
            few = (max(2, batches // 3), 1) if way == FLAT_MAP else (batches, 2)
            rates = [large / ms * 1e3 for ms in timed(join, workers, large, *few)]
            latencies = timed(join, workers, 5_000, batches, 3)
            rate, latency_ms = statistics.median(rates), statistics.median(latencies)
            one = {"way": way, "size": size, "workers": workers, "rate": rate, "rates": rates}
            found.append(one | {"latency_ms": latency_ms, "latencies_ms": latencies})
            context.say(
                f"  {size:>10,} rows  {workers} workers  {way:<20} "
                f"{rate / 1e3:8.1f} K rows/s   {latency_ms:7.1f} ms"
            )
    return found


def _whole_join(context: Context, case: Case) -> Join:
    table = context.spark.read.parquet(str(stored(case, context.data)[0]))
    indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
    return lambda stream: indexed.join(stream, case.on, when=case.when, select=["v"]).select(
        "id", "v"
    )


def ratios(cells: pd.DataFrame, name: str, above: str, below: str) -> pd.Series:
    """The ratios of ``rate`` or ``latency_ms`` of one way to another, the paper's or ours."""
    return cells[name][above] / cells[name][below]


def list_figures(lists: dict[int, Any]) -> list[Figure]:
    """Reads of random lists over those of sorted ones, and the variance of the latter."""
    times = [one[RANDOM]["mean"] / one[SORTED]["mean"] for one in lists.values()]
    variance = max(one[SORTED][which] for one in lists.values() for which in ("one", "all"))
    fewer = {
        kind: [one[RANDOM]["compared"] / one[kind]["compared"] for one in lists.values()]
        for kind in (SORTED, DIRECTORY)
    }
    what = {SORTED: "one a level", DIRECTORY: "the directory, as in the JVM"}
    sizes = f"{min(lists):,} to {max(lists):,}"
    return [
        Figure(
            f"reads a search, random / fixed levels, {sizes}", statistics.mean(times), 1.33,
            spread=(min(times), max(times)), paper="about 25 % fewer with fixed ones, Fig. 13(a)",
        ),
        *(
            Figure(
                f"comparisons a search, random levels / {what[kind]}, {sizes}",
                statistics.mean(some), 2.0 if kind == DIRECTORY else None,
                spread=(min(some), max(some)), paper="about 25 % fewer with fixed ones, Fig. 13(a)",
            )
            for kind, some in fewer.items()
        ),
        Figure(
            f"variance of the reads over builds, fixed levels, {sizes}", variance, 0.0,
            at_most=True, paper="always 0, Fig. 13(b)",
        ),
    ]  # fmt: skip


def way_figures(measured: pd.DataFrame, *, quick: bool = False) -> list[Figure]:
    """Ratios of Tables 6 to 8, ours and the paper's; then what bsjoin has instead of a list.

    Without bounds for quick sizes: the fixed cost of a micro-batch outweighs the search.
    """
    found = []
    for name, above, below, bound, tables in (
        ("rate", SORTED, FLAT_MAP, 2.0, "Tables 6 and 8"),
        ("rate", SORTED, RANDOM, 1.0, "Tables 7 and 8"),
        ("rate", RANDOM, FLAT_MAP, 2.0, "Tables 6 and 7"),
        ("latency_ms", SORTED, FLAT_MAP, 0.55, "Tables 6 and 8"),
        ("latency_ms", SORTED, RANDOM, 1.0, "Tables 7 and 8"),
        ("rate", JOIN, FLAT_MAP, 2.0, ""),
        ("latency_ms", JOIN, FLAT_MAP, 0.5, ""),
        ("latency_ms", JOIN, JOIN_PYTHON, None, ""),
        ("rate", DIRECTORY, SORTED, 1.0, ""),
    ):
        if not {above, below} <= {*measured[name]}:
            continue
        ours, paper = ratios(measured, name, above, below), ""
        if tables:
            theirs = ratios(PUBLISHED, name, above, below)
            paper = f"{theirs.median():.2f}, {theirs.min():.2f} to {theirs.max():.2f} ({tables})"
        what = f"{'rows/s' if name == 'rate' else 'latency'}, {above} / {below}"
        spread, at_most = (float(ours.min()), float(ours.max())), name != "rate"
        value = float(ours.median())
        found.append(Figure(what, value, None if quick else bound, at_most, spread, paper))
    return found


def _power(size: int) -> str:
    return f"2^{size.bit_length() - 1}"


def list_tables(lists: dict[int, Any]) -> list[Table]:
    """Fig. 13 as numbers, and the times of the lists alone."""
    reads = [
        {
            "rows": _power(size),
            "random, ours": round(one[RANDOM]["mean"], 2),
            "sorted, ours": round(one[SORTED]["mean"], 2),
            "fewer, paper, %": "about 25",
            "fewer, ours, %": round(100 * (1 - one[SORTED]["mean"] / one[RANDOM]["mean"]), 1),
            "comparisons, random": round(one[RANDOM]["compared"], 2),
            "comparisons, one a level": round(one[SORTED]["compared"], 2),
            "comparisons, directory": round(one[DIRECTORY]["compared"], 2),
            "variance, random, ours": round(one[RANDOM]["one"], 2),
            "variance, sorted, paper": 0.0,
            "variance, sorted, ours": round(one[SORTED]["one"], 2),
        }
        for size, one in lists.items()
    ]
    heads = {"build, ms": "build", "10,000 searches, ms": "search"}
    times = [
        {"rows": _power(size), "list": kind}
        | {head: round(statistics.median(one[kind][what]) * 1e3, 3) for head, what in heads.items()}
        for size, one in lists.items()
        for kind in (RANDOM, SORTED)
    ]
    return [
        Table.of(
            "Fig. 13: comparisons of a search, and their variance over ten builds",
            reads,
            "A comparison is a stored value that is read, once per search: the paper's 'memory "
            "access frequency'. Its curves have no numbers in the text.",
        )
        .drawn("lines", "rows", "random", "sorted", title="Fig. 13(a): values read in a search")
        .drawn("lines", "rows", "variance", title="Fig. 13(b): variance over ten builds"),
        Table.of(
            "Skip lists by size: building and searching, one core",
            times,
            "Values are sorted before. The levels of the sorted list follow from the positions and "
            "are not stored, so nothing is built. The random list is for comparison only: all "
            "probes descend together, each level takes as many rounds as the unluckiest probe, and "
            "reads are counted, so it loses by more than its reads. The paper gives no times.",
        ).drawn("lines", "rows", "build", "10,000", by="list", yscale="log", ylabel="ms"),
    ]


def _places(measured: pd.DataFrame) -> dict[tuple[int, int], tuple[int, int] | None]:
    """By each of the paper's sizes and TaskManagers our size and workers, or None."""
    sizes, workers = (measured.index.unique(level).sort_values() for level in (0, 1))
    ours = {
        (theirs, many): (int(size), int(count))
        for theirs, size in zip(SIZES, sizes, strict=False)
        for many, count in zip(TASK_MANAGERS, workers, strict=False)
    }
    return {cell: ours.get(cell) for cell in _CELLS}


def cell_tables(measured: pd.DataFrame) -> list[Table]:
    """Tables 6 to 8, ours beside the paper's."""
    places = _places(measured)
    note = (
        "The paper: a TaskManager is a core of a cluster, latency that of its windows. Ours: a "
        "worker is a task of Spark on this machine, latency the addBatch of 5,000 rows; the query "
        "of a record goes to SQLite in the worker, without a network."
    ) + ("" if all(places.values()) else " Empty: sizes of the full run.")

    def row(way: str, cell: tuple[int, int], ours: tuple[int, int] | None) -> dict[str, Cell]:
        return {
            "data size": _power(cell[0]),
            "TaskManagers": cell[1],
            "paper, K/s": PUBLISHED.at[cell, ("rate", way)],
            "paper, ms": PUBLISHED.at[cell, ("latency_ms", way)],
            "our size": _power(ours[0]) if ours else None,
            "our workers": ours[1] if ours else None,
            "ours, K/s": round(measured.at[ours, ("rate", way)] / 1e3, 1) if ours else None,
            "ours, ms": round(measured.at[ours, ("latency_ms", way)], 1) if ours else None,
        }

    return [
        Table.of(
            f"Table {number}: throughput and latency, {way}",
            [row(way, cell, ours) for cell, ours in places.items()],
            note,
        )
        for number, way in ((6, FLAT_MAP), (7, RANDOM), (8, SORTED))
    ]


def _our_table(measured: pd.DataFrame) -> Table:
    """What bsjoin has instead of a list, by rows of the table and workers."""
    rows = [
        {"way": way, "data size": _power(size), "workers": many}
        | {"K/s": one["rate"][way] / 1e3, "ms": one["latency_ms"][way]}
        for way in (DIRECTORY, JOIN, JOIN_PYTHON)
        for (size, many), one in measured.iterrows()
    ]
    note = (
        "The directory is searched by the same code as the lists, in place of one; the join is "
        "all of bsjoin, with types, nulls and columns."
    )
    return Table.of("Beside them: what bsjoin does instead", rows, note)


def ratio_table(measured: pd.DataFrame) -> Table:
    """Ratios of the ways, the paper's and ours, cell by cell."""
    heads = ("rows/s, sorted / FlatMap", "rows/s, sorted / random", "latency, sorted / FlatMap")
    pairs = (("rate", SORTED, FLAT_MAP), ("rate", SORTED, RANDOM), ("latency_ms", SORTED, FLAT_MAP))
    rows = []
    for cell, place in _places(measured).items():
        row: list[Cell] = [_power(cell[0]), cell[1]]
        for pair in pairs:
            row.append(round(ratios(PUBLISHED, *pair)[cell], 2))
            row.append(round(ratios(measured, *pair)[place], 2) if place else None)
        rows.append(tuple(row))
    return Table(
        "Tables 6 to 8 as ratios",
        ("data size", "TaskManagers", *(c for head in heads for c in (f"{head}, paper", "ours"))),
        tuple(rows),
        "Ours are of the sizes and workers that the tables above name. The paper's text: 2 to 6 "
        "times the throughput of FlatMap, latency lower by more than 45 % (in seven cells its "
        "random list does not reach that). A query of FlatMap crosses a network there, none here.",
    ).drawn("bars", ("data size", "TaskManagers"), "rows/s", "ours")
