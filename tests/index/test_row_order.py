"""The order of rows by group and value: that of ``np.lexsort``."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsjoin.index import row_order

ENDS = [-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1]
NUMBERS = st.sampled_from(ENDS) | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_any_numbers(rows: list[tuple[int, int]]) -> None:
    groups, values = np.array(rows, np.int64).reshape(-1, 2).T
    assert row_order(groups, values).tolist() == np.lexsort((values, groups)).tolist()
