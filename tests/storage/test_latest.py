"""The latest rows of a key are chosen as a sort of plain tuples chooses them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from bsjoin.storage import segment_writer
from bsjoin.storage.latest import Latest, PickedRows
from bsjoin.storage.ties import Tie


@pytest.mark.parametrize("seed", range(12))
def test_positions_are_those_of_a_sort(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys with the same hash are told apart; pieces are as small as they can be."""
    monkeypatch.setattr(segment_writer, "_AT_ONCE", 1 + seed % 3)
    draw = random.Random(seed)
    many, keep = draw.choice([1, 2, 30, 100]), draw.choice([1, 2, 5])
    keys = [draw.choice(["a", "b", "c", "d"]) for _ in range(many)]
    values = [draw.choice([None, 1, 2, 3]) for _ in range(many)]
    hashes = np.array([{"a": 7, "b": 7, "c": -1, "d": 9}[key] for key in keys])
    rows = pa.table({"k": keys, "v": pa.array(values, pa.int64()), "n": range(many)})
    ties = (Tie(1, descending=True, nulls_last=True), Tie(2))
    latest = Latest(1, ties, keep)
    order = sorted(range(many), key=lambda i: (keys[i], -(values[i] or 0), i))
    wanted: dict[str, list[int]] = {}
    for row in order:
        wanted.setdefault(keys[row], []).append(row)
    found = latest.positions(hashes, rows)
    if found is None:
        assert len(set(hashes.tolist())) == many
        return
    by_key: dict[str, list[int]] = {}
    for row in found.tolist():
        by_key.setdefault(keys[row], []).append(row)
    assert by_key == {key: those[:keep] for key, those in wanted.items()}
    in_order = hashes.take(found)
    assert (in_order[1:] >= in_order[:-1]).all()
    picked = PickedRows(in_order, rows, found)
    assert picked.num_columns == 3
    assert picked.column(2).to_pylist() == found.tolist()
    assert picked.given_hashes() is in_order
    assert len(picked.given_hashes()) == 0
