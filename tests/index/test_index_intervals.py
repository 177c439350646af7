"""Intervals against a nested loop, and against DuckDB."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_slices import run_lengths
from numpy.typing import NDArray

from bsjoin.index import IntervalIndex

Int64s = NDArray[np.int64]
LOW, HIGH = -(2**63), 2**63 - 1
SPECIAL = [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]
CLOSED = ["both", "left", "right", "neither"]

value = st.one_of(st.integers(-6, 6), st.integers(0, 60), st.sampled_from(SPECIAL))


class Interval(NamedTuple):
    """An interval; without an end it is open-ended."""

    group: int
    start: int
    end: int | None


interval = st.builds(Interval, st.integers(0, 2), value, st.one_of(st.none(), value))
short = st.builds(
    lambda group, start, length: Interval(group, start, start + length),
    st.integers(0, 2),
    st.integers(-50, 50),
    st.integers(0, 5),
)
intervals = st.lists(st.one_of(interval, short), max_size=90)
closed_ends = st.sampled_from(CLOSED)


def is_empty(it: Interval, closed: str) -> bool:
    if closed in ("right", "neither") and it.start == HIGH:
        return True  # Nothing lies above the greatest value.
    if it.end is None:
        return False
    return it.start > it.end if closed == "both" else it.start >= it.end


def contains(it: Interval, point: int, closed: str) -> bool:
    after = it.start <= point if closed in ("both", "left") else it.start < point
    if it.end is None:
        return after
    return after and (point <= it.end if closed in ("both", "right") else point < it.end)


def share(one: Interval, other: Interval, closed: str) -> bool:
    if is_empty(one, closed) or is_empty(other, closed):
        return False

    def begins_in_time(a: Interval, b: Interval) -> bool:
        return b.end is None or (a.start <= b.end if closed == "both" else a.start < b.end)

    return begins_in_time(one, other) and begins_in_time(other, one)


def build(rows: list[Interval], closed: str) -> tuple[IntervalIndex, list[Interval], Int64s]:
    """The index, its rows in order, and where each of the three groups begins and ends."""
    ordered = sorted(rows, key=lambda it: (it.group, it.start))
    edges = np.searchsorted([it.group for it in ordered], np.arange(4))
    slices = edges[:-1][np.diff(edges) > 0]
    index = IntervalIndex.build(
        np.array([it.start for it in ordered], np.int64),
        np.array([0 if it.end is None else it.end for it in ordered], np.int64),
        slices if len(rows) else None,
        closed=closed,
        missing_ends=np.array([it.end is None for it in ordered], np.bool_),
    )
    index.validate(run_lengths(len(rows), slices if len(rows) else None))
    return index, ordered, edges


def check_slices(slices, expected: list[tuple[int, int]], max_pairs: int) -> None:
    found = list(slices)
    assert [pair for part in found for pair in zip(*part, strict=True)] == expected
    assert all(0 < len(part[0]) <= max_pairs for part in found)
    assert all(part[0].dtype == part[1].dtype == np.int64 for part in found)


@settings(deadline=None)
@given(
    intervals, st.lists(st.tuples(st.integers(0, 2), value), max_size=50), closed_ends, st.data()
)
def test_a_point_finds_the_intervals_that_contain_it(
    rows: list[Interval], probes: list[tuple[int, int]], closed: str, data: st.DataObject
) -> None:
    index, ordered, edges = build(rows, closed)
    max_pairs = data.draw(st.sampled_from([1, 3, 8, 9, 50, 10**6]))
    groups = np.array([group for group, _ in probes], np.int64)
    points = np.array([point for _, point in probes], np.int64)
    expected = [
        (position, row)
        for position, (group, point) in enumerate(probes)
        for row, it in enumerate(ordered)
        if it.group == group and contains(it, point, closed) and not is_empty(it, closed)
    ]
    slices = index.stab(points, edges[groups], edges[groups + 1], max_pairs=max_pairs)
    check_slices(slices, expected, max_pairs)
    matched = {position for position, _ in expected}
    found = index.stabs_any(points, edges[groups], edges[groups + 1])
    assert found.tolist() == [position in matched for position in range(len(probes))]


@settings(deadline=None)
@given(intervals, st.lists(st.one_of(interval, short), max_size=50), closed_ends, st.data())
def test_an_interval_finds_those_that_share_a_point_with_it(
    rows: list[Interval], probes: list[Interval], closed: str, data: st.DataObject
) -> None:
    index, ordered, edges = build(rows, closed)
    max_pairs = data.draw(st.sampled_from([1, 3, 8, 9, 50, 10**6]))
    groups = np.array([it.group for it in probes], np.int64)
    expected = [
        (position, row)
        for position, probe in enumerate(probes)
        for row, it in enumerate(ordered)
        if it.group == probe.group and share(it, probe, closed)
    ]
    asked = (
        np.array([it.start for it in probes], np.int64),
        np.array([0 if it.end is None else it.end for it in probes], np.int64),
        edges[groups],
        edges[groups + 1],
    )
    missing = np.array([it.end is None for it in probes], np.bool_)
    slices = index.overlaps(*asked, missing_ends=missing, max_pairs=max_pairs)
    check_slices(slices, expected, max_pairs)
    matched = {position for position, _ in expected}
    found = index.overlaps_any(*asked, missing_ends=missing)
    assert found.tolist() == [position in matched for position in range(len(probes))]


@pytest.mark.parametrize("closed", CLOSED)
def test_nothing_is_above_the_greatest_value(closed: str) -> None:
    top, low = np.array([HIGH]), np.array([5])
    no_end = np.array([True])
    index = IntervalIndex.build(top, top, closed=closed, missing_ends=no_end)
    index.validate(run_lengths(index.rows))
    with_its_first_point = closed in ("both", "left")
    assert index.stabs_any(top).tolist() == [with_its_first_point]
    assert index.overlaps_any(top, top, missing_ends=no_end).tolist() == [with_its_first_point]
    assert index.overlaps_any(low, low, missing_ends=no_end).tolist() == [with_its_first_point]
    others = IntervalIndex.build(low, low, closed=closed, missing_ends=no_end)
    assert others.overlaps_any(top, top, missing_ends=no_end).tolist() == [with_its_first_point]


class CountedTree(np.ndarray[Any, np.dtype[np.int64]]):
    """An array that notes how many lines of eight children, that is nodes, are taken from it."""

    nodes: list[int] = []  # noqa: RUF012 - shared by all views

    def take(self, indices: Any, axis: int | None = None) -> Any:  # type: ignore[override]
        if axis == 0:
            self.nodes.append(len(indices))
        return np.asarray(self).take(indices, axis)


def with_counted_reads(index: IntervalIndex) -> tuple[IntervalIndex, CountedTree]:
    """The same index; the tree of its ends counts the nodes that a search visits."""
    tree = index.tree.view(CountedTree)
    return replace(index, tree=tree), tree


@pytest.mark.parametrize("shape", ["nested", "duplicates", "stairs", "empty", "late", "open"])
def test_visits_grow_with_the_answers_and_the_levels_only(shape: str) -> None:
    size = 1 << 15
    starts = np.arange(size)
    missing = np.zeros(size, np.bool_)
    if shape == "nested":
        ends = 3 * size - starts
    elif shape == "duplicates":
        starts, ends = np.full(size, 5), np.full(size, 9)
    elif shape == "stairs":
        ends = starts + 3
    elif shape == "empty":
        ends = starts.copy()
    elif shape == "late":
        ends = np.where(starts % 1000 == 7, 4 * size, starts + 1)
    else:
        ends = np.zeros(size, np.int64)
        missing = starts % 5000 == 3
    index = IntervalIndex.build(starts, ends, missing_ends=missing)
    index.validate(run_lengths(index.rows))
    index, tree = with_counted_reads(index)
    levels = 5
    for point in (*range(-2, 12), *np.random.default_rng(2).integers(0, 3 * size, 90)):
        tree.nodes.clear()
        answers = sum(len(rows) for _, rows in index.stab(np.array([point]), max_pairs=5000))
        # A dense range is read row by row instead of by nodes.
        most = 2 * levels + min(answers * levels, size // 7 + levels)
        assert sum(tree.nodes) <= most


def test_memory_is_bounded_however_many_pairs_there_are() -> None:
    # 4 * 10^9 pairs: only the first are ever made.
    size = 2_000_000
    index = IntervalIndex.build(np.arange(size), np.full(size, 10**9))
    slices = index.stab(np.full(2000, size), max_pairs=1000)
    assert index.stabs_any(np.full(2000, size)).all()
    rows = np.concatenate([next(slices)[1] for _ in range(50)])
    assert (rows == np.arange(len(rows))).all()


@pytest.mark.parametrize("closed", CLOSED)
def test_duckdb_finds_the_same(closed: str) -> None:
    random = np.random.default_rng(11)
    group = np.sort(random.integers(0, 8, 3000))
    start = random.integers(0, 5000, 3000)
    start = start[np.lexsort((start, group))]
    end = start + np.where(random.random(3000) < 0.01, 3000, random.integers(-1, 20, 3000))
    edges = np.searchsorted(group, np.arange(9))
    index = IntervalIndex.build(start, end, edges[:-1], closed=closed)
    g = random.integers(0, 8, 500)
    low = random.integers(0, 5000, 500)
    high = low + random.integers(-1, 30, 500)
    with duckdb.connect() as connection:
        for name, columns in (
            ("rows", {"id": np.arange(3000), "g": group, "s": start, "e": end}),
            ("probes", {"p": np.arange(500), "g": g, "lo": low, "hi": high}),
        ):
            connection.register(name, pa.table(columns))
        after = "<=" if closed in ("both", "left") else "<"
        before = "<=" if closed in ("both", "right") else "<"
        touch = "<=" if closed == "both" else "<"
        stabbed = connection.execute(
            f"select p, id from probes join rows on probes.g = rows.g "
            f"and s {after} lo and lo {before} e order by p, id"
        ).fetchall()
        overlapping = connection.execute(
            f"select p, id from probes join rows on probes.g = rows.g and s {touch} hi "
            f"and lo {touch} e and s {touch} e and lo {touch} hi order by p, id"
        ).fetchall()
    assert len(stabbed) > 500
    check_slices(index.stab(low, edges[g], edges[g + 1], max_pairs=700), stabbed, 700)
    slices = index.overlaps(low, high, edges[g], edges[g + 1], max_pairs=700)
    check_slices(slices, overlapping, 700)
