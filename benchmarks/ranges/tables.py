"""Tables 6 to 8 of the paper: throughput and latency of ways to search, by workers and table size.

The paper's ways are one range query per record (its flat map), a random skip list and a sorted
one; both lists hold the composite key of its Algorithm 3. Beside them stand a loop over the rows
of the key, the directory that bsjoin searches, and bsjoin's join as a whole. A micro-batch of so
many partitions keeps so many Python workers busy.
"""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import BEGIN_US, MONTH_US, SECOND_US, Case, rows_of, stored
from benchmarks.harness.outcome import Figure
from benchmarks.harness.session import add_batch_ms
from benchmarks.ranges.streams import probes
from bsjoin.index import RandomSkipList, SkipList, SortedRows, expand

__all__ = ["DIRECTORY", "FLAT_MAP", "JOIN", "LOOP", "RANDOM", "SORTED", "figures", "measure"]

Int64s = NDArray[np.int64]

FLAT_MAP, LOOP = "query per record", "loop over the key's rows"
RANDOM, SORTED, DIRECTORY = "random skip list", "sorted skip list", "directory"
JOIN = "bsjoin.join"
_WAYS = (FLAT_MAP, LOOP, RANDOM, SORTED, DIRECTORY)
_SLOW = (FLAT_MAP, LOOP)
_BITS = MONTH_US.bit_length()  # of the point in a composite key


def measure(
    spark: SparkSession,
    sizes: list[int],
    workers: list[int],
    folder: Path,
    batch: int,
    small: int,
    batches: int,
) -> dict[str, dict[int, dict[int, Any]]]:
    """Throughput and latency of every way.

    Args:
        spark: the session.
        sizes: rows of the table.
        workers: how many workers share a micro-batch.
        folder: for the data.
        batch: rows of the micro-batches in which throughput is measured.
        small: rows of those in which latency is.
        batches: how many of each.

    Returns:
        By way, size and workers: ``rate``, rows per second, and ``latency_ms``, the median
        ``addBatch``; with ``rates`` and ``latencies_ms`` of all micro-batches.
    """
    found: dict[str, dict[int, dict[int, Any]]] = {way: {} for way in (*_WAYS, JOIN)}
    for size in sizes:
        case = Case(name="search", kind="band", rows=size, probes=1_000, keys=1_500, width_s=3_600)
        place = folder / "ranges" / f"search-{size}"
        _prepare(case, place)
        table = spark.read.parquet(str(stored(case, folder)[0]))
        joins = {way: _answering(way, case, place) for way in _WAYS}
        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        joins[JOIN] = lambda stream, case=case, t=indexed: t.join(  # type: ignore[misc]
            stream, case.on, when=case.when, select=["v"]
        ).select("id", "v")
        _check(spark, case, joins)
        for many in workers:
            for way, join in joins.items():
                one = _one(spark, case, join, many, batch, small, batches, slow=way in _SLOW)
                found[way].setdefault(size, {})[many] = one
                print(
                    f"  {size:>10,} rows  {many} worker{'s' if many > 1 else ' '}  {way:<24} "
                    f"{one['rate'] / 1e3:8.1f} K rows/s   {one['latency_ms']:7.1f} ms",
                    flush=True,
                )
    return found


