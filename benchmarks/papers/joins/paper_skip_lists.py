"""Figure 13 and Tables 6 to 8 of the BS-Join paper: skip lists, alone and in a join.

The paper counts comparisons as "the memory access frequency". It has 8, 32 and 128 TaskManagers;
one machine has some workers, so times cannot be compared, but ratios of one way to another can.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import lru_cache, partial
from itertools import chain, product
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.kept import kept
from benchmarks.data.ranges import BEGIN_US, MONTH_US, SECOND_US, Case, probes, rows_of
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, rate_stream, time_batches
from benchmarks.harness.timing import Times, check_equal, outcome, ratio
from benchmarks.papers.joins.linked import LinkedSkipList
from bsjoin.index import SkipList, SortedRows, expand

Int64s = NDArray[np.int64]
Search = Callable[[Int64s, Int64s], tuple[Int64s, Int64s]]
"""From keys and points to pairs: positions of the probes, and the table's values."""

FLAT_MAP, RANDOM, SORTED = "FlatMap", "random skip list", "sorted skip list"
DIRECTORY = "bsjoin's directory"

_ARRAYS = ("points", "values", "slices", "composite")  # files that all workers map
_BITS = MONTH_US.bit_length()  # of the point in a composite key


def prepare(case: Case, folder: Path) -> None:
    """Write what the searches read, unless it exists."""
    kept(folder, partial(_write, case))


def _write(case: Case, folder: Path) -> None:
    rows = rows_of(case)[0].sort_by([("k", "ascending"), ("a", "ascending")])
    keys, points, values = (rows[name].cast(pa.int64()).to_numpy() for name in ("k", "a", "v"))
    slices = np.searchsorted(keys, np.arange(case.keys + 1))
    arrays = points, values, slices, _composite(keys, points)
    for name, array in zip(_ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", array)
    with closing(sqlite3.connect(folder / "table.sqlite")) as database:
        database.execute("PRAGMA journal_mode = OFF")
        columns = "k INT, a INT, v INT, PRIMARY KEY (k, a, v)"
        database.execute(f"CREATE TABLE t ({columns}) WITHOUT ROWID")
        listed = zip(keys.tolist(), points.tolist(), values.tolist(), strict=True)
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", listed)
        database.commit()


def _composite(keys: Int64s, points: Int64s) -> Int64s:
    """Key and point as one number (Algorithm 3); a point off the month stays with its key."""
    return (keys << _BITS) + np.clip(points - BEGIN_US, 0, (1 << _BITS) - 1)


def search_join(way: str, case: Case, folder: Path) -> Join:
    """The join as a function of the stream (id, k, p): pairs (id, v), found in one way."""
    width = case.width_s * SECOND_US

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = _opened(way, folder, width)
        for batch in batches:
            ids, keys, points = (batch.column(i).cast(pa.int64()).to_numpy() for i in range(3))
            positions, values = search(keys, points)
            columns = [pa.array(ids.take(positions)), pa.array(values)]
            yield pa.RecordBatch.from_arrays(columns, ["id", "v"])

    return lambda stream: stream.mapInArrow(answer, "id long, v long")


@lru_cache
def _opened(way: str, folder: Path, width: int) -> Search:
    """A search, opened once per worker; the lists and the directory are built then."""
    if way == FLAT_MAP:
        return _per_record(sqlite3.connect(f"file:{folder}/table.sqlite?mode=ro", uri=True), width)
    points, values, slices, composite = (
        np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _ARRAYS
    )

    def pairs(firsts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        positions, rows = expand(firsts, np.maximum(stops - firsts, 0))
        return positions, values.take(rows)

    if way == DIRECTORY:
        directory = SortedRows.build(points, slices[:-1])

        def in_slices(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
            low, high = slices.take(keys), slices.take(keys + 1)
            return pairs(*directory.band(points - width, points + width, "both", low, high))

        return in_slices
    found = LinkedSkipList.random(composite, seed=1) if way == RANDOM else SkipList(composite)

    def in_one_list(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
        firsts = found.search(_composite(keys, points - width), "left")
        return pairs(firsts, found.search(_composite(keys, points + width), "right"))

    return in_one_list


def _per_record(database: sqlite3.Connection, width: int) -> Search:
    """A query per record, in the worker's own process, without a network."""

    def search(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
        query = "SELECT v FROM t WHERE k = ? AND a BETWEEN ? AND ?"
        asked = zip(
            keys.tolist(), (points - width).tolist(), (points + width).tolist(), strict=True
        )
        found = [database.execute(query, one).fetchall() for one in asked]
        positions = np.repeat(np.arange(len(keys)), list(map(len, found)))
        return positions, np.array(list(chain.from_iterable(found)), np.int64).reshape(-1)

    return search


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
    figures = [*list_figures(lists), *way_figures(measured)]
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


def list_figures(lists: Mapping[int, Times]) -> list[Figure]:
    """Reads of random lists over those of sorted ones, and the variance of the latter."""
    means = [{kind: statistics.mean(some) for kind, some in one.items()} for one in lists.values()]
    times = [one[RANDOM] / one[SORTED] for one in means]
    variance, sizes = (
        max(statistics.pvariance(one[SORTED]) for one in lists.values()),
        f"{min(lists):,} to {max(lists):,}",
    )
    return [
        Figure(
            f"reads a search, random / fixed levels, {sizes}",
            statistics.mean(times), 1.33, spread=(min(times), max(times)),
            paper="about 25 % fewer with fixed ones, Fig. 13(a)",
        ),
        Figure(
            f"variance of the reads over builds, fixed levels, {sizes}", variance, 0.0, True,
            paper="0, Fig. 13(b)",
        ),
    ]  # fmt: skip


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
