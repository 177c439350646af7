"""The fuzz itself: kept cases, some drawn ones, its oracle, its faults, and how cases shrink."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.case import Case, Join, Rows, Table
from tests.fuzz.draw import SEEDS_A_ROUND, draw_round
from tests.fuzz.engine import Engine
from tests.fuzz.faulty import is_of_the_engine
from tests.fuzz.kept import KEPT
from tests.fuzz.mutants import MUTANTS, Mutant
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.spark_join import disagreement
from tests.fuzz.summary import Summary
from tests.fuzz.values import cells, shown
from tests.fuzz.words import has_all, wanted, words

BSJOIN = Path(__file__).resolve().parent.parent / "bsjoin"


# Those in which most is seen come first.
ROUNDS = (1, 10, 27, 31, 43, 52, 69, 70, 123, 127, 129, 137, 159, 217, 330, *range(400))


@cache
def drawn(number: int) -> list[set[str]]:
    """What the joins of a round have, in words."""
    cases = draw_round(number).cases.values()
    return [words(case, join) for case in cases for join in range(len(case.joins))]


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_case_holds(spark: SparkSession, tmp_path: Path, name: str) -> None:
    assert not Engine(spark, tmp_path).failures({0: KEPT[name]})


def test_drawn_cases_hold(spark: SparkSession, tmp_path: Path) -> None:
    """A few of a round with a batch DataFrame, and of one with a stream."""
    batch = next(r for r in map(draw_round, range(50, 99)) if r.cases and not r.streaming)
    stream = next(r for r in map(draw_round, range(50, 99)) if r.cases and r.streaming)
    engine = Engine(spark, tmp_path)
    assert not engine.failures(dict(list(batch.cases.items())[:6]))
    assert not engine.failures(dict(list(stream.cases.items())[:6]))


@pytest.mark.parametrize("number", range(900, 990, 9))
def test_values_are_drawn_as_their_types_have_them(number: int) -> None:
    """Otherwise the oracle sees other values than the engine is given."""
    cases = list(draw_round(number).cases.values())[:1]
    for case in cases:
        versions = [table.rows(v) for table in case.tables for v in range(len(table.versions))]
        for drawn in [case.stream, *versions]:
            kinds = [kind for _, kind in drawn.columns]
            given = list(zip(*map(cells, drawn.arrow().columns), strict=True))
            assert given == [tuple(map(shown, kinds, row)) for row in drawn.rows]


def test_the_oracle_answers_as_spark(spark: SparkSession) -> None:
    told = [
        disagreement(spark, case)
        for number in range(50, 56)
        for case in list(draw_round(number).cases.values())[:2]
    ]
    assert not any(told)
    assert told.count(None) > 5  # an empty text is for what Spark has no join for


def test_a_seed_always_draws_the_same_case() -> None:
    for number in range(5):
        first, second = draw_round(number), draw_round(number)
        assert repr(first) == repr(second)
        for seed, case in first.cases.items():
            assert seed // SEEDS_A_ROUND == number
            assert case.joins


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_still_applies(mutant: Mutant) -> None:
    text = (BSJOIN / mutant.file).read_text()
    assert mutant.applied(text) != text


def test_faults_have_names_of_their_own() -> None:
    assert len(MUTANTS) >= 60
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_cases_are_drawn_that_can_show_a_fault(mutant: Mutant) -> None:
    """The words say what a case needs: none of them is misspelt, and such cases are drawn."""
    needed = wanted(mutant.file, mutant.needs)
    assert any(has_all(found, needed) for number in ROUNDS for found in drawn(number))


@pytest.mark.parametrize(
    ("wrong", "counts"),
    [
        ("micro-batch 0: 3 rows, expected 2 too many: []", True),
        ("columns [('n', LongType())], expected []", True),
        ("DamagedTableError: the directory is wrong at row 3", True),
        ("PythonException: IndexError: index 7 is out of bounds for axis 0 with size 7", True),
        ("the tables: Py4JJavaError: an error in a task", True),
        ("Py4JNetworkError: An error occurred while trying to connect to the Java server", False),
        ("the tables: FileNotFoundError: [Errno 2] No such file or directory", False),
        ("only together: ModuleNotFoundError: No module named 'tests'", False),
        ("SparkException: Python worker exited unexpectedly (crashed)", False),
        ("Py4JJavaError: java.lang.OutOfMemoryError: Java heap space", False),
    ],
)
def test_what_the_harness_breaks_is_no_fault_found(wrong: str, counts: bool) -> None:
    assert is_of_the_engine(wrong) == counts


def test_processes_that_share_rounds_add_up(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    total, parts = Summary(path), [Summary(None), Summary(None)]
    for number in range(5):
        cases = draw_round(number).cases
        total.add(number, cases, [], 1.0, 1)
        parts[number % 2].add(number, cases, [], 1.0, 1)
    merged = Summary(tmp_path / "merged.json")
    merged.merge(parts)
    assert merged.data == {**total.data, "seconds": 3.0}  # of the one that ran longest
    assert merged.next_round() == 5
    assert Summary(merged.path).data == merged.data


def test_a_failing_case_shrinks_to_what_it_needs() -> None:
    """One that fails where a row of the stream has a null and a table has a NaN."""
    cases = (c for n in range(40) for c in draw_round(n).cases.values())

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
    namespace = {"nan": math.nan, "Case": Case, "Join": Join, "Rows": Rows, "Table": Table}
    namespace |= {"SparkSession": object, "Path": object}
    exec(text, namespace)
    assert callable(namespace["test_seed_7"])
