"""Alternatives to search a table for a band with a key, on arrays or a file that workers open.

The paper's are one range query per record (its FlatMap), a random skip list and a sorted one; both
lists hold the composite key of its Algorithm 3. Then there is the directory that bsjoin searches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.kept import kept
from benchmarks.data.ranges import BEGIN_US, MONTH_US, SECOND_US, Case, rows_of
from benchmarks.harness.spark import Join
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
