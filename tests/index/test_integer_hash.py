"""The hash of an integer against the library for xxHash, and its inverse."""

from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST, hashes_of_integers, integers_of_hashes


@given(st.lists(st.integers(LEAST, GREATEST) | st.integers(-9, 9), max_size=50))
def test_hashes_are_those_of_xxh64_and_lead_back(numbers: list[int]) -> None:
    integers = np.array(numbers, np.int64)
    hashes = hashes_of_integers(integers)
    expected = [xxhash.xxh64_intdigest(n.to_bytes(8, "little", signed=True), 42) for n in numbers]
    assert hashes.view(np.uint64).tolist() == expected
    assert integers_of_hashes(hashes).tolist() == numbers
