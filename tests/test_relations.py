"""Several range conditions in a join, and relations of intervals: what an index does not answer.

They are checked for each pair of rows, by an expression of Spark. Exact arithmetic is the oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import and_
from pathlib import Path
from typing import Any

import pytest
from oracle import right_rows, rows_of_all
from pyspark.sql import DataFrame, SparkSession
from range_answers import of_join_type
from sessions import CODE, configured
from test_oracle_ranges import (
    CLOSED,
    PAIRS,
    WIDTHS,
    answer,
    conditions,
    framed,
    rows_of,
    sides,
)

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.errors import ArgumentError, KeyTypeError, TableMismatchError
from bsjoin.planner.range_sql import condition_sql
from tests.fuzz.case import Rows
from tests.fuzz.values import KINDS as FUZZED

RELATIONS: tuple[Any, ...] = ("overlaps", "contains", "within", "equals", "meets")


def _related(closed: Any, widths: Sequence[Any] = ()) -> dict[str, Overlaps]:
    """All relations, the least lengths in turn."""
    found = {}
    for number, relation in enumerate(RELATIONS):
        found[relation] = Overlaps(("p", "x"), ("q", "y"), closed, relation)
        if widths and relation not in ("equals", "meets"):
            length = widths[number % len(widths)]
            long = Overlaps(("p", "x"), ("q", "y"), closed, relation, at_least=length)
            found[f"{relation}, long"] = long
    return found


def test_every_condition_in_sql_means_what_the_index_means(spark: SparkSession) -> None:
    results, whens = {}, {}
    for number, name in enumerate(PAIRS):
        stream, table = sides(name)
        frames = framed(spark, stream), framed(spark, table)
        ours, theirs = (
            {field.name: (field.name, field.dataType) for field in df.schema} for df in frames
        )
        kind, closed = PAIRS[name][0], "left" if name == "decimal in bigint" else None
        drawn = conditions(kind, number, closed)
        whens[name] = [when for when in drawn.values() if not isinstance(when, AsOf)]
        widths = WIDTHS.get(FUZZED[kind].family, ())
        whens[name] += _related(closed or CLOSED[number % 4], widths).values()
        texts = [condition_sql(when, ours, theirs) for when in whens[name]]
        pairs = frames[0].crossJoin(frames[1].withColumnRenamed("k", "l"))
        results[name] = pairs.selectExpr("s", "n", f"array({', '.join(texts)})")
    for name, rows in right_rows(results).items():
        found = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        for place, when in enumerate(whens[name]):
            every = replace(when, take="all") if isinstance(when, Within) else when
            got = Counter((s, n) for s, n, holds in found if holds[place])
            wanted = answer(*sides(name), [], "inner", every)
            told = f"{name}, {when}"
            assert got == wanted, f"{told}: too many {got - wanted}, lacking {wanted - got}"


WIDE = Within("p", "q", "y")
NEAR = Band("p", "q", before=2, after=1)
LONG = Overlaps(("p", "x"), ("q", "y"), "both", "contains", at_least=1)


STREAM, _OTHERS = sides("byte")
_SAME = tuple((100 + s, k, p, x) for s, k, p, x in STREAM.rows[:12])
TABLE = Rows(_OTHERS.columns, (*_OTHERS.rows, *_SAME))
"""Some intervals are those of the stream."""


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Hostile rows of a stream and of a table."""
    return framed(spark, STREAM), framed(spark, TABLE)


@cache
def _pairs(when: Any) -> Counter[Any]:
    return answer(STREAM, TABLE, ["k"], "inner", when)


def _matching(whens: Sequence[Any]) -> Counter[Any]:
    """The pairs of rows for which all conditions hold."""
    return reduce(and_, map(_pairs, whens))


CHECKED: dict[str, Sequence[Any]] = {
    **{relation: [Overlaps(("p", "x"), ("q", "y"), "left", relation)] for relation in RELATIONS},
    "long": [Overlaps(("p", "x"), ("q", "y"), "left", at_least=2)],
    "band of within": [WIDE, NEAR],
    "relation and band": [LONG, NEAR],
    "three": [NEAR, Overlaps(("p", "x"), ("q", "y"), at_least=1), WIDE],
}


