"""Batches are bounded in rows and in bytes, whatever the rows are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from stored_tables import put, store
from test_full_cache import plan_of

from bsjoin.plan import StageColumn, StageJoin, StagePlan
from bsjoin.runtimes.python.worker import batch_sizes
from bsjoin.runtimes.python.worker.batch_sizes import Cutter, together
from bsjoin.runtimes.python.worker.chain import joined
from bsjoin.runtimes.python.worker.chain_rows import Rows
from bsjoin.storage import StorageLocation

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
    most = batch_sizes.MOST_ROWS
    longer = pa.record_batch({"n": range(2 * most + 5)})
    sizes = [batch.num_rows for batch in together([longer, small.select(["n"])], 1)]
    assert sizes == [most, most, 5, 10]


def read(rows: Rows) -> list[pa.Array]:
    return [rows.sent(0), rows.sent(1)]


def test_what_does_not_fit_into_an_array_is_halved() -> None:
    def columns(rows: Rows) -> list[pa.Array]:
        if len(rows) > 40:
            raise pa.ArrowInvalid("input array too large")
        return read(rows)

    parts = list(Cutter(columns).batches(Rows(batch_of(*[1] * 90))))
    assert [n for numbers, _ in parts for n in numbers.to_pylist()] == list(range(90))

    def never(rows: Rows) -> list[pa.Array]:
        raise pa.ArrowInvalid("whatever there is")

    with pytest.raises(pa.ArrowInvalid, match="whatever"):
        list(Cutter(never).batches(Rows(batch_of(1, 1, 1))))


def test_a_join_of_large_texts_leaves_in_small_batches(tmp_path: Path) -> None:
    """A key of 1,000 rows of 1 KiB, and texts in the stream: 5 of its rows match all of them."""
    location = StorageLocation.of(tmp_path)
    texts = pa.table({"v": [f"{n:04d}" * 256 for n in range(1000)]})
    put(location, store(location, [7] * 1000, texts), 1, 1)
    row_type = pa.struct([pa.field("c0", pa.string())])
    plan = plan_of(location, "rows", columns=("v",), row_type=row_type, epoch=1)
    join = StageJoin(plan=plan, hash=StageColumn(None, 2), key=(), probes=(), clock=None)
    hashes = [7, 8] * 5
    stream = pa.record_batch({"n": range(10), "t": ["y" * 2 * KIB] * 10, "h": hashes})
    found = list(joined(StagePlan(stream_columns=2, joins=(join,)), iter([stream])))
    assert max(batch.nbytes for batch in found) <= 64 * KIB
    rows = [row for batch in found for row in zip(*batch.to_pydict().values(), strict=True)]
    wanted = [(n, "y" * 2 * KIB, v) for n in range(0, 10, 2) for v in texts["v"].to_pylist()]
    wanted += [(n, "y" * 2 * KIB, None) for n in range(1, 10, 2)]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
