"""Several range conditions in a join, and relations of intervals: what an index does not answer.

They are checked for each pair of rows, by an expression of Spark. Exact arithmetic is the oracle.
The rows of joins with lists of conditions are those of the fuzz (`test_fuzz.py`), and of streams
(`test_conditions_everywhere.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from oracle import right_rows
from pyspark.sql import DataFrame, SparkSession
from test_oracle_ranges import (
    CLOSED,
    PAIRS,
    WIDTHS,
    answer,
    conditions,
    framed,
    sides,
)

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.errors import ArgumentError, KeyTypeError, TableMismatchError
from bsjoin.planner.range_sql import condition_sql
from tests.fuzz.values import KINDS as FUZZED

pytestmark = pytest.mark.usefixtures("without_code")

RELATIONS: tuple[Any, ...] = ("overlaps", "contains", "within", "equals", "meets")


def _related(number: int, closed: Any, widths: Sequence[Any]) -> list[Overlaps]:
    """Two of the relations in turn, and one with a least length."""
    turns = [RELATIONS[(2 * number + n) % len(RELATIONS)] for n in range(2)]
    found = [Overlaps(("p", "x"), ("q", "y"), closed, relation) for relation in turns]
    if widths:
        long, length = RELATIONS[number % 3], widths[number % len(widths)]
        found.append(Overlaps(("p", "x"), ("q", "y"), closed, long, at_least=length))
    return found


@pytest.mark.parametrize(
    "names",
    [["bigint", "double", "timestamp"], pytest.param([*PAIRS], marks=pytest.mark.long)],
    ids=["few", "all"],
)
def test_every_condition_in_sql_means_what_the_index_means(
    spark: SparkSession, names: list[str]
) -> None:
    results, whens = {}, {}
    for number, name in ((number, name) for number, name in enumerate(PAIRS) if name in names):
        stream, table = sides(name)
        frames = framed(spark, stream), framed(spark, table)
        ours, theirs = (
            {field.name: (field.name, field.dataType) for field in df.schema} for df in frames
        )
        kind, closed = PAIRS[name][0], "left" if name == "decimal in bigint" else None
        drawn = conditions(kind, number, closed)
        whens[name] = [drawn[label] for label in ("within", "overlaps", "band") if label in drawn]
        widths = WIDTHS.get(FUZZED[kind].family, ())
        whens[name] += _related(number, closed or CLOSED[number % 4], widths)
        texts = [condition_sql(when, ours, theirs) for when in whens[name]]
        pairs = frames[0].crossJoin(frames[1].withColumnRenamed("k", "l"))
        results[name] = pairs.selectExpr("s", "n", f"array({', '.join(texts)})")
    for name, rows in right_rows(results).items():
        found = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        for place, when in enumerate(whens[name]):
            got = Counter((s, n) for s, n, holds in found if holds[place])
            wanted = answer(*sides(name), [], "inner", when)
            told = f"{name}, {when}"
            assert got == wanted, f"{told}: too many {got - wanted}, lacking {wanted - got}"


WIDE = Within("p", "q", "y")
NEAR = Band("p", "q", before=2, after=1)
STREAM, TABLE = sides("byte")


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Hostile rows of a stream and of a table."""
    return framed(spark, STREAM), framed(spark, TABLE)


def test_explain_says_what_is_searched(
    both: tuple[DataFrame, DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    """A table is searched for the condition that it was built for, wherever that stands."""
    table = BatchTable.build(both[1], on="k", when=NEAR)
    bsjoin.explain(table.join(both[0], "k", when=[WIDE, NEAR]))
    assert f"k = k and {NEAR!r}, checks {WIDE!r}: full cache" in capsys.readouterr().out


def test_a_table_keeps_the_relation_it_was_built_with(
    both: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    stream, batch = both
    whole = Overlaps(("p", "x"), ("q", "y"), "both", "contains", 1)
    built = BatchTable.build(batch, on="k", when=whole, path=str(tmp_path / "t"))
    wanted = answer(STREAM, TABLE, ["k"], "inner", whole)
    for again in (built, BatchTable.open(str(tmp_path / "t"))):
        assert again.join(stream).count() == wanted.total() > 0
    touching = Overlaps(("p", "x"), ("q", "y"), "left", "meets")
    assert built.join(stream, when=touching).count() > 0
    halfopen = BatchTable.build(batch, on="k", when=Overlaps(("p", "x"), ("q", "y")))
    with pytest.raises(TableMismatchError, match="relation='meets' searches intervals with both"):
        halfopen.join(stream, when=touching)


def test_conditions_that_contradict_are_refused_at_the_call(
    both: tuple[DataFrame, DataFrame],
) -> None:
    stream, batch = both
    pair: Any = ("p", "x"), ("q", "y")
    for arguments, said in [
        ({"relation": "touches"}, "relation='touches' is not known"),
        ({"relation": "meets", "at_least": 1}, "it is for 'overlaps', 'contains' and 'within'"),
        ({"relation": "equals", "at_least": 1}, "it is for 'overlaps', 'contains' and 'within'"),
        ({"at_least": -1}, "must not be negative or infinite"),
        ({"at_least": float("inf")}, "must not be negative or infinite"),
        ({"at_least": True}, "not a boolean"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            Overlaps(*pair, **arguments)
    for when, said in [
        ([], "or a list of them"),
        ([WIDE, "p < q"], "or a list of them"),
        ([AsOf("p", "q"), WIDE, AsOf("p", "q")], "first in two orders is not defined"),
        ([Within("p", "q", "y", take="shortest"), AsOf("p", "q")], "first in two orders is not"),
        (Overlaps(*pair, at_least="1 hour"), "is a duration and the columns are numbers"),
        ([WIDE, Band("p", "q", "1 hour", 0)], "is a duration and the columns are numbers"),
        ([Band("p", "q", 5, -1), Band("P", "q", -1, 5)], "no values of p, q fulfil all of them"),
        (
            [Overlaps(*pair, relation="equals"), NEAR, Overlaps(*pair, relation="meets")],
            "no values of p, x, q, y fulfil all of them",
        ),
    ]:
        with pytest.raises(ArgumentError, match=said):
            bsjoin.join(stream, batch, "k", when=when)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no values of p, q fulfil all of them"):
        BatchTable.build(batch, on="k", when=[Band("p", "q", 5, -1), Band("p", "Q", -1, 5)])
    texts = stream.selectExpr("k", "string(p) AS p", "string(x) AS x")
    other = batch.selectExpr("n", "k", "string(q) AS q", "string(y) AS y")
    with pytest.raises(KeyTypeError, match="at_least need columns"):
        bsjoin.join(texts, other, "k", when=Overlaps(*pair, at_least=1))
    digits = "decimal(38,10)"
    with pytest.raises(KeyTypeError, match="Spark would round the sum"):
        bsjoin.join(
            stream.selectExpr("k", f"cast(p AS {digits}) AS p", f"cast(x AS {digits}) AS x"),
            batch.selectExpr("k", f"cast(q AS {digits}) AS q", f"cast(y AS {digits}) AS y"),
            "k",
            when=Overlaps(*pair, at_least=1),
        )
