"""Figure 13 and Tables 6 to 8 of the BS-Join paper: skip lists, alone and in a join.

The lists are measured by :mod:`benchmarks.ranges.skiplists`, the ways to search a table in a
stream by :mod:`benchmarks.ranges.tables`; beside the paper's three stand the directory that bsjoin
searches and its join as a whole. The paper has 8, 32 and 128 TaskManagers; one machine has some
workers, so that times are not to be compared, but ratios of one way to another are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.outcome import Context, Figure, Outcome, Table

__all__ = ["CELLS", "DIRECTORY", "FLAT_MAP", "JOIN", "RANDOM", "SORTED", "figures", "ratios", "run"]

FLAT_MAP, RANDOM, SORTED = "FlatMap", "random skip list", "sorted skip list"
DIRECTORY, JOIN = "bsjoin's directory", "bsjoin.join"
TABLES = {FLAT_MAP: "Table 6", RANDOM: "Table 7", SORTED: "Table 8"}
CELLS = tuple((1 << exponent, many) for exponent in (21, 22, 23) for many in (8, 32, 128))
"""The rows of each of the tables: records of the table, TaskManagers."""

THROUGHPUT = {
    FLAT_MAP: (16.32, 72.09, 187.28, 14.59, 69.91, 176.08, 12.43, 58.38, 168.77),
    RANDOM: (65.71, 186.19, 447.82, 62.00, 173.45, 419.77, 55.66, 161.40, 382.11),
    SORTED: (87.33, 233.85, 506.02, 81.59, 213.22, 476.40, 74.71, 193.89, 442.76),
}
"""Thousand rows a second by the rows of ``CELLS``."""

LATENCY_MS = {
    FLAT_MAP: (301.40, 283.36, 372.55, 311.98, 304.42, 397.42, 351.11, 344.53, 420.08),
    RANDOM: (171.52, 164.01, 220.08, 179.66, 169.98, 228.89, 191.63, 178.92, 236.01),
    SORTED: (149.63, 144.00, 194.63, 156.34, 148.89, 200.88, 165.32, 155.47, 204.43),
}

Measured = dict[str, dict[int, dict[int, Any]]]


def run(context: Context) -> Outcome:
    """Count and time the lists, time the ways, and put each cell beside the paper's."""
    from benchmarks.paper.skiplist_picture import draw
    from benchmarks.ranges import skiplists

    quick = context.quick
    sizes = [1 << exponent for exponent in ((16, 18) if quick else range(18, 24))]
    context.say("Skip lists alone (Fig. 13)")
    reads = skiplists.measure(sizes, 10_000, 10, seed=context.seed, say=context.say)
    seconds = lists(sizes, 10_000, 2 if quick else 7, context.seed)
    measured = _ways(context)
    tables = [reads_table(reads), _seconds_table(seconds), *cell_tables(measured)]
    return Outcome(
        figures=[*skiplists.figures(reads), *figures(measured, quick=quick)],
        tables=[*tables, ratio_table(measured), ours_table(measured)],
        pictures=[draw(reads, seconds, measured, context.out / "paper_skip_lists.png")],
        measured={"reads": reads, "lists": seconds, "ways": measured},
    )


def _ways(context: Context) -> Measured:
    """The paper's three ways and ours in a stream, by rows of the table and workers."""
    from benchmarks.ranges import tables

    quick = context.quick
    names = {
        FLAT_MAP: tables.FLAT_MAP,
        RANDOM: tables.RANDOM,
        SORTED: tables.SORTED,
        DIRECTORY: tables.DIRECTORY,
        JOIN: tables.JOIN,
    }
    context.say("Ways to search in a stream (Tables 6 to 8)")
    found = tables.measure(
        context.spark,
        [1 << 18] if quick else sorted({size for size, _ in CELLS}),
        [2] if quick else [1, 2, 4],
        context.data,
        batch=10_000 if quick else 50_000,
        small=5_000,
        batches=3 if quick else 4,
        seed=context.seed,
        ways=tuple(names.values()),
        say=context.say,
    )
    return {way: found[name] for way, name in names.items()}


