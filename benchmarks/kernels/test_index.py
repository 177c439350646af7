"""The index: built, and searched by hash, by bounds, by intervals and as-of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sortedcontainers import SortedList

from benchmarks.kernels.conftest import Ints, Sizes, Timed
from benchmarks.skip_lists.linked import LinkedSkipList
from bsjoin.index import (
    HashIndex,
    IntervalIndex,
    SkipList,
    SortedRows,
    nearest,
    pairs,
    reach,
)
from bsjoin.store import KeyColumn, Manifest, StorageLocation, write_segment
from bsjoin.worker.open_table import OpenTable

_SPAN = 1 << 48
_GROUPS = 100


@pytest.fixture
def hashes(random: np.random.Generator, sizes: Sizes) -> Ints:
    return np.unique(random.integers(-(1 << 63), 1 << 63, sizes.rows, np.int64))


@pytest.fixture
def probes(random: np.random.Generator, sizes: Sizes, hashes: Ints) -> Ints:
    half = sizes.probes // 2
    there = random.choice(hashes, half)
    others = random.integers(-(1 << 63), 1 << 63, sizes.probes - half, np.int64)
    return random.permutation(np.concatenate([there, others]))


@pytest.fixture
def values(random: np.random.Generator, sizes: Sizes) -> Ints:
    return np.sort(random.integers(0, _SPAN, sizes.rows))


@pytest.fixture
def wanted(random: np.random.Generator, sizes: Sizes) -> Ints:
    return random.integers(0, _SPAN, sizes.probes)


@pytest.fixture
def ends(random: np.random.Generator, sizes: Sizes, values: Ints) -> Ints:
    return values + random.integers(1, 4 * _SPAN // sizes.rows, len(values))


def test_np_searchsorted(timed: Timed, values: Ints, wanted: Ints) -> None:
    found = timed(lambda: np.searchsorted(values, wanted), len(wanted))
    inside = np.flatnonzero(found < len(values))
    assert (values[found[inside]] >= wanted[inside]).all()


def test_np_searchsorted_sorted_first(timed: Timed, values: Ints, wanted: Ints) -> None:
    def search() -> Ints:
        order = np.argsort(wanted)
        found = np.empty(len(wanted), np.int64)
        found[order] = np.searchsorted(values, wanted[order])
        return found

    assert (timed(search, len(wanted)) == np.searchsorted(values, wanted)).all()


def test_sortedcontainers_bisect(timed: Timed, values: Ints, wanted: Ints) -> None:
    listed, few = SortedList(values.tolist()), wanted[:1_000].tolist()
    found = timed(lambda: [listed.bisect_left(one) for one in few], len(few))
    assert found == np.searchsorted(values, few).tolist()


def test_dict_look_up(timed: Timed, hashes: Ints, probes: Ints) -> None:
    rows, asked = dict(zip(hashes.tolist(), range(len(hashes)), strict=True)), probes.tolist()
    found = timed(lambda: [rows.get(one, -1) for one in asked], len(asked))
    assert sum(row >= 0 for row in found) == np.isin(probes, hashes).sum()


def test_dict_built(timed: Timed, hashes: Ints) -> None:
    listed = hashes.tolist()
    rows = timed(
        lambda: dict(zip(listed, range(len(listed)), strict=True)), len(listed), unit="row"
    )
    assert len(rows) == len(hashes)


def test_arrow_take(timed: Timed, random: np.random.Generator, sizes: Sizes) -> None:
    columns = _columns(sizes.rows)
    rows = pa.array(random.integers(0, sizes.rows, sizes.probes))
    taken = timed(lambda: [column.take(rows) for column in columns], sizes.probes, unit="row")
    assert taken[0].equals(rows)


def test_hash_index_built(timed: Timed, hashes: Ints) -> None:
    built = timed(lambda: HashIndex.build(hashes), len(hashes), "test_dict_built", unit="row")
    built.validate()


def test_hash_index_probed(timed: Timed, hashes: Ints, probes: Ints) -> None:
    index = HashIndex.build(hashes)
    rows, there = index.probe(probes)
    assert (there == np.isin(probes, hashes)).all()
    assert (rows[there] == np.searchsorted(hashes, probes[there])).all()
    timed(lambda: index.probe(probes), len(probes), "test_dict_look_up")


def test_gather(timed: Timed, tmp_path: Path, random: np.random.Generator, sizes: Sizes) -> None:
    table = _stored(tmp_path, np.arange(sizes.rows), _columns(sizes.rows))
    rows = random.integers(0, sizes.rows, sizes.probes)
    taken = table.gather(("v", "name"), rows)
    assert taken[0].to_numpy().tolist() == rows.tolist()
    assert taken[1][5].as_py() == f"name-{rows[5]:07d}"
    timed(lambda: table.gather(("v", "name"), rows), len(rows), "test_arrow_take", unit="row")


def test_find_in_a_stored_table(timed: Timed, tmp_path: Path, hashes: Ints, probes: Ints) -> None:
    table = _stored(tmp_path, hashes, [pa.array(np.arange(len(hashes)))])
    asked = pa.array(probes)
    expected = np.where(np.isin(probes, hashes), np.searchsorted(hashes, probes), -1)
    assert (table.find(asked, []) == expected).all()
    timed(lambda: table.find(asked, []), len(probes), "test_dict_look_up")


def test_sorted_rows_built(timed: Timed, values: Ints) -> None:
    built = timed(lambda: SortedRows.build(values), len(values), "test_np_sorted", unit="row")
    assert (built.search(values[::97]) == np.searchsorted(values, values[::97])).all()


def test_np_sorted(timed: Timed, random: np.random.Generator, sizes: Sizes) -> None:
    drawn = random.integers(0, _SPAN, sizes.rows)
    ordered = timed(lambda: np.sort(drawn), len(drawn), unit="row")
    assert (ordered[1:] >= ordered[:-1]).all()


def test_sorted_rows_searched(timed: Timed, values: Ints, wanted: Ints) -> None:
    rows = SortedRows.build(values)
    assert (rows.search(wanted) == np.searchsorted(values, wanted)).all()
    timed(lambda: rows.search(wanted), len(wanted), "test_np_searchsorted")


def test_sorted_rows_searched_in_slices(
    timed: Timed, values: Ints, wanted: Ints, random: np.random.Generator
) -> None:
    starts = np.arange(0, len(values), len(values) // _GROUPS)
    stops = np.append(starts[1:], len(values))
    keyed = np.concatenate(
        [np.sort(random.integers(0, _SPAN, b - a)) for a, b in zip(starts, stops, strict=True)]
    )
    rows = SortedRows.build(keyed, starts)
    chosen = random.integers(0, len(starts), len(wanted))
    low, high = starts[chosen], stops[chosen]
    found = rows.search(wanted, "left", low, high)
    for i in range(0, len(wanted), 501):
        assert found[i] == low[i] + np.searchsorted(keyed[low[i] : high[i]], wanted[i])
    timed(lambda: rows.search(wanted, "left", low, high), len(wanted), "test_np_searchsorted")


def test_skip_list_searched(timed: Timed, values: Ints, wanted: Ints) -> None:
    skips = SkipList(values)
    assert (skips.search(wanted) == np.searchsorted(values, wanted)).all()
    timed(lambda: skips.search(wanted), len(wanted), "test_np_searchsorted")


def test_random_skip_list_searched(timed: Timed, values: Ints, wanted: Ints) -> None:
    skips = LinkedSkipList.random(values, 1)
    assert (skips.search(wanted) == np.searchsorted(values, wanted)).all()
    timed(lambda: skips.search(wanted), len(wanted), "test_np_searchsorted")


def test_skip_list_against_a_sorted_list(timed: Timed, values: Ints, wanted: Ints) -> None:
    skips = SkipList(values)
    assert (skips.search(wanted) == np.searchsorted(values, wanted)).all()
    timed(lambda: skips.search(wanted), len(wanted), "test_sortedcontainers_bisect")


def test_band(timed: Timed, values: Ints, wanted: Ints, sizes: Sizes) -> None:
    rows, width = SortedRows.build(values), 2 * _SPAN // sizes.rows

    def search() -> list[tuple[Ints, Ints]]:
        firsts, stops = rows.band(wanted - width, wanted + width)
        return list(pairs(firsts, stops, 1 << 16))

    expected = _band_by_numpy(values, wanted, width)
    assert np.array_equal(np.concatenate([found for _, found in search()]), expected)
    timed(search, len(wanted), "test_band_by_np_searchsorted", unit="probe")


def test_band_by_np_searchsorted(timed: Timed, values: Ints, wanted: Ints, sizes: Sizes) -> None:
    width = 2 * _SPAN // sizes.rows
    found = timed(lambda: _band_by_numpy(values, wanted, width), len(wanted), unit="probe")
    assert (np.diff(found) != 0).any()


def test_within(timed: Timed, values: Ints, ends: Ints, wanted: Ints) -> None:
    index = IntervalIndex.build(values, ends)
    found = sum(len(rows) for _, rows in index.stab(wanted))
    assert found == _sharing(values, ends, wanted, wanted)
    timed(lambda: list(index.stab(wanted)), len(wanted), "test_np_searchsorted", unit="probe")


def test_overlaps(timed: Timed, values: Ints, ends: Ints, wanted: Ints, sizes: Sizes) -> None:
    index, stops = IntervalIndex.build(values, ends), wanted + _SPAN // sizes.rows
    found = sum(len(rows) for _, rows in index.overlaps(wanted, stops))
    assert found == _sharing(values, ends, wanted, stops - 1)
    timed(
        lambda: list(index.overlaps(wanted, stops)),
        len(wanted),
        "test_np_searchsorted",
        unit="probe",
    )


def test_interval_index_built(timed: Timed, values: Ints, ends: Ints) -> None:
    built = timed(
        lambda: IntervalIndex.build(values, ends), len(values), "test_np_sorted", unit="row"
    )
    assert built.rows == len(values)


@pytest.mark.parametrize("direction", ["backward", "nearest"])
def test_as_of(timed: Timed, values: Ints, wanted: Ints, sizes: Sizes, direction: Any) -> None:
    rows, width = SortedRows.build(values), 4 * _SPAN // sizes.rows
    near = reach(wanted, width)
    found = nearest(rows, wanted, direction=direction, reach=near)
    behind = np.minimum(np.searchsorted(values, wanted, "right"), len(values) - 1)
    before = np.maximum(np.searchsorted(values, wanted, "right") - 1, 0)
    back, ahead = np.abs(wanted - values[before]), np.abs(values[behind] - wanted)
    least = np.where(values[before] <= wanted, back, width + 1)
    if direction == "nearest":
        least = np.minimum(least, np.where(values[behind] >= wanted, ahead, width + 1))
    assert ((found >= 0) == (least <= width)).all()
    there = found >= 0
    assert (np.abs(values[found[there]] - wanted[there]) == least[there]).all()
    timed(
        lambda: nearest(rows, wanted, direction=direction, reach=near),
        len(wanted),
        "test_np_searchsorted",
        unit="probe",
    )


def _band_by_numpy(values: Ints, wanted: Ints, width: int) -> Ints:
    firsts = np.searchsorted(values, wanted - width, "left")
    counts = np.searchsorted(values, wanted + width, "right") - firsts
    offsets = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    return offsets + np.arange(len(offsets))


def _sharing(values: Ints, ends: Ints, starts: Ints, lasts: Ints) -> int:
    begun = np.searchsorted(values, lasts, "right")
    over = np.searchsorted(np.sort(ends), starts, "right")
    return int((begun - over).sum())


def _columns(rows: int) -> list[pa.Array]:
    texts = np.char.add("name-", np.char.zfill(np.arange(rows).astype("U7"), 7))
    return [pa.array(np.arange(rows)), pa.array(texts)]


def _stored(folder: Path, hashes: Ints, columns: list[pa.Array]) -> OpenTable:
    rows = pa.table(dict(zip(("v", "name"), columns, strict=False)))
    home = StorageLocation.of(str(folder))
    segment = write_segment(home, "data/0000-000", hashes.astype(np.int64), rows, 0)
    manifest = Manifest(
        version=0,
        activates_at_us=0,
        created_at_us=0,
        build_s=0.0,
        keys=(KeyColumn("k", "bigint"),),
        compared=0,
        unique=True,
        schema=rows.schema,
        spark_schema="{}",
        segments=(segment,),
    )
    return OpenTable(home, manifest)