@pytest.fixture(scope="module")
def tables(both: tuple[DataFrame, DataFrame]) -> dict[str, BatchTable]:
    """Of each label the table that is searched; those of one kind are the same."""
    kinds: dict[Any, BatchTable] = {}
    found = {}
    with configured(both[1].sparkSession, CODE["python"]):
        for label, (first, *_) in CHECKED.items():
            kind = type(first) is Band, getattr(first, "searched_ends", "")
            if kind not in kinds:
                kinds[kind] = BatchTable.build(both[1], on="k", when=first)
            found[label] = kinds[kind]
    return found


def test_joins_answer_as_exact_arithmetic_does(
    runtime: str, both: tuple[DataFrame, DataFrame], tables: dict[str, BatchTable]
) -> None:
    """Each condition meets a left join with one runtime, and another join type with the other."""
    results = {}
    for place, (label, whens) in enumerate(CHECKED.items()):
        other = ("inner", "semi", "anti")[place // 2 % 3]
        how: Any = other if (place + (runtime == "jvm")) % 2 else "left"
        # A table is searched for the condition that it was built for, wherever that stands.
        turned = list(whens[::-1]) if place % 4 > 1 else list(whens)
        joined = tables[label].join(both[0], "k", how, when=turned)
        results[label, how] = joined.select("s", *["n"] * (how in ("inner", "left")))
    for (label, how), rows in rows_of_all(results).items():
        inner, got = _matching(CHECKED[label]), rows_of(rows)
        wanted = of_join_type(how, inner, [row[0] for row in STREAM.rows])
        assert inner, f"{label}: nothing matches"
        assert got == wanted, f"{label}, {how}: too many {got - wanted}, lacking {wanted - got}"


def test_a_condition_and_where_and_an_indicator(both: tuple[DataFrame, DataFrame]) -> None:
    stream, batch = both
    joined = bsjoin.join(
        stream,
        batch,
        "k",
        "left",
        when=[WIDE, NEAR],
        where="n % 2 = 0",
        indicator="found",
        select=[],
    )
    assert joined.columns == ["s", "k", "p", "x", "found"]
    pairs = _matching([WIDE, NEAR])
    matched = {s for s, n in pairs if n % 2 == 0}
    assert {row.s for row in joined.where("found").collect()} == matched != set()


def test_explain_says_what_is_searched(
    both: tuple[DataFrame, DataFrame],
    tables: dict[str, BatchTable],
    capsys: pytest.CaptureFixture[str],
) -> None:
    bsjoin.explain(tables["three"].join(both[0], "k", when=[WIDE, NEAR]))
    assert f"k = k and {NEAR!r}, checks {WIDE!r}: full cache" in capsys.readouterr().out


def test_a_table_keeps_the_relation_it_was_built_with(
    both: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    stream, batch = both
    whole = Overlaps(("p", "x"), ("q", "y"), "both", "contains", 1)
    built = BatchTable.build(batch, on="k", when=whole, path=str(tmp_path / "t"))
    for again in (built, BatchTable.open(str(tmp_path / "t"))):
        assert again.join(stream).count() == _matching([whole]).total() > 0
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


@pytest.mark.usefixtures("runtime")
def test_the_first_of_the_rows_that_pass_the_others(both: tuple[DataFrame, DataFrame]) -> None:
    stream, batch = both
    lists: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "nearest": (AsOf("p", "q", n=2), (NEAR, WIDE)),
        "taken": (Within("p", "q", "y", take="earliest_end"), (NEAR, Band("s", "n", 20, 20))),
    }
    results = {
        label: bsjoin.join(stream, batch, "k", "left", when=[others[0], when, *others[1:]])
        for label, (when, others) in lists.items()
    }
    found = rows_of_all({label: rows.select("s", "n") for label, rows in results.items()})
    for label, (when, others) in lists.items():
        wanted = answer(STREAM, TABLE, ["k"], "left", when, others)
        assert rows_of(found[label]) == wanted, label
        assert any(n is not None for _, n in wanted)
        assert wanted != answer(STREAM, TABLE, ["k"], "left", when), "another one is taken"
