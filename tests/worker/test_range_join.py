"""Range joins of whole stored tables against a nested loop, without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from range_answers import Row, by_loop
from range_kinds import HIGH, KINDS, Kind, whens
from range_tables import (
    HASHES,
    HOWS,
    KEYS,
    LACKING,
    Case,
    check,
    stored,
)

from bsjoin.conditions import chooses
from bsjoin.storage import StorageLocation

SIZES = (1, 2, 7, 49, 50, 51, 100)
QUICK = ("bigint", "double", "string", "timestamp", "decimal(18,2) by decimal(38,6)")


def rows_of(kind: Kind, keys: str, names: str) -> st.SearchStrategy[list[Row]]:
    """None, one, or many rows."""
    key = st.sampled_from([None, *keys])
    row = st.fixed_dictionaries({"k": key, names[0]: kind.value, names[1]: kind.value})
    return st.integers(0, 60).flatmap(lambda n: st.lists(row, min_size=n, max_size=n))


def cases(name: str, condition: str) -> st.SearchStrategy[Case]:
    kind = KINDS[name]
    return st.builds(
        Case,
        type=st.just(name),
        when=whens(kind, condition),
        told_apart_by=st.sampled_from(list(HASHES)),
        stream=rows_of(kind.probes, KEYS + LACKING, "px"),
        table=rows_of(kind, KEYS, "qy"),
        seams=st.tuples(*[st.sampled_from(["none", "merged", "segment"])] * 5),
    ).map(without_what_begins_behind_all)


def without_what_begins_behind_all(case: Case) -> Case:
    """An interval without its first point, the greatest int64, is empty, if it is open-ended, too.

    The oracle has values above that one.
    """
    if not case.intervals:
        return case
    if chooses(case.when):  # an end at the greatest number counts as none where it belongs to it
        table = [{**row, "y": None} if row["y"] == HIGH else row for row in case.table]
        case = replace(case, table=table)
    if case.when.closed in ("both", "left"):
        return case

    def changed(rows: Sequence[Row], start: str, end: str) -> list[Row]:
        return [{**row, end: HIGH} if row[start] == HIGH else row for row in rows]

    return replace(case, stream=changed(case.stream, "p", "x"), table=changed(case.table, "q", "y"))


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.long) for one in KINDS]
)
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(SIZES))
def test_a_table_of_any_layout_joins_as_a_loop_does(
    name: str, data: st.DataObject, size: int
) -> None:
    case = data.draw(cases(name, data.draw(st.sampled_from(KINDS[name].conditions))))
    expected = by_loop(case.kind, list(case.stream), case.sorted, case.on, case.when)
    with tempfile.TemporaryDirectory() as folder:
        location = StorageLocation.of(folder)
        stored(location, case)
        for how in HOWS:
            check(location, case, expected, how, size)