def lists(sizes: Sequence[int], searches: int, rounds: int, seed: int) -> dict[int, Any]:
    """Seconds to build and to search the two kinds of lists, in turns.

    Args:
        sizes: stored values.
        searches: random probes in one call.
        rounds: how often.
        seed: of values and probes.

    Returns:
        By size, kind and ``build`` or ``search``: the seconds of each round.

    Raises:
        AssertionError: a list finds other rows than numpy.
    """
    from bsjoin.index import RandomSkipList, SkipList

    found: dict[int, Any] = {}
    for size in sizes:
        draw = np.random.default_rng(seed + size)
        values = np.sort(draw.integers(0, size << 20, size))
        probes = draw.integers(0, size << 20, searches)
        right = np.searchsorted(values, probes)
        kinds: dict[str, Callable[[], Any]] = {
            RANDOM: partial(RandomSkipList.build, values, seed),
            SORTED: partial(SkipList, values),
        }
        found[size] = {kind: {"build": [], "search": []} for kind in kinds}
        for at in range(rounds + 1):  # the first round warms up
            for kind, build in kinds.items():
                began = time.perf_counter()
                built = build()
                ready = time.perf_counter()
                rows = built.search(probes)
                done = time.perf_counter()
                if (rows != right).any():
                    raise AssertionError(f"{kind} finds other rows than numpy, {size} rows")
                if at:
                    found[size][kind]["build"].append(ready - began)
                    found[size][kind]["search"].append(done - ready)
    return found


def ratios(measured: Measured, name: str, above: str, below: str) -> list[float]:
    """Ratios of one way to another, a size and number of workers at a time.

    Args:
        measured: by way, rows of the table and workers.
        name: ``rate`` or ``latency_ms``.
        above: the way in the numerator.
        below: the other.
    """
    return [
        measured[above][size][many][name] / measured[below][size][many][name]
        for size, by in measured[above].items()
        for many in by
    ]


def told(name: str, above: str, below: str) -> list[float]:
    """The same of the paper's tables, by the rows of ``CELLS``."""
    values = THROUGHPUT if name == "rate" else LATENCY_MS
    return [a / b for a, b in zip(values[above], values[below], strict=True)]


def figures(measured: Measured, *, quick: bool = False) -> list[Figure]:
    """Ratios of Tables 6 to 8, ours and the paper's; then what bsjoin has instead of a list.

    Nothing is promised for quick sizes: what Spark takes for a micro-batch outweighs the search.
    """
    found = []
    for name, above, below, bound, tables in (
        ("rate", SORTED, FLAT_MAP, 2.0, "Tables 6 and 8"),
        ("rate", SORTED, RANDOM, 1.0, "Tables 7 and 8"),
        ("rate", RANDOM, FLAT_MAP, 2.0, "Tables 6 and 7"),
        ("latency_ms", SORTED, FLAT_MAP, 0.55, "Tables 6 and 8"),
        ("latency_ms", SORTED, RANDOM, 1.0, "Tables 7 and 8"),
    ):
        ours, theirs = ratios(measured, name, above, below), told(name, above, below)
        what = "rows/s" if name == "rate" else "latency"
        found.append(
            Figure(
                f"{what}, {above} / {below}",
                statistics.median(ours),
                None if quick else bound,
                name != "rate",
                (min(ours), max(ours)),
                f"{statistics.median(theirs):.2f}, {min(theirs):.2f} to {max(theirs):.2f} "
                f"({tables})",
            )
        )
    for above, below, least in ((JOIN, FLAT_MAP, 2.0), (DIRECTORY, SORTED, 1.0)):
        if above in measured:
            ours = ratios(measured, "rate", above, below)
            middle, bound = statistics.median(ours), None if quick else least
            what = f"rows/s, {above} / {below}"
            found.append(Figure(what, middle, bound, spread=(min(ours), max(ours))))
    return found


def reads_table(reads: dict[int, Any]) -> Table:
    from benchmarks.ranges.skiplists import FIXED
    from benchmarks.ranges.skiplists import RANDOM as THROWN

    rows = tuple(
        (
            f"2^{size.bit_length() - 1}",
            round(one[THROWN]["mean"], 2),
            round(one[FIXED]["mean"], 2),
            "about 25",
            round(100 * (1 - one[FIXED]["mean"] / one[THROWN]["mean"]), 1),
            round(one[THROWN]["one"], 2),
            0.0,
            round(one[FIXED]["one"], 2),
        )
        for size, one in reads.items()
    )
    return Table(
        "Fig. 13: comparisons of a search, and their variance over ten builds",
        (
            "rows",
            "random, ours",
            "sorted, ours",
            "fewer, paper, %",
            "fewer, ours, %",
            "variance, random, ours",
            "variance, sorted, paper",
            "variance, sorted, ours",
        ),
        rows,
        "A comparison is a stored value that is read, once a search: the paper's 'memory access "
        "frequency'. Its curves have no numbers in the text.",
    )


