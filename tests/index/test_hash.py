"""The hash index against a dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import HashIndex, are_dense, with_sentinel

LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SPECIAL = [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]

anything = st.integers(LOW, HIGH)
special = st.sampled_from(SPECIAL)


@st.composite
def clustered(draw: st.DrawFn) -> int:
    """A hash near one of three places, so that a few buckets hold nearly all rows."""
    return draw(st.sampled_from([LOW, -(1 << 40), 1 << 62])) + draw(st.integers(0, 50))


one_hash = st.one_of(anything, special, clustered(), st.integers(-5, 5))
hash_lists = st.lists(one_hash, min_size=1, max_size=200)


def ascending(hashes: list[int]) -> NDArray[np.int64]:
    return np.array(sorted(hashes), np.int64)


def runs_of(hashes: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
    """The model: first row and number of rows of each hash."""
    values, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    return {int(v): (int(f), int(c)) for v, f, c in zip(values, first, counts, strict=True)}


def check_probes(index: HashIndex, model: dict[int, tuple[int, int]], probes: list[int]) -> None:
    wanted = np.array(probes, np.int64)
    rows, found = index.probe(wanted)
    assert ((rows >= 0) & (rows <= index.rows)).all()
    assert index.has(rows, wanted).tolist() == found.tolist()
    assert found.tolist() == [hash_ in model for hash_ in probes]
    assert rows[found].tolist() == [model[hash_][0] for hash_ in probes if hash_ in model]
    lengths = index.run_lengths(rows[found])
    assert lengths.tolist() == [model[hash_][1] for hash_ in probes if hash_ in model]


@settings(deadline=None)
@given(hash_lists, st.lists(one_hash, max_size=100))
def test_probes_find_what_a_dictionary_finds(stored: list[int], others: list[int]) -> None:
    hashes = ascending(stored)
    for index in (
        HashIndex.build(hashes),
        HashIndex.build(
            with_sentinel(hashes[::-1], np.arange(len(hashes))[::-1]), has_sentinel=True
        ),
    ):
        index.validate()
        check_probes(index, runs_of(hashes), [*stored, *others])


@settings(deadline=None)
@given(
    st.sampled_from([LOW, -3, 0, 1 << 40, HIGH - 30]),
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.lists(one_hash, max_size=50),
)
def test_dense_keys_are_found_as_in_a_dictionary(
    least: int, stored: list[int], others: list[int]
) -> None:
    keys = ascending([least + number for number in stored])
    index = HashIndex.of_dense(keys)
    index.validate()
    check_probes(index, runs_of(keys), [*keys.tolist(), *others, LOW, HIGH])


@pytest.mark.parametrize(
    ("keys", "dense"),
    [([7], True), ([0, 7], True), ([0, 8], False), ([LOW, HIGH], False), ([5, 1, 5, 16], True)],
)
def test_keys_are_dense_with_less_than_four_numbers_a_row(keys: list[int], dense: bool) -> None:
    assert are_dense(np.array(keys)) == dense


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"hashes": np.array([3, 5, 5, HIGH])}, "does not lead to row 1"),
        ({"shift": 1}, "shift is 1"),
        ({"runs": np.array([1, 2, 1], np.int32)}, "another hash behind row 1"),
    ],
)
def test_broken_invariants_of_dense_keys_are_named(broken: dict[str, Any], says: str) -> None:
    good = HashIndex.of_dense(np.array([3, 4, 5]))
    good.validate()
    with pytest.raises(ValueError, match=says):
        replace(good, **broken).validate()


def test_equal_dense_keys_are_one_run() -> None:
    good = HashIndex.of_dense(np.array([3, 5, 5]))
    good.validate()
    for runs in (None, np.ones(3, np.int32)):
        with pytest.raises(ValueError, match="ends too early at row 1"):
            replace(good, runs=runs).validate()


@settings(max_examples=100, deadline=None)
@given(st.data(), hash_lists)
def test_equal_hashes_of_different_keys_are_separate_runs(
    data: st.DataObject, stored: list[int]
) -> None:
    hashes = ascending(stored)
    n = len(hashes)
    flags = data.draw(st.lists(st.booleans(), min_size=n - 1, max_size=n - 1))
    same_key = (hashes[1:] == hashes[:-1]) & np.array(flags, np.bool_)
    index = HashIndex.build(hashes, same_key)
    index.validate()
    starts = [0, *(np.flatnonzero(~same_key) + 1).tolist()]
    ends = [*starts[1:], n]
    assert index.run_lengths(np.array(starts)).tolist() == np.subtract(ends, starts).tolist()
    assert index.next_run(np.array(starts)).tolist() == ends
    rows, _ = index.probe(hashes)
    # A probe finds the first run of its hash; the caller steps on with next_run.
    assert rows.tolist() == [runs_of(hashes)[int(hash_)][0] for hash_ in hashes]


@pytest.mark.parametrize("spread", ["even", "ends", "one cluster", "cluster and ends"])
def test_large_tables_of_any_spread_are_found_whole(spread: str) -> None:
    random = np.random.default_rng(7)
    even = random.integers(LOW, HIGH, 20_000, np.int64, endpoint=True)
    cluster = np.arange(20_000, dtype=np.int64) * 3 + (1 << 50)
    hashes = {
        "even": even,
        "ends": np.array([LOW, LOW, HIGH, HIGH], np.int64),
        "one cluster": cluster,
        "cluster and ends": np.concatenate([[LOW], cluster[:2_000], [HIGH]]).astype(np.int64),
    }[spread]
    hashes = np.sort(hashes)
    index = HashIndex.build(hashes)
    index.validate()
    probes = np.concatenate([hashes, hashes + 1, np.array(SPECIAL, np.int64), even[:100]])
    check_probes(index, runs_of(hashes), probes.tolist())


@settings(max_examples=50, deadline=None)
@given(hash_lists)
def test_the_directory_is_at_most_twice_as_long_as_the_table(stored: list[int]) -> None:
    index = HashIndex.build(ascending(stored))
    assert len(index.directory) <= 2 * index.rows + 2


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"hashes": np.array([HIGH], np.int64)}, "0 rows"),
        ({"hashes": np.array([5, 1, HIGH], np.int64)}, "fall at row 1"),
        ({"hashes": np.array([1, 5, 7], np.int64)}, "sentinel"),
        ({"base": 1}, "base"),
        ({"base": -1}, "base"),
        ({"shift": -1}, "shift"),
        ({"shift": 64}, "shift"),
        ({"shift": 0}, "4 entries instead of 6"),
        ({"directory": np.array([0, 1, 1, 1], np.int32)}, "0 to 1 instead of 0 to 2"),
        ({"directory": np.array([1, 1, 1, 2], np.int32)}, "1 to 2 instead of 0 to 2"),
        ({"directory": np.array([0, -1, 1, 2], np.int32)}, "falls at entry 1"),
        ({"directory": np.array([0, 0, 0, 2], np.int32)}, "does not lead to row 0"),
        ({"directory": np.array([0, 2, 2, 2], np.int32)}, "does not lead to row 1"),
        ({"directory": np.array([0, 2], np.int32)}, "2 entries instead of 4"),
        ({"runs": np.array([1], np.int32)}, "1 lengths of runs for 2 rows"),
        ({"runs": np.array([3, 1], np.int32)}, "wrong length at row 0"),
        ({"runs": np.array([2, 1], np.int32)}, "another hash behind row 0"),
        ({"runs": np.array([0, 1], np.int32)}, "no rows at row 0"),
        ({"runs": np.array([1, 2], np.int32)}, "last row has 2 rows"),
    ],
)
def test_broken_invariants_are_named(broken: dict[str, Any], says: str) -> None:
    good = HashIndex.build(np.array([1, 5], np.int64))
    good.validate()
    index = replace(good, **broken)
    with pytest.raises(ValueError, match=says):
        index.validate()
