"""Aggregates of runs of rows: those of a loop, for runs of any length and columns of any size."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from bsjoin.index import AggregateTree, Part, codes
from bsjoin.index.aggregate_tree import BLOCK, FAN

SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK * FAN, BLOCK * FAN + 1, 3 * BLOCK * FAN**2 + 7)
MOST = 2**63


def column(kind: str, size: int, random: np.random.Generator) -> NDArray[Any]:
    """Values whose sums do not fit into 64 bits, or with NaN and infinities."""
    if kind == "int64":
        return random.integers(-MOST, MOST, size)
    if kind == "decimal":  # the lower halves of 128 bits
        return np.repeat(random.integers(-MOST, MOST, size), 2)[::2]
    if kind == "int8":
        return random.integers(-128, 128, size).astype(np.int8)
    values = random.normal(size=size).round(3)
    values[random.random(size) < 0.001] = np.nan
    values[random.random(size) < 0.001] = -np.inf
    values[random.random(size) < 0.01] = -0.0
    return values.astype(kind)


def of_loop(values: NDArray[Any]) -> dict[str, Any]:
    """The same of all of some values, one after the other."""
    found: dict[str, Any] = {"count": len(values)}
    if values.dtype.kind == "f":
        found["total"] = float(values.astype(np.float64).sum())
    else:
        found["sum"] = sum(values.tolist())
    encoded = codes(values).tolist()
    return found | {
        "least": min(encoded, default=MOST - 1),
        "greatest": max(encoded, default=-MOST),
    }


@pytest.mark.parametrize("kind", ["int64", "decimal", "int8", "float64", "float32"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_runs_have_the_aggregates_of_their_rows(kind: str) -> None:
    random = np.random.default_rng(7)
    floating = kind.startswith("float")
    wide = ["total", "whole"]
    others = {"int64": wide, "decimal": wide, "int8": ["total"]}.get(kind, ["whole", "high", "low"])
    parts = [part for part in get_args(Part) if part not in others]
    for size in SIZES:
        values = column(kind, size, random)
        there = random.random(size) < 0.7
        there[: 2 * BLOCK] = False  # a block of nulls
        offset = size % 8
        bits = np.concatenate([np.ones(offset, np.bool_), there])
        ends = np.sort(random.integers(0, size + 1, (2, 60)), axis=0)
        whole = np.array([[0, size], [size, size]])
        firsts, stops = np.concatenate([ends, whole], axis=1)
        for valid in (None, np.packbits(bits, bitorder="little")):
            tree = AggregateTree(values, valid, 0 if valid is None else offset)
            got = tree.of(parts, firsts, stops)
            for run, (first, stop) in enumerate(zip(firsts, stops, strict=True)):
                some = values[first:stop]
                wanted = of_loop(some if valid is None else some[there[first:stop]])
                found: dict[str, Any] = {part: got[part][run].item() for part in parts}
                if floating:
                    total = wanted.pop("total")
                    same = pytest.approx(total, rel=1e-9, abs=1e-9, nan_ok=True)
                    assert found.pop("total") == same, (size, first, stop)
                else:
                    found["sum"] = found.pop("high") * 2**32 + found.pop("low")
                    assert found.pop("whole", found["sum"]) == found["sum"]
                assert found == wanted, (kind, size, first, stop, valid is None)


def test_a_sum_loses_nothing_to_what_is_outside_of_its_rows() -> None:
    values = np.ones(10_000)
    values[[0, 9_999]] = 1e300, np.inf
    found = AggregateTree(values).of(["total"], np.array([1, 2_000]), np.array([9_999, 2_003]))
    assert found["total"].tolist() == [9_998.0, 3.0]
