"""Answers of the full cache: every shape, every version, and the notes of a look-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stored_tables import numbered, put, store

from bsjoin._clock import now_us
from bsjoin.errors import DuplicateKeyError, TableMismatchError, VersionNotFoundError
from bsjoin.plan import JoinPlan, Shape, StoredTable
from bsjoin.runtimes.python.worker import full_cache, row_refs
from bsjoin.storage import KeyColumn, StorageLocation, versions
from bsjoin.storage.versioned_folder import VersionedFolder

ROW = pa.struct([pa.field("c0", pa.string()), pa.field("c1", pa.int64())])
NO_COLUMN = pa.struct([pa.field("none", pa.bool_())])


def stored(
    location: StorageLocation, cuts: tuple[int, ...] = (), *, once: bool = False
) -> StorageLocation:
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
    put(location, store(location, hashes, rows, cuts=cuts), 1, 100)
    return location


def plan_of(location: StorageLocation, shape: Shape, **changes: Any) -> JoinPlan:
    given = {"version": 1, "columns": ("text", "number"), "row_type": ROW, "epoch": 100, **changes}
    return JoinPlan(
        label="1:k",
        how="semi" if shape == "exists" else "left",
        table=StoredTable(
            location=location,
            newest=given.get("newest", 1),
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
def test_every_shape_of_an_answer(location: StorageLocation, cuts: tuple[int, ...]) -> None:
    """In one segment and in several; a row whose columns are all null is there."""
    stored(location, cuts)
    once = stored(StorageLocation.of(f"{location}/once"), cuts[:1], once=True)
    plans = {
        "exists": plan_of(location, "exists", columns=(), row_type=NO_COLUMN),
        "row": plan_of(once, "row"),
        "rows": plan_of(location, "rows"),
        "runs": plan_of(location, "runs"),
    }
    found = {shape: answered(plan, PROBES) for shape, plan in plans.items()}
    assert found["exists"].to_pylist() == [True, False, True, False, True, True]
    assert found["row"].to_pylist() == [B, None, A, None, NULLS, B]
    assert found["rows"].to_pylist() == [[B, C, D], None, [A], None, [NULLS], [B, C, D]]
    runs = [run and (run["first"], run["count"]) for run in found["runs"].to_pylist()]
    assert runs == [(1, 3), None, (0, 1), None, (4, 1), (1, 3)]
    lists = found["rows"].type
    assert lists.value_field == pa.field("element", ROW, nullable=False)
    types = [found[shape].type for shape in plans]
    assert types == [pa.bool_(), ROW, lists, row_refs.RUN_TYPE]
    for (shape, plan), dtype in zip(plans.items(), types, strict=True):
        assert answered(plan, [], time_us=5).type == dtype, shape
    numbers = pa.array([1, 3, 0, 0, 4]), pa.array([2, 1, 0, 1, 1])
    gathered = full_cache.gather(plans["runs"], None, *numbers)
    assert gathered.to_pylist() == [[B, C], [D], None, [A], [NULLS]]
    nothing = full_cache.gather(plans["runs"], None, *(array.slice(0, 0) for array in numbers))
    assert gathered.type == nothing.type == lists
    there = {"none": None}  # without columns rows are still counted
    for shape, where, wanted in (
        ("row", once, [there, None, there]),
        ("rows", location, [[there] * 3, None, [there]]),
    ):
        plan = plan_of(where, shape, columns=(), row_type=NO_COLUMN)  # type: ignore[arg-type]
        assert answered(plan, [2, 3, 1]).to_pylist() == wanted
    empty = pa.table({"text": pa.array([], pa.string()), "number": pa.array([], pa.int64())})
    there_is_none = StorageLocation.of(f"{location}/empty")
    put(there_is_none, store(there_is_none, [], empty), 1, 100)
    for shape in ("exists", "row", "rows", "runs"):
        nobody = False if shape == "exists" else None
        assert answered(plan_of(there_is_none, shape), [1, None]).to_pylist() == [nobody] * 2  # type: ignore[arg-type]


def test_of_the_joins_that_were_checked_only_the_last_ones_are_remembered(
    location: StorageLocation,
) -> None:
    """A worker lives as long as its application, and each micro-batch may plan joins of its own."""
    plan = plan_of(stored(location), "rows")
    for number in range(300):
        answered(replace(plan, label=f"{number}:k"), [1])
    (table,) = full_cache._tables.values()
    assert len(table.checked) < 300


def test_a_plan_of_one_version_takes_no_other_of_its_number(location: StorageLocation) -> None:
    with pytest.raises(VersionNotFoundError, match=r"version 1 .* the table was built again"):
        answered(plan_of(stored(location), "row", epoch=99), [1])
    # Nor one that a stream whose plan is as old has opened.
    pinned, stream = (plan_of(location, "rows", version=one) for one in (1, None))
    for folder in ("versions", "data"):
        location.remove(folder)
    put(location, store(location, [1], pa.table({"text": ["b"], "number": [2]})), 1, 900)
    assert answered(stream, [1], 950).to_pylist() == [[B]]
    with pytest.raises(VersionNotFoundError, match=r"version 1 .* the table was built again"):
        answered(pinned, [1])


def follow(location: StorageLocation, epoch: int = 100) -> JoinPlan:
    """A plan that takes, for each micro-batch, the version that is active at its time."""
    row_type = pa.struct([pa.field("c0", pa.int64())])
    return plan_of(location, "row", version=None, columns=("v",), row_type=row_type, epoch=epoch)


def value_at(plan: JoinPlan, time_us: int) -> int:
    (row,) = answered(plan, [0], time_us).to_pylist()
    return int(row["c0"])


def test_a_stream_uses_the_version_of_its_batch_time(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(location, numbered(location, 1), 1, 100)
    plan = follow(location)
    assert value_at(plan, 150) == 1
    put(location, numbered(location, 2), 2, 200)
    assert [value_at(plan, time_us) for time_us in (160, 199, 200, 300)] == [1, 1, 2, 2]
    put(location, numbered(location, 3), 3, 400)
    assert [value_at(plan, time_us) for time_us in (399, 400)] == [2, 3]
    # A replay asks for an earlier time again.
    assert [value_at(plan, time_us) for time_us in (150, 200, 400)] == [1, 2, 3]
    # The folder is read once for each time, by two queries that take turns in a worker.
    read, real = [], VersionedFolder.listed
    monkeypatch.setattr(VersionedFolder, "listed", lambda one: read.append(one) or real(one))
    for time_us in [410, 420] * 3:
        value_at(plan, time_us)
    assert len(read) == 2


def test_a_worker_remembers_nothing_of_versions_that_it_has_closed(
    location: StorageLocation,
) -> None:
    """A table that changes has a version a second, and a worker lives as long as its executor."""
    for number in range(1, 9):
        put(location, numbered(location, number), number, 100 * number)
        assert value_at(follow(location), 100 * number) == number
    (table,) = full_cache._tables.values()
    assert max(map(len, (table.open, table.checked, table.known, table.settled))) <= 3


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


def test_a_vacuumed_version_is_an_error_where_it_is_needed_and_not_open(
    location: StorageLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        put(location, numbered(location, number), number, number * 100)
    plan, before = follow(location), versions.numbers(location)
    assert value_at(plan, 150) == 1
    versions.vacuum(location, 1 << 62, keep=1)
    assert value_at(plan, 150) == 1
    full_cache._tables.clear()
    with monkeypatch.context() as patch:
        patch.setattr(versions, "numbers", lambda _: before)  # listed before, read afterwards
        assert value_at(plan, 350) == 3
        with pytest.raises(VersionNotFoundError, match="vacuumed"):
            value_at(plan, 250)
    with pytest.raises(VersionNotFoundError, match="vacuumed"):
        value_at(plan, 150)
    with pytest.raises(VersionNotFoundError, match="version 1"):
        answered(plan_of(location, "row"), [0])


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_table_built_anew_at_the_same_path_is_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    location = StorageLocation.of(f"memory:/{tmp_path}" if is_remote else tmp_path / "table")
    put(location, numbered(location, 1), 1, 100)
    assert value_at(follow(location), 150) == 1
    for folder in ("versions", "data"):
        location.remove(folder)
    put(location, numbered(location, 7), 1, 900)
    assert value_at(follow(location, epoch=900), 950) == 7
    # A query that goes on has what a worker has that begins now.
    assert value_at(follow(location), 950) == 7


def test_a_version_is_checked_whatever_had_its_number_before(location: StorageLocation) -> None:
    for number in (1, 2, 3):
        put(location, numbered(location, number), number, 100 * number)
        assert value_at(follow(location), 100 * number + 50) == number
    for folder in ("versions", "data"):
        location.remove(folder)
    put(location, store(location, [0], pa.table({"w": [7]})), 1, 900)
    with pytest.raises(TableMismatchError, match=r"version 1 .* has no column 'v'"):
        value_at(follow(location), 950)


def test_a_version_that_was_withdrawn_is_not_kept_for_another_of_its_number(
    location: StorageLocation,
) -> None:
    plan = plan_of(stored(location), "row", version=None)
    there, opened = [], []
    for rows in (4, 5):
        now = now_us()
        columns = {"text": ["a"] * rows, "number": pa.array([rows] * rows, pa.int64())}
        there.append(put(location, store(location, range(rows), pa.table(columns)), 2, now))
        opened.append(full_cache.open_table(plan, pa.array([now + 1], pa.timestamp("us", "UTC"))))
        location.remove("versions/00000002.json")
    assert [table.manifest for table in opened] == there


_NARROW = pa.struct([pa.field("c0", pa.string()), pa.field("c1", pa.int32())])
_CONTINUES = "Restart the query: it continues from its checkpoint"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": "row"}, f"keys with up to 3 rows, and this query .* unique. {_CONTINUES}"),
        ({"columns": ("text", "gone")}, f"has no column 'gone', which .* selects. {_CONTINUES}"),
        ({"row_type": _NARROW}, f"'number' is int64, and .* planned for int32. {_CONTINUES}"),
        (
            {"row_type": _NARROW, "newest": 2, "epoch": 200},
            "planned with a newer version, .* new checkpoint",
        ),
        # A clock that was ahead when the plan was made, and a table that was built anew.
        ({"columns": ("text", "gone"), "epoch": 200}, f"has no column 'gone', .*{_CONTINUES}"),
        ({"columns": ("text", "gone"), "newest": 2}, f"has no column 'gone', .*{_CONTINUES}"),
        ({"keys": (KeyColumn("k", "string"),)}, f'the keys .*"long".*"string".*. {_CONTINUES}'),
    ],
)
def test_a_version_that_a_query_was_not_planned_for_is_an_error(
    location: StorageLocation, changes: Mapping[str, Any], said: str
) -> None:
    """As others may write one: builds refuse what a running query cannot use."""
    given = {"shape": "rows", "version": None, **changes}
    plan = plan_of(stored(location), **given)
    if (keys := changes.get("keys")) is not None:
        plan = replace(plan, table=replace(plan.table, keys=keys))  # type: ignore[arg-type]
    error = DuplicateKeyError if given["shape"] == "row" else TableMismatchError
    with pytest.raises(error, match=rf"^(in )?version 1 of the table in .*{said}"):
        answered(plan, [2], 150)
