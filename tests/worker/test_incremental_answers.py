"""The keys of several Arrow batches are looked up at once, and answered batch by batch."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model, until

from bsjoin.cache import CacheLimits
from bsjoin.errors import LookupFailedError
from bsjoin.metrics.join_metrics import JoinMetrics
from bsjoin.metrics.lines import read
from bsjoin.plan import JoinPlan, RetryPolicy, Shape, SourceTable
from bsjoin.runtimes.python.worker import incremental_cache
from bsjoin.runtimes.python.worker.hashing import xxhash64
from bsjoin.runtimes.python.worker.incremental_cache import answers
from bsjoin.sources.invalidation import InvalidationLog
from bsjoin.storage import StorageLocation

LARGE = "x" * 50_000
KEYS = pa.schema([("k", pa.int64())])
BATCHES: list[list[int | None]] = [[1, 2, None], [], [2, 2, 9], [None], [1, 3], []]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path / "model", pa.table({"k": [1, 2], "v": ["one", LARGE]}))


def plan(tmp_path: Path, model: Model, shape: Shape, *, reports: bool) -> JoinPlan:
    names = [] if shape == "exists" else ["v"]
    table = SourceTable(
        token=f"{tmp_path.name}-{shape}-{reports}",
        database=f"{tmp_path.name}-{shape}-{reports}",
        source=model,
        keys=KEYS,
        exact=True,
        payload=pa.schema([(name, pa.string()) for name in names]),
        unique=shape == "row",
        limits=CacheLimits(max_rows=100),
        retry_policy=RetryPolicy(
            retries=0, backoff_s=0.1, max_connections=1, on_error="fail", failure_cooldown_s=1
        ),
        invalidation_log=InvalidationLog(StorageLocation.of(tmp_path / "invalidations"), KEYS),
        warm_up=None,
        folder=str(tmp_path / "cache"),
    )
    row_type = pa.struct([pa.field(f"c{i}", pa.string()) for i in range(len(names))])
    return JoinPlan(
        label=f"{tmp_path}:{shape}",
        how="left",
        table=table,
        predicate=None,
        columns=tuple(names),
        shape=shape,
        row_type=row_type,
        reports=reports,
    )


def batches() -> list[tuple[pa.Array, pa.Array]]:
    keys = [pa.array(keys, pa.int64()) for keys in BATCHES]
    hashes = [xxhash64([pa.array([k or 0 for k in some], pa.int64())]) for some in BATCHES]
    return [
        (pa.array(hash_, pa.int64(), mask=key.is_null().to_numpy(zero_copy_only=False)), key)
        for hash_, key in zip(hashes, keys, strict=True)
    ]


def answered(shape: Shape) -> list[list[Any]]:
    row: dict[int | None, Any] = {1: {"c0": "one"}, 2: {"c0": LARGE}}
    if shape == "exists":
        return [[key in row for key in keys] for keys in BATCHES]
    found = row if shape == "row" else {key: [value] for key, value in row.items()}
    return [[found.get(key) for key in keys] for keys in BATCHES]


@pytest.mark.parametrize("shape", ["exists", "row", "rows"])
def test_batches_are_looked_up_at_once_and_answered_one_by_one(
    tmp_path: Path, model: Model, shape: Shape
) -> None:
    found = list(answers(plan(tmp_path, model, shape, reports=False), batches()))
    assert [array.to_pylist() for array in found] == answered(shape)
    assert [sorted(look_up.keys) for look_up in model.asked] == [[1, 2, 3, 9]]
    # What a batch does not need is not in its answer: many large rows would not fit.
    small = [array for keys, array in zip(BATCHES, found, strict=True) if 2 not in keys]
    assert all(array.get_total_buffer_size() < len(LARGE) for array in small)


def test_one_note_reports_all_batches(tmp_path: Path, model: Model) -> None:
    joined = plan(tmp_path, model, "row", reports=True)
    for misses in (7, 0):
        found = list(answers(joined, batches()))
        pairs = [row for array in found for row in array.to_pylist()]
        assert [pair["answer"] for pair in pairs] == [
            row for some in answered("row") for row in some
        ]
        (note,) = [pair["note"] for pair in pairs if pair["note"] is not None]
        ((metrics,),) = read(JoinMetrics, note)
        (of_cache,) = metrics.cache
        assert (of_cache.misses, of_cache.rows) == (misses, 4)
        assert metrics.rows_in == len(pairs)
        assert metrics.lookup_ns > 0
    assert len(model.asked) == 1


def test_the_next_keys_arrive_while_the_source_answers(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental_cache, "LOOKED_UP_TOGETHER", 2)
    joined = plan(tmp_path, model, "row", reports=False)
    taken: list[int] = []

    def watched() -> Iterator[tuple[pa.Array, pa.Array]]:
        for number, batch in enumerate(batches()):
            taken.append(number)
            if number == 2:  # the second look-up, while the first one waits
                until(lambda: model.begun, "the first look-up")
                assert not model.asked
                (model.folder / "hold").unlink()
            yield batch

    with model.held():
        found = [array.to_pylist() for array in answers(joined, watched())]
    assert found == answered("row")
    assert taken == list(range(len(BATCHES)))
    # Keys of a look-up in progress are not asked for again.
    assert dict(model.times) == dict.fromkeys([1, 2, 3, 9], 1)
    assert len(model.asked) == 3


def test_an_error_of_a_look_up_in_progress_reaches_the_task(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental_cache, "LOOKED_UP_TOGETHER", 2)
    joined = plan(tmp_path, model, "row", reports=False)
    model.fail(1)
    with pytest.raises(LookupFailedError, match="out of order"):
        list(answers(joined, batches()))
    # The next task has all rows: no claim is left, and no answer of the failed one.
    assert [array.to_pylist() for array in answers(joined, batches())] == answered("row")


def test_a_task_that_ends_early_leaves_no_claim(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental_cache, "LOOKED_UP_TOGETHER", 2)
    joined = plan(tmp_path, model, "row", reports=False)
    task = answers(joined, batches())
    assert next(task).to_pylist() == answered("row")[0]
    del task
    assert [array.to_pylist() for array in answers(joined, batches())] == answered("row")
    assert dict(model.times) == dict.fromkeys([1, 2, 3, 9], 1)


def test_many_joins_use_up_neither_files_nor_connections(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one in every micro-batch: a worker lets go of those that it has not used lately."""
    kept = incremental_cache._workers.maxsize
    monkeypatch.setattr(incremental_cache, "_workers", incremental_cache._Workers(maxsize=2))

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    first, counts = plan(tmp_path, model, "row", reports=False), [open_files()]
    assert isinstance(first.table, SourceTable)
    for number in range(4):
        name = f"{tmp_path.name}-{number}"
        joined = replace(first, table=replace(first.table, token=name, database=name))
        assert [array.to_pylist() for array in answers(joined, batches())] == answered("row")
        counts.append(open_files())
    assert counts[0] < counts[1] < counts[2]
    assert kept * (counts[2] - counts[0]) / 2 < 800
    until(lambda: open_files() <= counts[2], "files to be closed")
