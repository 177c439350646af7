"""Range joins of whole stored tables against a nested loop, without Spark."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from range_answers import Row, by_loop
from range_kinds import CLOSED, CONDITIONS, HIGH, INF, KINDS, NAN, Kind, When, whens
from range_tables import (
    HASHES,
    HOWS,
    KEYS,
    LACKING,
    MOST,
    Case,
    batches_of,
    check,
    plan_of,
    results,
    stored,
)

from bsjoin import AsOf, Band, Overlaps, Within
from bsjoin.conditions import Direction, chooses
from bsjoin.metrics.join_metrics import JoinMetrics
from bsjoin.metrics.lines import read
from bsjoin.runtimes.python.worker.chain import NOTE
from bsjoin.storage import StorageLocation

SIZES = (1, 2, 7, 49, 50, 51, 100)
EVERYTHING = [
    pytest.param(name, condition, id=f"{name}-{condition}")
    for name, kind in KINDS.items()
    for condition in kind.conditions
]
ONE_OF_EACH: dict[str, When] = {
    "band": Band("p", "q", 1, 2, closed="left"),
    "within": Within("p", "q", "y"),
    "overlaps": Overlaps(("p", "x"), ("q", "y"), closed="both"),
    "asof": AsOf("p", "q", "nearest", 3),
}
# Every interval and every band covers everything.
ALL_MATCH: dict[str, When] = {
    "band": Band("p", "q", INF, INF),
    "within": Within("p", "q", "y"),
    "overlaps": Overlaps(("p", "x"), ("q", "y"), closed="neither"),
}


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


@pytest.mark.parametrize(("name", "condition"), EVERYTHING)
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(SIZES))
def test_a_table_of_any_layout_joins_as_a_loop_does(
    name: str, condition: str, data: st.DataObject, size: int
) -> None:
    case = data.draw(cases(name, condition))
    expected = by_loop(case.kind, list(case.stream), case.sorted, case.on, case.when)
    with tempfile.TemporaryDirectory() as folder:
        location = StorageLocation.of(folder)
        stored(location, case)
        for how in HOWS:
            check(location, case, expected, how, size)


@pytest.mark.parametrize("direction", get_args(Direction))
def test_an_infinity_is_near_itself_alone(location: StorageLocation, direction: Direction) -> None:
    """What is drawn has them seldom on both sides of a key, with a tolerance."""
    points = [None, NAN, INF, -INF, 1e308, -1e308, 0.0, 3.0]
    stream: list[Row] = [{"k": "a", "p": point, "x": None} for point in points]
    for number, gone in enumerate((None, INF, -INF)):
        table: list[Row] = [{"k": "a", "q": one, "y": None} for one in points if one != gone]
        there = StorageLocation.of(f"{location}/{number}")
        for tolerance in (0, 2, 1e308, INF):
            when = AsOf("p", "q", direction, tolerance)
            case = Case(type="double", when=when, stream=stream, table=table)
            expected = by_loop(case.kind, stream, case.sorted, case.on, when)
            if not tolerance:
                stored(there, case)
            for how in HOWS:
                check(there, case, expected, how, 50)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_table_without_rows_and_one_with_one(location: StorageLocation, condition: str) -> None:
    probes = [{"k": k, "p": p, "x": 9} for k in ("a", None, "g") for p in (4, 5, 6, None)]
    tables = ([], [{"k": "a", "q": None, "y": 7}], [{"k": "a", "q": 5, "y": 8}])
    for closed, (number, table) in itertools.product(CLOSED, enumerate(tables)):
        when = ONE_OF_EACH[condition]
        if not isinstance(when, AsOf):
            when = replace(when, closed=closed)
        case = Case(type="bigint", when=when, stream=probes, table=table)
        expected = by_loop(case.kind, list(probes), case.sorted, case.on, when)
        assert any(expected) == (number == 2)
        there = StorageLocation.of(f"{location}/{closed}/{number}")
        stored(there, case)
        for how in HOWS:
            check(there, case, expected, how, 5)
            check(there, replace(case, stream=[]), [], how, 5)


@pytest.mark.parametrize("told_apart_by", HASHES)
@pytest.mark.parametrize("condition", ALL_MATCH)
def test_where_everything_matches_results_come_in_pieces(
    location: StorageLocation, condition: str, told_apart_by: str
) -> None:
    rows = [{"k": KEYS[n % 6], "q": -n, "y": None if n % 5 else 10**9 + n} for n in range(400)]
    probes = [{"k": (KEYS + LACKING)[n % 7], "p": n, "x": n + 1} for n in range(300)]
    case = Case(
        type="bigint",
        when=ALL_MATCH[condition],
        told_apart_by=told_apart_by,
        stream=probes,
        table=rows,
    )
    stored(location, case)
    keys = np.array([row["k"] for row in case.sorted])
    expected = [np.flatnonzero((keys == probe["k"]) | (not case.on)).tolist() for probe in probes]
    for how in HOWS:
        check(location, case, expected, how, 300)


@pytest.mark.parametrize("condition", ALL_MATCH)
def test_the_answers_to_one_probe_may_be_more_than_a_batch_holds(
    location: StorageLocation, condition: str
) -> None:
    many = 2 * MOST + 5
    rows = [{"k": "c", "q": -n, "y": n + 10} for n in range(many)]
    probes = [{"k": k, "p": 1, "x": 2} for k in ("c", "a", None, "c", "c")]
    case = Case(type="bigint", when=ALL_MATCH[condition], stream=probes, table=rows)
    stored(location, case)
    for how in HOWS:
        found = results(plan_of(location, case, how), batches_of(case, 5))
        assert (len(found) > 6) == (how in ("inner", "left"))
        probed = np.concatenate([batch["s0"].to_numpy() for batch in found])
        if how in ("semi", "anti"):
            assert probed.tolist() == ([0, 3, 4] if how == "semi" else [1, 2])
            continue
        brought = np.concatenate([batch["c0"].to_numpy(zero_copy_only=False) for batch in found])
        for n in (0, 3, 4):
            assert (np.sort(brought[probed == n]) == np.arange(many)).all()
        rest = probed[np.isnan(brought.astype(np.float64))].tolist()
        assert rest == ([1, 2] if how == "left" else [])
        assert len(probed) == 3 * many + len(rest)


@pytest.mark.parametrize("how", HOWS)
def test_a_stream_takes_the_version_of_its_time_and_notes_what_it_found(
    location: StorageLocation, how: str
) -> None:
    table = [{"k": KEYS[n % 6], "q": n // 3, "y": n // 2 + 5} for n in range(60)]
    stream = [{"k": (KEYS + LACKING)[n % 7], "p": n, "x": n} for n in range(40)]
    case = Case(type="bigint", when=ONE_OF_EACH["within"], stream=stream, table=table)
    expected = by_loop(case.kind, list(case.stream), case.sorted, case.on, case.when)
    assert 0 < sum(map(bool, expected)) < 40
    stored(location, case)
    plan = pickle.loads(pickle.dumps(plan_of(location, case, how, version=None)))
    found = results(plan, batches_of(case, 100, time_us=100))
    texts = [text for batch in found for text in batch[NOTE].to_pylist() if text is not None]
    ((metrics,),) = read(JoinMetrics, "\n".join(texts))
    assert (metrics.version, metrics.hits) == (1, sum(map(bool, expected)))
    assert metrics.rows_out == sum(batch.num_rows for batch in found)
    assert metrics.lookup_ns > 0
    bound = results(plan_of(location, case, how), batches_of(case, 100))
    assert [batch.num_rows for batch in found] == [batch.num_rows for batch in bound]
