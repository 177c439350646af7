"""Answers of the full cache: every shape, every version, and the notes of a look-up."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stored_tables import numbered, put, store

from bsjoin.errors import VersionNotFoundError
from bsjoin.plan import JoinPlan, Shape, StoredTable
from bsjoin.runtimes.python.worker import full_cache, notes, row_refs
from bsjoin.storage import Manifest, StorageLocation, versions

ROOT = Path(__file__).resolve().parents[2]
ROW = pa.struct([pa.field("c0", pa.string()), pa.field("c1", pa.int64())])
NO_COLUMN = pa.struct([pa.field("none", pa.bool_())])


def stored(
    location: StorageLocation, cuts: tuple[int, ...] = (), *, once: bool = False
) -> Manifest:
    """Keys 1 (one row), 2 (three rows, or one) and 4 (one row, all null)."""
    rows = pa.table(
        {
            "text": pa.array(["a", "b", "c", "d", None]),
            "number": pa.array([1, 2, 3, None, None], pa.int64()),
        }
    )
    hashes = [1, 2, 2, 2, 4]
    if once:
        rows, hashes = rows.take([0, 1, 4]), [1, 2, 4]
    return put(location, store(location, hashes, rows, cuts=cuts), 1, 100)


def plan_of(location: StorageLocation, shape: Shape, **changes: Any) -> JoinPlan:
    given = {"version": 1, "columns": ("text", "number"), "row_type": ROW, "epoch": 100, **changes}
    return JoinPlan(
        label=given.get("label", "1:k"),
        how="semi" if shape == "exists" else "left",
        table=StoredTable(
            location=location,
            epoch=given["epoch"],
            version=given["version"],
            keys=versions.latest(location).keys,
        ),
        predicate=None,
        columns=given["columns"],
        shape=shape,
        row_type=given["row_type"],
        reports=given["version"] is None,
    )


def answered(plan: JoinPlan, hashes: list[int | None], time_us: int | None = None) -> pa.Array:
    stamps = (
        None if time_us is None else pa.array([time_us] * len(hashes), pa.timestamp("us", "UTC"))
    )
    return full_cache.answer(plan, pa.array(hashes, pa.int64()), stamps, [])


PROBES = [2, None, 1, 3, 4, 2]
A, B, C, D, NULLS = (
    {"c0": text, "c1": number}
    for text, number in [("a", 1), ("b", 2), ("c", 3), ("d", None), (None, None)]
)


@pytest.mark.parametrize("cuts", [(), (1,), (1, 4)])
def test_exists_is_true_or_false_never_null(
    location: StorageLocation, cuts: tuple[int, ...]
) -> None:
    stored(location, cuts)
    plan = plan_of(location, "exists", columns=(), row_type=NO_COLUMN)
    result = answered(plan, PROBES)
    assert result.to_pylist() == [True, False, True, False, True, True]
    assert result.type == pa.bool_()


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2)])
def test_a_row_is_a_struct_or_null(location: StorageLocation, cuts: tuple[int, ...]) -> None:
    stored(location, cuts, once=True)
    result = answered(plan_of(location, "row"), PROBES)
    # A row whose columns are all null is there; a key that is not in the table is not.
    assert result.to_pylist() == [B, None, A, None, NULLS, B]
    assert result.type == ROW


@pytest.mark.parametrize("cuts", [(), (1,), (1, 4)])
def test_rows_are_a_list_of_structs_or_null(
    location: StorageLocation, cuts: tuple[int, ...]
) -> None:
    stored(location, cuts)
    result = answered(plan_of(location, "rows"), PROBES)
    assert result.to_pylist() == [[B, C, D], None, [A], None, [NULLS], [B, C, D]]
    assert result.type.value_field == pa.field("element", ROW, nullable=False)


@pytest.mark.parametrize("cuts", [(), (1,), (1, 4)])
def test_runs_refer_to_rows_and_gather_fetches_them(
    location: StorageLocation, cuts: tuple[int, ...]
) -> None:
    stored(location, cuts)
    plan = plan_of(location, "runs")
    result = answered(plan, PROBES)
    runs = [run and (run["first"], run["count"]) for run in result.to_pylist()]
    assert runs == [(1, 3), None, (0, 1), None, (4, 1), (1, 3)]
    assert result.type == row_refs.RUN_TYPE

    first, count = pa.array([1, 3, 0, 0, 4]), pa.array([2, 1, 0, 1, 1])
    lists = full_cache.gather(plan, None, first, count)
    assert lists.to_pylist() == [[B, C], [D], None, [A], [NULLS]]
    assert lists.type.value_field == pa.field("element", ROW, nullable=False)


@pytest.mark.parametrize("shape", ["row", "rows"])
def test_without_columns_rows_are_still_counted(location: StorageLocation, shape: Shape) -> None:
    stored(location, once=shape == "row")
    plan = plan_of(location, shape, columns=(), row_type=NO_COLUMN)
    result = answered(plan, [2, 3, 1]).to_pylist()
    there = {"none": None}
    expected = [there, None, there] if shape == "row" else [[there] * 3, None, [there]]
    assert result == expected


@pytest.mark.parametrize("shape", ["exists", "row", "rows", "runs"])
def test_an_empty_batch_has_the_type_of_a_full_one(location: StorageLocation, shape: Shape) -> None:
    stored(location, once=shape == "row")
    plan = plan_of(location, shape)
    nothing = answered(plan, [], time_us=5)
    assert len(nothing) == 0
    assert nothing.type == answered(plan, [1]).type
    no_numbers = pa.array([], pa.int64())
    pieces = full_cache.gather(plan, None, no_numbers, no_numbers)
    assert len(pieces) == 0
    assert pieces.type == answered(plan_of(location, "rows"), [1]).type


def test_an_empty_table_answers_every_shape(location: StorageLocation) -> None:
    empty = pa.table({"text": pa.array([], pa.string()), "number": pa.array([], pa.int64())})
    put(location, store(location, [], empty), 1, 100)
    assert answered(plan_of(location, "exists"), [1, None]).to_pylist() == [False, False]
    for shape in ("row", "rows", "runs"):
        assert answered(plan_of(location, shape), [1, None]).to_pylist() == [None, None]


def follow(location: StorageLocation) -> JoinPlan:
    """A plan of a stream over the tables that :func:`stored_tables.numbered` makes."""
    row_type = pa.struct([pa.field("c0", pa.int64())])
    return plan_of(location, "row", version=None, columns=("v",), row_type=row_type)


def value_at(plan: JoinPlan, time_us: int) -> int:
    (row,) = answered(plan, [0], time_us).to_pylist()
    return int(row["c0"])


def test_a_stream_uses_the_version_of_its_batch_time(location: StorageLocation) -> None:
    put(location, numbered(location, 1), 1, 100)
    plan = follow(location)
    assert value_at(plan, 150) == 1
    put(location, numbered(location, 2), 2, 200)
    assert [value_at(plan, time_us) for time_us in (160, 199, 200, 300)] == [1, 1, 2, 2]
    put(location, numbered(location, 3), 3, 400)
    assert [value_at(plan, time_us) for time_us in (399, 400)] == [2, 3]
    # A replay asks for an earlier time again.
    assert [value_at(plan, time_us) for time_us in (150, 200, 400)] == [1, 2, 3]


def test_an_old_worker_answers_as_a_fresh_one_when_the_clock_was_set_back(
    location: StorageLocation,
) -> None:
    put(location, numbered(location, 1), 1, 100)
    plan = follow(location)
    assert value_at(plan, 1000) == 1
    put(location, numbered(location, 2), 2, 500)  # published by a clock that has gone back
    assert value_at(plan, 600) == 2
    full_cache._tables.clear()
    assert value_at(plan, 600) == 2


def test_the_folder_is_read_once_for_each_time(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(location, numbered(location, 1), 1, 100)
    plan, read = follow(location), []
    real = versions.numbers
    monkeypatch.setattr(versions, "numbers", lambda where: read.append(where) or real(where))
    for time_us in [110, 120] * 3:  # two queries that take turns in a worker
        value_at(plan, time_us)
    assert len(read) == 2


def test_a_version_that_is_not_needed_may_vanish(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        put(location, numbered(location, number), number, number * 100)
    plan, before = follow(location), versions.numbers(location)
    versions.vacuum(location, 1 << 62, keep=1)
    monkeypatch.setattr(versions, "numbers", lambda _: before)  # listed before, read afterwards
    assert value_at(plan, 350) == 3
    with pytest.raises(VersionNotFoundError, match="vacuumed"):
        value_at(plan, 250)


def test_a_vacuumed_version_is_an_error_not_another_version(location: StorageLocation) -> None:
    for number in (1, 2):
        put(location, numbered(location, number), number, number * 100)
    versions.vacuum(location, 1 << 62, keep=1)
    with pytest.raises(VersionNotFoundError, match="vacuumed"):
        value_at(follow(location), 150)
    with pytest.raises(VersionNotFoundError, match="version 1"):
        answered(plan_of(location, "row"), [0])


def test_a_worker_that_has_a_vacuumed_version_open_still_answers_from_it(
    location: StorageLocation,
) -> None:
    for number in (1, 2):
        put(location, numbered(location, number), number, number * 100)
    plan = follow(location)
    assert (value_at(plan, 150), value_at(plan, 250)) == (1, 2)
    versions.vacuum(location, 1 << 62, keep=1)
    assert (value_at(plan, 150), value_at(plan, 250)) == (1, 2)


def test_a_table_built_anew_at_the_same_path_is_another_table(location: StorageLocation) -> None:
    put(location, numbered(location, 1), 1, 100)
    old = follow(location)
    assert value_at(old, 150) == 1
    for folder in ("versions", "data"):
        location.remove(folder)
    put(location, numbered(location, 7), 1, 900)
    row_type = pa.struct([pa.field("c0", pa.int64())])
    new = plan_of(location, "row", epoch=900, version=None, columns=("v",), row_type=row_type)
    assert value_at(new, 950) == 7


def test_a_note_reports_once_what_was_looked_up_since_the_last(location: StorageLocation) -> None:
    stored(location, once=True)
    plan = plan_of(location, "row", version=None)
    answered(plan, [1, 2], time_us=500)
    answered(plan, [1], time_us=500)
    (first, *others) = notes.fetch(plan.label, 3).to_pylist()
    reported = json.loads(f"[{first}]")
    assert len(reported) == 2
    for one in reported:
        assert one["ns"] > 0
        assert one["version"] == 1
    assert others == [None, None]
    again = notes.fetch(plan.label, 2)
    assert again.to_pylist() == [None, None]
    assert again.type == pa.string()


def test_a_plan_travels_small_and_compares_equal(location: StorageLocation) -> None:
    stored(location)
    plan = plan_of(location, "rows")
    answered(plan, [1])  # what is opened stays with the process, not with the plan
    shipped = pickle.dumps(plan)
    assert len(shipped) < 2_000
    again = pickle.loads(shipped)
    assert again == plan
    assert answered(again, [1]).to_pylist() == [[A]]


def test_a_plan_answers_in_a_process_that_has_no_spark(location: StorageLocation) -> None:
    stored(location)
    code = (
        "import pickle, sys; import pyarrow as pa\n"
        "from bsjoin.runtimes.python.worker import full_cache\n"
        "plan = pickle.loads(sys.stdin.buffer.read())\n"
        "print(full_cache.answer(plan, pa.array([2, 3]), None, []).to_pylist())\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(plan_of(location, "rows")),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    assert done.stdout.decode().strip() == str([[B, C, D], None])
