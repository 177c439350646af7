"""Boxes in numpy: a nested loop is the oracle; and what a damaged index is refused for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bsjoin.index import GREATEST, LEAST, BoxIndex, Sides, box_shares

ENDS = (LEAST, LEAST + 1, GREATEST - 1, GREATEST)


def _sides(random: Any, rows: int, dimensions: int) -> list[Sides]:
    found = []
    for _ in range(dimensions):
        low = random.choice(np.array([*range(50), *ENDS]), rows)
        high = np.where(random.random(rows) < 0.1, GREATEST, low // 2 * 2 + random.integers(-1, 6))
        found.append((low, high))
    return found


def _sorted(sides: Sequence[Sides], starts: Any) -> list[Sides]:
    """The rows of each group by their first code."""
    rows = len(sides[0][0])
    group = np.searchsorted(starts, np.arange(rows), "right")
    order = np.lexsort((sides[0][0], group))
    return [(low[order], high[order]) for low, high in sides]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_pairs_are_those_of_a_nested_loop(dimensions: int, request: pytest.FixtureRequest) -> None:
    random = np.random.default_rng(int(request.config.option.hypothesis_seed or 0))
    for rows in (1, 7, 8, 9, 64, 65, 600):
        starts = np.unique([0, *random.integers(0, rows, rows // 90)])
        ends = np.append(starts[1:], rows)
        sides = _sorted(_sides(random, rows, dimensions), starts)
        group = random.integers(0, len(starts), 60)
        lows, highs = starts[group], np.where(random.random(60) < 0.1, starts[group], ends[group])
        probes = _sides(random, 60, dimensions)
        met = np.ones((60, rows), np.bool_)
        for (low, high), (first, last) in zip(sides, probes, strict=True):
            met &= (low <= last[:, None]) & (high >= first[:, None]) & (low <= high)
        places = np.arange(rows)
        met &= (places >= lows[:, None]) & (places < highs[:, None])
        runs = (np.repeat(ends, ends - starts) - places).astype(np.int32)
        cheap = box_shares(sides, sides, starts)
        for shares in (cheap, (0.0,) * dimensions, (1.0, *[0.0] * (dimensions - 1))):
            index = BoxIndex.build(sides, starts, shares)
            index.validate(runs)
            for most in (1, 5, 1 << 16):
                found, before = [], -1
                for which, some in index.pairs(probes, lows, highs, most):
                    assert 0 < len(which) <= most
                    assert which[0] >= before
                    assert (np.diff(which) >= 0).all()
                    before = which[-1]
                    found += zip(which.tolist(), some.tolist(), strict=True)
                assert sorted(found) == [tuple(pair) for pair in np.argwhere(met).tolist()]


def test_a_damaged_index_is_refused() -> None:
    random, starts = np.random.default_rng(1), np.array([0, 70])
    index = BoxIndex.build(_sorted(_sides(random, 200, 2), starts), starts, (0.1, 0.1))
    runs = np.concatenate([np.arange(70, 0, -1), np.arange(130, 0, -1)]).astype(np.int32)

    def refused(what: str, order: Any = None, bounds: Any = None, many: Any = None) -> None:
        changed = BoxIndex(
            index.order.copy() if order is None else order,
            index.bounds.copy() if bounds is None else bounds,
        )
        with pytest.raises(ValueError, match=what):
            changed.validate(runs if many is None else many)

    for place, row, what in [
        (3, 200, "no such row at place 3"),
        (3, -1, "no such row at place 3"),
        (3, 70, "row of another key is at place 3"),
        (3, int(index.order[4]), "the order lacks row"),
    ]:
        order = index.order.copy()
        order[place] = row
        refused(what, order=order)
    hull = index.bounds.copy()
    hull[25, 1, 1, 2] -= 1
    refused("bounds are wrong of block 2", bounds=hull)
    fill = index.bounds.copy()
    fill[28, 0, 0, 7] = 0
    refused("not filled up", bounds=fill)
    refused("200 rows in 29 blocks", bounds=index.bounds[:-1])
    refused("200 rows in 30 blocks, not 199", many=runs[:199])
