"""The index: built, and searched by hash, by bounds, by intervals and as-of."""

from __future__ import annotations

import tempfile
import weakref
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedList

from benchmarks.kernels.timing import Ints, Prepared, Sizes, kernel
from benchmarks.paper.linked import LinkedSkipList
from bsjoin.index import HashIndex, IntervalIndex, SkipList, SortedRows, nearest, pairs, reach
from bsjoin.store import KeyColumn, Manifest, StorageLocation, write_segment
from bsjoin.worker.open_table import OpenTable

_SPAN = 1 << 48
_GROUPS = 100

_kernel = partial(kernel, "index")


class _Data:
    """Rows and probes of a size, drawn once."""

    def __init__(self, sizes: Sizes):
        self.rows, self.many, self.random = sizes.rows, sizes.probes, sizes.random()
        self.values = np.sort(self.random.integers(0, _SPAN, self.rows))
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
    def columns(self) -> list[pa.Array]:
        texts = np.char.add("name-", np.char.zfill(np.arange(self.rows).astype("U7"), 7))
        return [pa.array(np.arange(self.rows)), pa.array(texts)]


_data = lru_cache(maxsize=1)(_Data)


@_kernel()
def np_searchsorted(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    inside = np.flatnonzero(d.found < d.rows)
    assert (d.values[d.found[inside]] >= d.wanted[inside]).all()
    return lambda: np.searchsorted(d.values, d.wanted), d.many


@_kernel()
def np_searchsorted_sorted_first(sizes: Sizes) -> Prepared:
    d = _data(sizes)

    def search() -> Ints:
        order = np.argsort(d.wanted)
        found = np.empty(d.many, np.int64)
        found[order] = np.searchsorted(d.values, d.wanted[order])
        return found

    assert (search() == d.found).all()
    return search, d.many


@_kernel()
def sortedcontainers_bisect(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    listed, few = SortedList(d.values.tolist()), d.wanted[:1_000].tolist()
    assert [listed.bisect_left(one) for one in few] == d.found[:1_000].tolist()
    return lambda: [listed.bisect_left(one) for one in few], len(few)


@_kernel()
def dict_look_up(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    rows, asked = dict(zip(d.hashes.tolist(), range(d.rows), strict=False)), d.probes.tolist()
    assert sum(one in rows for one in asked) == np.isin(d.probes, d.hashes).sum()
    return lambda: [rows.get(one, -1) for one in asked], d.many


@_kernel(unit="row")
def dict_built(sizes: Sizes) -> Prepared:
    listed = _data(sizes).hashes.tolist()
    return lambda: dict(zip(listed, range(len(listed)), strict=True)), len(listed)


@_kernel(unit="row")
def arrow_take(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    rows = pa.array(d.taken)
    assert d.columns[0].take(rows).equals(rows)
    return lambda: [column.take(rows) for column in d.columns], d.many


@_kernel("dict built", "row")
def hash_index_built(sizes: Sizes) -> Prepared:
    hashes = _data(sizes).hashes
    HashIndex.build(hashes).validate()
    return lambda: HashIndex.build(hashes), len(hashes)


@_kernel("dict look up")
def hash_index_probed(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    index = HashIndex.build(d.hashes)
    rows, there = index.probe(d.probes)
    assert (there == np.isin(d.probes, d.hashes)).all()
    assert (rows[there] == np.searchsorted(d.hashes, d.probes[there])).all()
    return lambda: index.probe(d.probes), d.many


@_kernel("arrow take", "row")
def gather(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    table = _stored(np.arange(d.rows), d.columns)
    taken = table.gather(("v", "name"), d.taken)
    assert taken[0].to_numpy().tolist() == d.taken.tolist()
    assert taken[1][5].as_py() == f"name-{d.taken[5]:07d}"
    return lambda: table.gather(("v", "name"), d.taken), d.many


@_kernel("dict look up")
def find_in_a_stored_table(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    table, asked = _stored(d.hashes, [pa.array(np.arange(len(d.hashes)))]), pa.array(d.probes)
    found = np.searchsorted(d.hashes, d.probes)
    assert (table.find(asked, []) == np.where(np.isin(d.probes, d.hashes), found, -1)).all()
    return lambda: table.find(asked, []), d.many


@_kernel("np sorted", "row")
def sorted_rows_built(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    assert (SortedRows.build(d.values).search(d.wanted) == d.found).all()
    return lambda: SortedRows.build(d.values), d.rows


@_kernel(unit="row")
def np_sorted(sizes: Sizes) -> Prepared:
    drawn = sizes.random().integers(0, _SPAN, sizes.rows)
    assert (np.diff(np.sort(drawn)) >= 0).all()
    return lambda: np.sort(drawn), sizes.rows


def _searched(search: Any, sizes: Sizes) -> Prepared:
    d = _data(sizes)
    built = search(d.values)
    assert (built.search(d.wanted) == d.found).all()
    return lambda: built.search(d.wanted), d.many


for _name, _build, _over in (
    ("sorted rows searched", SortedRows.build, "np searchsorted"),
    ("skip list searched", SkipList, "np searchsorted"),
    ("random skip list searched", partial(LinkedSkipList.random, seed=1), "np searchsorted"),
    ("skip list against a sorted list", SkipList, "sortedcontainers bisect"),
):
    _kernel(_over, name=_name)(partial(_searched, _build))


@_kernel("np searchsorted")
def sorted_rows_searched_in_slices(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    starts = np.arange(0, d.rows, d.rows // _GROUPS)
    stops = np.append(starts[1:], d.rows)
    parts = [
        np.sort(d.random.permutation(d.values)[a:b]) for a, b in zip(starts, stops, strict=True)
    ]
    keyed = np.concatenate(parts)
    rows = SortedRows.build(keyed, starts)
    chosen = d.random.integers(0, len(starts), d.many)
    low, high = starts[chosen], stops[chosen]
    found = rows.search(d.wanted, "left", low, high)
    for i in range(0, d.many, 501):
        assert found[i] == low[i] + np.searchsorted(keyed[low[i] : high[i]], d.wanted[i])
    return lambda: rows.search(d.wanted, "left", low, high), d.many


def _band_by_numpy(d: _Data) -> Ints:
    firsts = np.searchsorted(d.values, d.wanted - 2 * d.width, "left")
    counts = np.searchsorted(d.values, d.wanted + 2 * d.width, "right") - firsts
    offsets = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    return offsets + np.arange(len(offsets))


@_kernel("band by np searchsorted", "probe")
def band(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    rows, width = SortedRows.build(d.values), 2 * d.width

    def search() -> list[tuple[Ints, Ints]]:
        firsts, stops = rows.band(d.wanted - width, d.wanted + width)
        return list(pairs(firsts, stops, 1 << 16))

    found = np.concatenate([rows for _, rows in search()])
    assert np.array_equal(found, _band_by_numpy(d))
    return search, d.many


@_kernel(unit="probe")
def band_by_np_searchsorted(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    return lambda: _band_by_numpy(d), d.many


def _sharing(d: _Data, lasts: Ints) -> int:
    begun = np.searchsorted(d.values, lasts, "right")
    return int((begun - np.searchsorted(np.sort(d.ends), d.wanted, "right")).sum())


@_kernel("np searchsorted", "probe")
def within(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    index = IntervalIndex.build(d.values, d.ends)
    assert sum(len(rows) for _, rows in index.stab(d.wanted)) == _sharing(d, d.wanted)
    return lambda: list(index.stab(d.wanted)), d.many


@_kernel("np searchsorted", "probe")
def overlaps(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    index, stops = IntervalIndex.build(d.values, d.ends), d.wanted + d.width
    found = sum(len(rows) for _, rows in index.overlaps(d.wanted, stops))
    assert found == _sharing(d, stops - 1)
    return lambda: list(index.overlaps(d.wanted, stops)), d.many


@_kernel("np sorted", "row")
def interval_index_built(sizes: Sizes) -> Prepared:
    d = _data(sizes)
    assert IntervalIndex.build(d.values, d.ends).rows == d.rows
    return lambda: IntervalIndex.build(d.values, d.ends), d.rows


def _as_of(direction: Any, sizes: Sizes) -> Prepared:
    d = _data(sizes)
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
    return lambda: nearest(rows, d.wanted, direction=direction, reach=near), d.many


for _direction in ("backward", "nearest"):
    _kernel("np searchsorted", "probe", f"as of, {_direction}")(partial(_as_of, _direction))


def _stored(hashes: Ints, columns: list[pa.Array]) -> OpenTable:
    """A stored table, in a folder that is removed with it."""
    folder = tempfile.TemporaryDirectory()
    rows = pa.table(dict(zip(("v", "name"), columns, strict=False)))
    location = StorageLocation.of(folder.name)
    segment = write_segment(location, "data/0000-000", hashes.astype(np.int64), rows, 0)
    manifest = Manifest(
        version=0, activates_at_us=0, created_at_us=0, build_s=0.0,
        keys=(KeyColumn("k", "bigint"),), compared=0, unique=True, schema=rows.schema,
        spark_schema="{}", segments=(segment,),
    )  # fmt: skip
    table = OpenTable(location, manifest)
    weakref.finalize(table, folder.cleanup)
    return table