def _seconds_table(seconds: dict[int, Any]) -> Table:
    def ms(one: dict[str, list[float]], what: str) -> float:
        return statistics.median(one[what]) * 1e3

    return Table(
        "Skip lists by size: building and searching, one core",
        ("rows", "list", "build, ms", "10,000 searches, ms"),
        tuple(
            (
                f"2^{size.bit_length() - 1}",
                kind,
                round(ms(one, "build"), 3),
                round(ms(one, "search"), 3),
            )
            for size, kinds in seconds.items()
            for kind, one in kinds.items()
        ),
        "Values are sorted before. The levels of the sorted list follow from the positions and are "
        "not stored, so that it is built by doing nothing. The random list is kept for comparison: "
        "all probes descend at once, each level takes as many rounds as the unluckiest probe, and "
        "reads are counted, so that it loses by more than its reads. The paper gives no times of "
        "the lists alone.",
    )


def _placed(measured: Measured) -> list[tuple[int, int] | None]:
    """Which of our sizes and workers stands beside each of the paper's cells."""
    sizes = sorted(measured[SORTED])
    workers = sorted(measured[SORTED][sizes[0]])
    places: list[tuple[int, int] | None] = []
    for at in range(len(CELLS)):
        size, many = divmod(at, 3)
        known = size < len(sizes) and many < len(workers)
        places.append((sizes[size], workers[many]) if known else None)
    return places


def cell_tables(measured: Measured) -> list[Table]:
    found = []
    for way, table in TABLES.items():
        rows: list[tuple[str | float | None, ...]] = []
        for at, place in enumerate(_placed(measured)):
            size, many = CELLS[at]
            ours: tuple[str | float | None, ...] = (None, None, None, None)
            if place is not None:
                one = measured[way][place[0]][place[1]]
                ours = (
                    f"2^{place[0].bit_length() - 1}",
                    place[1],
                    round(one["rate"] / 1e3, 1),
                    round(one["latency_ms"], 1),
                )
            theirs = (THROUGHPUT[way][at], LATENCY_MS[way][at])
            rows.append((f"2^{size.bit_length() - 1}", many, *theirs, *ours))
        found.append(
            Table(
                f"{table}: throughput and latency, {way}",
                (
                    "data size",
                    "TaskManagers",
                    "paper, K/s",
                    "paper, ms",
                    "our size",
                    "our workers",
                    "ours, K/s",
                    "ours, ms",
                ),
                tuple(rows),
                "The paper: a TaskManager is a core of a cluster, latency that of its windows. "
                "Ours: a worker is a task of Spark on this machine, latency the addBatch of 5,000 "
                "rows; the query of a record goes to SQLite in the worker, without a network."
                + ("" if all(_placed(measured)) else " Empty: sizes of the full run."),
            )
        )
    return found


def ours_table(measured: Measured) -> Table:
    """What bsjoin has instead of a list, by rows of the table and workers."""
    return Table(
        "Beside them: what bsjoin does instead",
        ("way", "data size", "workers", "K/s", "ms"),
        tuple(
            (way, f"2^{size.bit_length() - 1}", many, one["rate"] / 1e3, one["latency_ms"])
            for way in (DIRECTORY, JOIN)
            for size, by_workers in measured[way].items()
            for many, one in by_workers.items()
        ),
        "The directory is searched by the same code as the lists, in place of one; the join is "
        "all of bsjoin, with types, nulls and columns looked after.",
    )


def ratio_table(measured: Measured) -> Table:
    """Ratios of the ways, the paper's and ours, cell by cell."""
    pairs = (("rate", SORTED, FLAT_MAP), ("rate", SORTED, RANDOM), ("latency_ms", SORTED, FLAT_MAP))
    theirs = [told(*pair) for pair in pairs]
    rows = []
    for at, place in enumerate(_placed(measured)):
        size, many = CELLS[at]
        cells: list[str | float | None] = [f"2^{size.bit_length() - 1}", many]
        for paper, (name, above, below) in zip(theirs, pairs, strict=True):
            value = None
            if place is not None:
                one, other = (measured[way][place[0]][place[1]][name] for way in (above, below))
                value = round(one / other, 2)
            cells += [round(paper[at], 2), value]
        rows.append(tuple(cells))
    return Table(
        "Tables 6 to 8 as ratios",
        (
            "data size",
            "TaskManagers",
            "rows/s, sorted / FlatMap, paper",
            "ours",
            "rows/s, sorted / random, paper",
            "ours",
            "latency, sorted / FlatMap, paper",
            "ours",
        ),
        tuple(rows),
        "Ours are of the sizes and workers that the tables above name. The paper's text: 2 to 6 "
        "times the throughput of FlatMap, latency lower by more than 45 % (in seven cells its "
        "random list does not reach that). A query of FlatMap crosses a network there, none here.",
    )
