"""An open table of several segments against brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_tables import store

from bsjoin.storage import StorageLocation
from bsjoin.storage.open_table import OpenTable

LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
HASHES = st.sampled_from([LOW, LOW + 1, -7, -1, 0, 1, 2, 3, 1 << 40, HIGH - 1, HIGH])
TEXTS = st.sampled_from(["", "a", "b", "ä"])


@dataclass(frozen=True)
class Sample:
    """A stored table and the rows that are in it, in their order."""

    table: OpenTable
    keys: list[tuple[int, str]]
    payload: list[str | None]

    def first(self, key: tuple[int, str] | None) -> int:
        return self.keys.index(key) if key in self.keys else -1


def sample(
    location: StorageLocation, keys: list[tuple[int, str]], compared: int, cut_hashes: set[int]
) -> Sample:
    """Store rows with these keys; a segment begins wherever a hash of ``cut_hashes`` does."""
    keys = sorted(keys)
    hashes = [hash_ for hash_, _ in keys]
    payload = [None if i % 5 == 4 else f"row {i} " * (i % 3) for i in range(len(keys))]
    columns = {"k0": pa.array([text for _, text in keys], pa.string())} if compared else {}
    rows = pa.table(
        {
            **columns,
            "v": pa.array(payload, pa.string()),
            "n": pa.array(range(len(keys)), pa.int64()),
            "l": pa.array([[i] * (i % 4) for i in range(len(keys))], pa.list_(pa.int64())),
        }
    )
    cuts = sorted({hashes.index(hash_) for hash_ in cut_hashes & set(hashes)} - {0})
    manifest = store(location, hashes, rows, compared=compared, cuts=cuts)
    assert len(manifest.segments) == (len(cuts) + 1 if keys else 0)
    return Sample(OpenTable(location, manifest), keys, payload)


def look_up(table: OpenTable, keys: list[tuple[int, str] | None], compared: int) -> np.ndarray:
    """Find keys that arrive as slices of larger arrays, as Arrow may hand them over."""
    padded = [(1, "a"), *keys, None]
    hashes = pa.array([key and key[0] for key in padded], pa.int64()).slice(1, len(keys))
    texts = pa.array([key and key[1] for key in padded], pa.string()).slice(1, len(keys))
    return table.find(hashes, [texts] if compared else [])


@pytest.mark.parametrize("compared", [0, 1])
@settings(deadline=None)
@given(data=st.data())
def test_find_run_lengths_and_gather_agree_with_brute_force(
    tmp_path_factory: pytest.TempPathFactory, compared: int, data: st.DataObject
) -> None:
    key = st.tuples(HASHES, TEXTS if compared else st.just(""))
    stored = data.draw(st.lists(key, min_size=1, max_size=40))
    cuts = data.draw(st.sets(HASHES, max_size=6))
    model = sample(StorageLocation.of(tmp_path_factory.mktemp("table")), stored, compared, cuts)
    probes = data.draw(st.lists(st.one_of(st.none(), key, st.sampled_from(stored)), min_size=1))

    rows = look_up(model.table, probes, compared)
    assert rows.tolist() == [model.first(probe) for probe in probes]

    counts = model.table.run_lengths(rows)
    assert counts.tolist() == [model.keys.count(probe) for probe in probes]

    texts, numbers = model.table.gather(("v", "n"), rows)
    assert numbers.to_pylist() == [row if row >= 0 else None for row in rows.tolist()]
    assert texts.to_pylist() == [model.payload[row] if row >= 0 else None for row in rows.tolist()]
