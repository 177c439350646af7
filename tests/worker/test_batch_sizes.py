"""Batches are bounded in rows and in bytes, whatever the rows are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from stored_tables import put, store

from bsjoin._plan import JoinPlan, Output, Runtime, StageColumn, StageJoin, StagePlan, StoredTable
from bsjoin.store import StorageLocation, versions
from bsjoin.worker import batch_sizes
from bsjoin.worker.batch_sizes import Cutter, together
from bsjoin.worker.chain import joined
from bsjoin.worker.chain_rows import Rows

KIB = 1 << 10


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "MOST_BYTES", 64 * KIB)
    monkeypatch.setattr(batch_sizes, "_FEW", 100)


def batch_of(*sizes: int) -> pa.RecordBatch:
    return pa.record_batch({"n": range(len(sizes)), "t": ["x" * size for size in sizes]})


def test_batches_are_put_together_up_to_some_rows_or_bytes() -> None:
    small, large = batch_of(*[1] * 10), batch_of(*[KIB] * 40)
    sizes = [batch.num_rows for batch in together([small] * 5, 20)]
    assert sizes == [20, 20, 10]
    sizes = [batch.num_rows for batch in together([large] * 5, 10_000)]
    assert sizes == [80, 80, 40]
    assert [batch.num_rows for batch in together([large, small.slice(0, 0), small], 1)] == [40, 10]


@pytest.mark.parametrize("size", [0, 10, KIB, 100 * KIB])
def test_parts_have_few_enough_bytes(size: int) -> None:
    batch = batch_of(*[size] * 300)
    parts = list(Cutter(lambda rows: [rows.sent(0), rows.sent(1)]).parts(Rows(batch)))
    numbers = [n for part in parts for n in part.sent(0).to_pylist()]
    assert numbers == list(range(300))
    most = max(part.sent(0).nbytes + part.sent(1).nbytes for part in parts)
    assert most <= max(64 * KIB, size + 16)
    assert len(parts) == (1 if size <= 10 else -(-300 // max(1, 64 * KIB // (size + 12))))


def test_columns_of_numbers_are_sampled_once() -> None:
    read: list[int] = []

    def columns(rows: Rows) -> list[pa.Array]:
        read.append(len(rows))
        return [rows.sent(0)]

    cutter, rows = Cutter(columns), Rows(batch_of(*[1] * 300))
    for _ in range(3):
        assert list(cutter.parts(rows)) == [rows]
    assert read == [256]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_of_large_texts_leaves_in_small_batches(tmp_path: Path, how: str) -> None:
    """A key of 1,000 rows of 1 KiB, and texts in the stream: 500 of its rows match all of them."""
    location = StorageLocation.of(tmp_path)
    texts = pa.table({"v": [f"{n:04d}" * 256 for n in range(1000)]})
    put(location, store(location, [7] * 1000, texts), 1, 1)
    row_type = pa.struct([pa.field("c0", pa.string())])
    plan = JoinPlan(
        label="1:k",
        how=how,
        table=StoredTable(
            location=location, epoch=1, version=1, keys=versions.latest(location).keys
        ),
        search=None,
        output=Output(columns=("v",), shape="rows", row_type=row_type, longest_run=1000),
        runtime=Runtime("python", ""),
        reports=False,
    )
    join = StageJoin(plan=plan, hash=StageColumn(None, 2), key=(), probes=(), clock=None)
    hashes = [7, 8] * 5
    stream = pa.record_batch({"n": range(10), "t": ["y" * 2 * KIB] * 10, "h": hashes})
    found = list(joined(StagePlan(carried=2, joins=(join,)), iter([stream])))
    assert max(batch.nbytes for batch in found) <= 64 * KIB
    rows = [row for batch in found for row in zip(*batch.to_pydict().values(), strict=True)]
    wanted = [(n, "y" * 2 * KIB, v) for n in range(0, 10, 2) for v in texts["v"].to_pylist()]
    if how == "left":
        wanted += [(n, "y" * 2 * KIB, None) for n in range(1, 10, 2)]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_types_of_one_size() -> None:
    fixed = [pa.int8(), pa.bool_(), pa.date32(), pa.decimal128(38, 2), pa.null(), pa.binary(3)]
    varying = [pa.string(), pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.string())])]
    for types, is_fixed in ((fixed, True), (varying, False)):
        for dtype in types:
            assert batch_sizes._is_fixed(pa.nulls(1, dtype)) is is_fixed