def _one(
    spark: SparkSession,
    case: Case,
    join: Callable[[DataFrame], DataFrame],
    workers: int,
    batch: int,
    small: int,
    batches: int,
    *,
    slow: bool,
) -> dict[str, Any]:
    def timed(rows: int, many: int, warm_up: int) -> list[float]:
        return add_batch_ms(
            spark,
            lambda numbers: join(probes(numbers, "value", case.keys)),
            lambda: _numbers(spark, rows, workers),
            batches=many,
            warm_up=warm_up,
        )

    large = timed(batch, max(2, batches // 3) if slow else batches, 1 if slow else 2)
    latencies = timed(small, batches, 3)
    rates = [batch / ms * 1e3 for ms in large]
    return {
        "rate": statistics.median(rates),
        "latency_ms": statistics.median(latencies),
        "rates": rates,
        "latencies_ms": latencies,
    }


def _numbers(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", partitions)
        .load()
    )


def _check(
    spark: SparkSession, case: Case, joins: dict[str, Callable[[DataFrame], DataFrame]]
) -> None:
    """All ways answer the same before any is timed."""
    stream = probes(spark.range(2_000), "id", case.keys)
    answers = {way: sorted(map(tuple, join(stream).collect())) for way, join in joins.items()}
    for way, answer in answers.items():
        if answer != answers[JOIN]:
            raise AssertionError(f"{case.rows} rows: {way} and {JOIN} answer differently")


def _prepare(case: Case, place: Path) -> None:
    """Write what the ways search, for the workers to map or to open."""
    if (place / "ready").exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    table, _ = rows_of(case)
    keys, points, values = (
        table.column(name).cast(pa.int64()).to_numpy() for name in ("k", "a", "v")
    )
    order = np.lexsort((points, keys))
    keys, points, values = keys[order], points[order], values[order]
    slices = np.searchsorted(keys, np.arange(case.keys + 1))
    composite = _composite(keys, points)
    arrays = {"points": points, "values": values, "slices": slices, "composite": composite}
    arrays["directory"] = SortedRows.build(points, slices[:-1]).directory
    thrown = RandomSkipList.build(composite, seed=1)
    arrays |= {f"nodes-{level}": nodes for level, nodes in enumerate(thrown.nodes)}
    arrays |= {f"below-{level}": below for level, below in enumerate(thrown.below)}
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    (place / "table.sqlite").unlink(missing_ok=True)
    database = sqlite3.connect(place / "table.sqlite")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("CREATE TABLE t (k INT, a INT, v INT, PRIMARY KEY (k, a, v)) WITHOUT ROWID")
    rows = zip(keys.tolist(), points.tolist(), values.tolist(), strict=True)
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
    (place / "ready").touch()


def _composite(keys: Int64s, points: Int64s) -> Int64s:
    """Key and point as one number (Algorithm 3); a point off the month stays with its key."""
    return (keys << _BITS) + np.clip(points - BEGIN_US, 0, (1 << _BITS) - 1)


def _answering(way: str, case: Case, place: Path) -> Callable[[DataFrame], DataFrame]:
    width = case.width_s * SECOND_US

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = _opened(way, place, width)
        for batch in batches:
            ids, keys, points = (batch.column(i).cast(pa.int64()).to_numpy() for i in range(3))
            positions, values = search(keys, points)
            columns = [pa.array(ids.take(positions)), pa.array(values)]
            yield pa.RecordBatch.from_arrays(columns, ["id", "v"])

    return lambda stream: stream.mapInArrow(answer, "id long, v long")


Search = Callable[[Int64s, Int64s], tuple[Int64s, Int64s]]
"""From keys and points to pairs: positions of the probes, and the table's values."""


@lru_cache
def _opened(way: str, place: Path, width: int) -> Search:
    """A way to search, opened once a worker."""

    def array(name: str) -> Any:
        return np.load(place / f"{name}.npy", mmap_mode="r")

    if way == FLAT_MAP:
        return _per_record(sqlite3.connect(f"file:{place}/table.sqlite?mode=ro", uri=True), width)
    values, slices = array("values"), np.asarray(array("slices"))
    if way == LOOP:
        return _loop(array("points"), values, slices, width)

    def pairs(firsts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        positions, rows = expand(firsts, np.maximum(stops - firsts, 0))
        return positions, values.take(rows)

    if way == DIRECTORY:
        directory = SortedRows(array("points"), array("directory"))

        def in_slices(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
            low, high = slices.take(keys), slices.take(keys + 1)
            return pairs(*directory.band(points - width, points + width, "both", low, high))

        return in_slices
    composite = array("composite")
    listed: SkipList | RandomSkipList = SkipList(composite)
    if way == RANDOM:
        levels = len(list(place.glob("nodes-*.npy")))
        nodes = tuple(array(f"nodes-{level}") for level in range(levels))
        listed = RandomSkipList(
            composite, nodes, tuple(array(f"below-{level}") for level in range(levels - 1))
        )

    def in_one_list(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
        firsts = listed.search(_composite(keys, points - width), "left")
        return pairs(firsts, listed.search(_composite(keys, points + width), "right"))

    return in_one_list


def _per_record(database: sqlite3.Connection, width: int) -> Search:
    """A query per record; in the worker's own process, so that no network counts."""

    def search(keys: Int64s, points: Int64s) -> tuple[Int64s, Int64s]:
        query = "SELECT v FROM t WHERE k = ? AND a BETWEEN ? AND ?"
        counts, found = np.empty(len(keys), np.int64), []
        for i, (key, point) in enumerate(zip(keys.tolist(), points.tolist(), strict=True)):
            rows = database.execute(query, (key, point - width, point + width)).fetchall()
            counts[i] = len(rows)
            found += rows
        positions = np.repeat(np.arange(len(keys)), counts)
        return positions, np.array(found, np.int64).reshape(-1)

    return search


def _loop(points: Int64s, values: Int64s, slices: Int64s, width: int) -> Search:
    """A nested loop: each record against all rows of its key, without an index."""

    def search(keys: Int64s, probed: Int64s) -> tuple[Int64s, Int64s]:
        counts, found = np.empty(len(keys), np.int64), []
        for i, (key, point) in enumerate(zip(keys.tolist(), probed.tolist(), strict=True)):
            low, high = slices[key], slices[key + 1]
            stored = points[low:high]
            near = np.flatnonzero((stored >= point - width) & (stored <= point + width))
            counts[i] = len(near)
            found.append(values[low:high].take(near))
        return np.repeat(np.arange(len(keys)), counts), np.concatenate(found or [values[:0]])

    return search


def figures(measured: dict[str, dict[int, dict[int, Any]]]) -> list[Figure]:
    """What the paper says of its tables: sorted before random, two times a query per record."""
    places = [(size, many) for size, by in measured[SORTED].items() for many in by]

    def ratio(name: str, above: str, below: str, bound: float) -> Figure:
        ratios = [measured[above][s][m]["rate"] / measured[below][s][m]["rate"] for s, m in places]
        spread = (min(ratios), max(ratios))
        return Figure(f"rows/s, {name}", statistics.median(ratios), bound, False, spread)

    return [
        ratio("sorted / random skip list, Tables 7 and 8", SORTED, RANDOM, 1.0),
        ratio("sorted skip list / query per record, Tables 6 and 8", SORTED, FLAT_MAP, 2.0),
        ratio("bsjoin.join / query per record", JOIN, FLAT_MAP, 2.0),
        ratio("bsjoin's directory / sorted skip list", DIRECTORY, SORTED, 1.0),
    ]
