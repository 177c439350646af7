"""Drawn joins against an exact oracle; the fuzz's oracle, its faults, and how cases shrink."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bsjoin import BatchTable
from tests.fuzz.case import Case, Join, Rows, Table
from tests.fuzz.chosen import ROUNDS, chosen
from tests.fuzz.draw import SEEDS_A_ROUND, draw_round
from tests.fuzz.ending import EndlessError, ending
from tests.fuzz.engine import Engine, may_change
from tests.fuzz.faulty import is_of_the_engine
from tests.fuzz.mutants import MUTANTS
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.spark_join import disagreement
from tests.fuzz.values import cells, shown
from tests.layer_mutants import LAYER_MUTANTS
from tests.range_mutants import RANGE_MUTANTS
from tests.sessions import CODE, configured

BSJOIN = Path(__file__).resolve().parent.parent / "bsjoin"
DRAWN = "2783d8bd74e201c5"
"""A digest of the cases that find the faults."""


@pytest.mark.parametrize("number", ROUNDS)
def test_chosen_cases_hold(spark: SparkSession, tmp_path: Path, number: int) -> None:
    assert not Engine(spark, tmp_path).failures(chosen()[number])


@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.long)])
def test_tables_of_many_small_segments_answer_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Runs of a few rows, merged to segments by the driver or by tasks."""
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    for module in ("job", "merging"):
        monkeypatch.setattr(f"bsjoin.build.{module}.RUN_BYTES", 1)
    engine = Engine(spark, tmp_path, segment_bytes=1000)
    cases = chosen()[ROUNDS[place]]
    assert not engine.failures(dict([*cases.items()][:4]))


def test_half_of_the_new_versions_are_changes_that_are_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the micro-batches of the first chosen stream with a table that takes them."""
    apply, applied = BatchTable.apply, list[int]()

    def counted(*args: Any, **options: Any) -> int:
        applied.append(apply(*args, **options))
        return applied[-1]

    def changes(case: Case) -> bool:
        is_refreshed = bool(case.cuts) and any(event == "refresh" for _, event in case.events)
        return is_refreshed and case.joins[0].table == 0 and may_change(case.tables[0])

    case = next(case for some in chosen().values() for case in some.values() if changes(case))
    monkeypatch.setattr(BatchTable, "apply", counted)
    assert not Engine(spark, tmp_path, applies=True).failures({0: case})
    assert applied


def test_the_oracle_answers_as_spark(spark: SparkSession) -> None:
    told: list[str | None] = []
    with configured(spark, CODE["python"]):
        for cases in chosen().values():  # an empty text is for what Spark has no join for
            each = (disagreement(spark, case) for case in cases.values())
            told.append(next((one for one in each if one != ""), ""))
    assert not any(told)
    assert told.count(None) > 5


def test_values_are_drawn_as_their_types_have_them() -> None:
    """Otherwise the oracle sees other values than the engine is given."""
    for cases in chosen().values():
        case = next(iter(cases.values()))
        versions = [table.rows(v) for table in case.tables for v in range(len(table.versions))]
        for drawn in [case.stream, *versions]:
            kinds = [kind for _, kind in drawn.columns]
            given = list(zip(*map(cells, drawn.arrow().columns), strict=True))
            assert given == [tuple(map(shown, kinds, row)) for row in drawn.rows]


def test_a_seed_always_draws_the_same_case() -> None:
    """Where others are drawn on purpose: do they find the faults (`tests.fuzz.find_faults`)?"""
    digest = hashlib.sha256(repr(sorted(chosen().items())).encode()).hexdigest()[:16]
    assert digest == DRAWN
    for seed, case in draw_round(1).items():
        assert seed // SEEDS_A_ROUND == 1
        assert case.joins


def test_each_fault_can_be_put_where_it_belongs() -> None:
    """That the cases find it, ``python -m tests.fuzz.find_faults`` tells."""
    for mutant in (*MUTANTS, *LAYER_MUTANTS, *RANGE_MUTANTS):
        text = (BSJOIN / mutant.file).read_text()
        assert mutant.applied(text) != text
    known = {key for cases in chosen().values() for key in cases}
    for mutant in MUTANTS:
        assert mutant.cases, mutant.name
        assert known.issuperset(mutant.cases), mutant.name
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_query_without_an_end_fails_and_is_no_fault_of_the_harness(spark: SparkSession) -> None:
    with pytest.raises(EndlessError, match=r"not end within 0\.2 s") as told, ending(spark, 0.2):
        spark.range(1 << 62).where("id < 0").collect()
    assert is_of_the_engine(f"EndlessError: {told.value}")
    with ending(spark, 60):
        assert spark.range(3).count() == 3


def test_what_the_harness_breaks_is_no_fault_found() -> None:
    for wrong, counts in (
        ("micro-batch 0: 3 rows, expected 2 too many: []", True),
        ("DamagedTableError: the directory is wrong at row 3", True),
        ("PythonException: IndexError: index 7 is out of bounds for axis 0 with size 7", True),
        ("the tables: Py4JJavaError: an error in a task", True),
        ("Py4JNetworkError: An error occurred while trying to connect to the Java server", False),
        ("the tables: FileNotFoundError: [Errno 2] No such file or directory", False),
        ("only together: ModuleNotFoundError: No module named 'tests'", False),
        ("SparkException: Python worker exited unexpectedly (crashed)", False),
    ):
        assert is_of_the_engine(wrong) == counts, wrong


@pytest.mark.long
def test_a_failing_case_shrinks_to_what_it_needs() -> None:
    """One that fails where a row of the stream has a null and a table has a NaN."""
    cases = (c for n in range(40) for c in draw_round(n).values())

    def fails(case: Case) -> bool:
        nulls = any(None in row for row in case.stream.rows)
        used = (case.tables[join.table] for join in case.joins)
        return nulls and any(
            isinstance(v, float) and math.isnan(v) for t in used for v in sum(t.versions[0], ())
        )

    case = next(case for case in cases if fails(case) and len(case.joins) > 1)
    small = shrunk(case, fails)
    assert fails(small)
    assert len(small.stream.rows) == 1
    (table,), (join,) = small.tables, small.joins
    assert (len(table.versions), len(table.versions[0])) == (1, 1)
    assert (join.partition, small.cuts, small.events, small.zone) == (None, (), (), "UTC")


def test_a_case_is_written_as_a_test() -> None:
    rows = Rows((("n", "long"), ("k", "double")), ((0, math.nan), (1, -0.0)))
    table = Table((("k", "float"),), (((1.5,),),), ("k",))
    case = Case((table,), rows, (Join(0, (("k", "k"),)),))
    text = as_test(7, replace(case, zone="Asia/Kathmandu"), 'lacking: """\\')
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    assert callable(namespace["test_seed_7"])
    for some in chosen().values():
        for one in some.values():
            assert repr(eval(repr(one), namespace)) == repr(one)
