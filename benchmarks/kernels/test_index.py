"""The index: built, and searched by hash, by bounds, by intervals and as-of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sortedcontainers import SortedList

from benchmarks.kernels.conftest import Ints, Sizes, Timed
from benchmarks.papers.joins.linked import LinkedSkipList
from bsjoin.index import HashIndex, IntervalIndex, SkipList, SortedRows, nearest, pairs, reach
from bsjoin.storage import KeyColumn, Manifest, StorageLocation, write_segment
from bsjoin.storage.open_table import OpenTable

_SPAN = 1 << 48
_GROUPS = 100
_FEW = 1_000  # of a sorted list, which takes microseconds a key


class Data:
    """Rows and probes of a size, drawn once."""

    def __init__(self, sizes: Sizes):
        self.rows, self.many, self.random = sizes.rows, sizes.probes, sizes.random()
        self.drawn = self.random.integers(0, _SPAN, self.rows)
        self.values = np.sort(self.drawn)
        self.wanted = self.random.integers(0, _SPAN, self.many)
        self.ends = self.values + self.random.integers(1, 4 * _SPAN // self.rows, self.rows)
        self.taken = self.random.integers(0, self.rows, self.many)
        self.found = np.searchsorted(self.values, self.wanted)
        self.width = _SPAN // self.rows

    @cached_property
    def hashes(self) -> Ints:
        return np.unique(self.random.integers(-(1 << 63), 1 << 63, self.rows, np.int64))

    @cached_property
    def probes(self) -> Ints:
        """Half of them are hashes of rows."""
        there = self.random.choice(self.hashes, self.many // 2)
        others = self.random.integers(-(1 << 63), 1 << 63, self.many - len(there), np.int64)
        return self.random.permutation(np.concatenate([there, others]))

    @cached_property
    def at(self) -> Ints:
        """The row of each probe; -1 where there is none."""
        found = np.searchsorted(self.hashes, self.probes)
        return np.where(np.isin(self.probes, self.hashes), found, -1)

    @cached_property
    def columns(self) -> list[pa.Array]:
        texts = np.char.add("name-", np.char.zfill(np.arange(self.rows).astype("U7"), 7))
        return [pa.array(np.arange(self.rows)), pa.array(texts)]

    def sorted_first(self) -> Ints:
        """The rows that are wanted, searched in the order of the values."""
        order, found = np.argsort(self.wanted), np.empty(self.many, np.int64)
        found[order] = np.searchsorted(self.values, self.wanted[order])
        return found

    def band(self) -> Ints:
        """The rows of each band, by numpy alone."""
        firsts = np.searchsorted(self.values, self.wanted - 2 * self.width, "left")
        counts = np.searchsorted(self.values, self.wanted + 2 * self.width, "right") - firsts
        offsets = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        return offsets + np.arange(len(offsets))

    def shared(self, lasts: Ints) -> int:
        """How many intervals share a value with those from what is wanted to ``lasts``."""
        begun = np.searchsorted(self.values, lasts, "right")
        return int((begun - np.searchsorted(np.sort(self.ends), self.wanted, "right")).sum())


@pytest.fixture(scope="module")
def d(sizes: Sizes) -> Data:
    return Data(sizes)


def _bisected(d: Data) -> Callable[[], Any]:
    listed, few = SortedList(d.values.tolist()), d.wanted[:_FEW].tolist()
    return lambda: [listed.bisect_left(one) for one in few]


def _looked_up(d: Data) -> Callable[[], Any]:
    rows, asked = dict(zip(d.hashes.tolist(), range(d.rows), strict=False)), d.probes.tolist()
    return lambda: [rows.get(one, -1) for one in asked]


SEARCHES: dict[str, tuple[str | None, Callable[[Data], Callable[[], Any]]]] = {
    "np searchsorted": (None, lambda d: partial(np.searchsorted, d.values, d.wanted)),
    "np searchsorted sorted first": (None, lambda d: d.sorted_first),
    "sortedcontainers bisect": (None, _bisected),
    "sorted rows searched": (
        "np searchsorted", lambda d: partial(SortedRows.build(d.values).search, d.wanted),
    ),
    "skip list searched": (
        "np searchsorted", lambda d: partial(SkipList(d.values).search, d.wanted),
    ),
    "random skip list searched": (
        "np searchsorted",
        lambda d: partial(LinkedSkipList.random(d.values, seed=1).search, d.wanted),
    ),
    "skip list against a sorted list": (
        "sortedcontainers bisect", lambda d: partial(SkipList(d.values).search, d.wanted),
    ),
}  # fmt: skip
"""By name: the reference, and what makes the search."""


@pytest.mark.parametrize("name", SEARCHES)
def test_search(timed: Timed, d: Data, name: str) -> None:
    over, make = SEARCHES[name]
    search = make(d)
    found = search()
    assert np.array_equal(found, d.found[: len(found)])
    timed(search, len(found), over)


def test_dict_look_up(timed: Timed, d: Data) -> None:
    search = _looked_up(d)
    assert np.array_equal(search(), d.at)
    timed(search, d.many)


def test_hash_index_probed(timed: Timed, d: Data) -> None:
    index = HashIndex.build(d.hashes)
    rows, there = index.probe(d.probes)
    assert (np.where(there, rows, -1) == d.at).all()
    timed(lambda: index.probe(d.probes), d.many, "dict look up")


def test_find_in_a_stored_table(timed: Timed, d: Data, tmp_path: Path) -> None:
    table = _stored(tmp_path, d.hashes, [pa.array(np.arange(len(d.hashes)))])
    asked = pa.array(d.probes)
    assert (table.find(asked, []) == d.at).all()
    timed(lambda: table.find(asked, []), d.many, "dict look up")


def test_dict_built(timed: Timed, d: Data) -> None:
    listed = d.hashes.tolist()
    timed(lambda: dict(zip(listed, range(len(listed)), strict=True)), len(listed), unit="row")


def test_hash_index_built(timed: Timed, d: Data) -> None:
    HashIndex.build(d.hashes).validate()
    timed(lambda: HashIndex.build(d.hashes), len(d.hashes), "dict built", "row")


def test_np_sorted(timed: Timed, d: Data) -> None:
    timed(lambda: np.sort(d.drawn), d.rows, unit="row")


def test_sorted_rows_built(timed: Timed, d: Data) -> None:
    assert (SortedRows.build(d.values).search(d.wanted) == d.found).all()
    timed(lambda: SortedRows.build(d.values), d.rows, "np sorted", "row")


def test_interval_index_built(timed: Timed, d: Data) -> None:
    assert IntervalIndex.build(d.values, d.ends).rows == d.rows
    timed(lambda: IntervalIndex.build(d.values, d.ends), d.rows, "np sorted", "row")


def test_arrow_take(timed: Timed, d: Data) -> None:
    rows = pa.array(d.taken)
    assert d.columns[0].take(rows).equals(rows)
    timed(lambda: [column.take(rows) for column in d.columns], d.many, unit="row")


def test_gather(timed: Timed, d: Data, tmp_path: Path) -> None:
    table = _stored(tmp_path, np.arange(d.rows), d.columns)
    found, rows = table.gather(("v", "name"), d.taken), pa.array(d.taken)
    assert all(a.equals(b.take(rows)) for a, b in zip(found, d.columns, strict=True))
    timed(lambda: table.gather(("v", "name"), d.taken), d.many, "arrow take", "row")


def test_sorted_rows_searched_in_slices(timed: Timed, d: Data) -> None:
    starts = np.arange(0, d.rows, d.rows // _GROUPS)
    stops = np.append(starts[1:], d.rows)
    shuffled = d.random.permutation(d.values)
    keyed = np.concatenate([np.sort(part) for part in np.split(shuffled, starts[1:])])
    rows, chosen = SortedRows.build(keyed, starts), d.random.integers(0, len(starts), d.many)
    low, high = starts[chosen], stops[chosen]
    found = rows.search(d.wanted, "left", low, high)
    for i in range(0, d.many, 501):
        assert found[i] == low[i] + np.searchsorted(keyed[low[i] : high[i]], d.wanted[i])
    timed(lambda: rows.search(d.wanted, "left", low, high), d.many, "np searchsorted")


def test_band_by_np_searchsorted(timed: Timed, d: Data) -> None:
    timed(d.band, d.many, unit="probe")


def test_band(timed: Timed, d: Data) -> None:
    rows, width = SortedRows.build(d.values), 2 * d.width

    def search() -> list[tuple[Ints, Ints]]:
        firsts, stops = rows.band(d.wanted - width, d.wanted + width)
        return list(pairs(firsts, stops, 1 << 16))

    assert np.array_equal(np.concatenate([rows for _, rows in search()]), d.band())
    timed(search, d.many, "band by np searchsorted", "probe")


def test_within(timed: Timed, d: Data) -> None:
    index = IntervalIndex.build(d.values, d.ends)
    assert sum(len(rows) for _, rows in index.stab(d.wanted)) == d.shared(d.wanted)
    timed(lambda: list(index.stab(d.wanted)), d.many, "np searchsorted", "probe")


def test_overlaps(timed: Timed, d: Data) -> None:
    index, stops = IntervalIndex.build(d.values, d.ends), d.wanted + d.width
    found = sum(len(rows) for _, rows in index.overlaps(d.wanted, stops))
    assert found == d.shared(stops - 1)
    timed(lambda: list(index.overlaps(d.wanted, stops)), d.many, "np searchsorted", "probe")


@pytest.mark.parametrize("direction", ["backward", "nearest"], ids="as of, {}".format)
def test_as_of(timed: Timed, d: Data, direction: Any) -> None:
    rows, width = SortedRows.build(d.values), 4 * d.width
    near = reach(d.wanted, width)
    found = nearest(rows, d.wanted, direction=direction, reach=near)
    right = np.searchsorted(d.values, d.wanted, "right")
    behind, before = np.minimum(right, d.rows - 1), np.maximum(right - 1, 0)
    back, ahead = np.abs(d.wanted - d.values[before]), np.abs(d.values[behind] - d.wanted)
    least = np.where(d.values[before] <= d.wanted, back, width + 1)
    if direction == "nearest":
        least = np.minimum(least, np.where(d.values[behind] >= d.wanted, ahead, width + 1))
    there = found >= 0
    assert (there == (least <= width)).all()
    assert (np.abs(d.values[found[there]] - d.wanted[there]) == least[there]).all()
    search = partial(nearest, rows, d.wanted, direction=direction, reach=near)
    timed(search, d.many, "np searchsorted", "probe")


def _stored(folder: Path, hashes: Ints, columns: list[pa.Array]) -> OpenTable:
    rows = pa.table(dict(zip(("v", "name"), columns, strict=False)))
    location = StorageLocation.of(str(folder))
    segment = write_segment(location, "data/0000-000", hashes.astype(np.int64), rows, 0)
    manifest = Manifest(
        version=0, activates_at_us=0, created_at_us=0, build_s=0.0,
        keys=(KeyColumn("k", "bigint"),), compared=0, unique=True, schema=rows.schema,
        spark_schema="{}", segments=(segment,),
    )  # fmt: skip
    return OpenTable(location, manifest)
