"""The hash index against a dictionary; hashes of integers against the library for xxHash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bsjoin.index import (
    HashIndex,
    hashes_of_integers,
    integers_of_hashes,
    with_sentinel,
)

LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SPECIAL = [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]


@st.composite
def clustered(draw: st.DrawFn) -> int:
    """A hash near one of three places, so that a few buckets hold nearly all rows."""
    return draw(st.sampled_from([LOW, -(1 << 40), 1 << 62])) + draw(st.integers(0, 50))


one_hash = st.one_of(
    st.integers(LOW, HIGH), st.sampled_from(SPECIAL), clustered(), st.integers(-5, 5)
)
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


@settings(max_examples=15, deadline=None)
@given(hash_lists, st.lists(one_hash, max_size=100))
def test_probes_find_what_a_dictionary_finds(stored: list[int], others: list[int]) -> None:
    hashes = ascending(stored)
    turned = with_sentinel(hashes[::-1], np.arange(len(hashes))[::-1])
    for index in (HashIndex.build(hashes), HashIndex.build(turned, has_sentinel=True)):
        index.validate()
        assert len(index.directory) <= 2 * index.rows + 2
        check_probes(index, runs_of(hashes), [*stored, *others])


def int32s(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, np.int32)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"hashes": np.array([HIGH])}, "0 rows"),
    ({"hashes": np.array([5, 1, HIGH])}, "fall at row 1"),
    ({"hashes": np.array([1, 5, 7])}, "sentinel"),
    ({"base": 1}, "base"),
    ({"base": -1}, "base"),
    ({"shift": -1}, "shift"),
    ({"shift": 64}, "shift"),
    ({"shift": 0}, "4 entries instead of 6"),
    ({"directory": int32s(0, 1, 1, 1)}, "0 to 1 instead of 0 to 2"),
    ({"directory": int32s(1, 1, 1, 2)}, "1 to 2 instead of 0 to 2"),
    ({"directory": int32s(0, -1, 1, 2)}, "falls at entry 1"),
    ({"directory": int32s(0, 0, 0, 2)}, "does not lead to row 0"),
    ({"directory": int32s(0, 2, 2, 2)}, "does not lead to row 1"),
    ({"directory": int32s(0, 2)}, "2 entries instead of 4"),
    ({"runs": int32s(1)}, "1 lengths of runs for 2 rows"),
    ({"runs": int32s(3, 1)}, "wrong length at row 0"),
    ({"runs": int32s(2, 1)}, "another hash behind row 0"),
    ({"runs": int32s(0, 1)}, "no rows at row 0"),
    ({"runs": int32s(1, 2)}, "last row has 2 rows"),
]
BROKEN_DENSE: list[tuple[list[int], dict[str, Any], str]] = [
    ([3, 4, 5], {"hashes": np.array([3, 5, 5, HIGH])}, "does not lead to row 1"),
    ([3, 4, 5], {"shift": 1}, "shift is 1"),
    ([3, 4, 5], {"runs": int32s(1, 2, 1)}, "another hash behind row 1"),
    ([3, 5, 5], {"runs": None}, "ends too early at row 1"),  # equal dense keys are one run
    ([3, 5, 5], {"runs": int32s(1, 1, 1)}, "ends too early at row 1"),
]


def test_broken_invariants_are_named() -> None:
    scattered = HashIndex.build(np.array([1, 5], np.int64))
    dense = [(HashIndex.build(np.array(keys), dense=True), *rest) for keys, *rest in BROKEN_DENSE]
    for good, broken, says in [*((scattered, *one) for one in BROKEN), *dense]:
        good.validate()
        with pytest.raises(ValueError, match=says):
            replace(good, **broken).validate()


@given(st.lists(st.integers(LOW, HIGH) | st.integers(-9, 9), max_size=50))
def test_hashes_are_those_of_xxh64_and_lead_back(numbers: list[int]) -> None:
    hashes = hashes_of_integers(np.array(numbers, np.int64))
    expected = [xxhash.xxh64_intdigest(n.to_bytes(8, "little", signed=True), 42) for n in numbers]
    assert hashes.view(np.uint64).tolist() == expected
    assert integers_of_hashes(hashes).tolist() == numbers
