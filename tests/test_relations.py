"""Several range conditions in a join, and relations of intervals: what an index does not answer.

They are checked for each pair of rows, by an expression of Spark. Exact arithmetic is the oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import HOWS, one_part, rows_of_all
from pyspark.sql import DataFrame, SparkSession
from range_answers import of_join_type
from range_kinds import CLOSED
from test_oracle_ranges import PAIRS, Pair, cells, conditions, sample, side

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Incremental, Overlaps, Within
from bsjoin.errors import ArgumentError, KeyTypeError, TableMismatchError
from bsjoin.planner.range_sql import condition_sql
from tests.fuzz.exact import matcher, order_or_none

ROOMY = Incremental(max_rows=100_000)
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


def _number(value: Any, arrow: pa.DataType) -> Any:
    """A value in ones, days or microseconds, as the exact oracle has it."""
    if value is None or pa.types.is_floating(arrow):
        return value
    if isinstance(value, int | Decimal):
        return Fraction(value)
    if isinstance(value, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return Fraction((value - epoch) // datetime.resolution)
    return Fraction((value - date(1970, 1, 1)).days) if isinstance(value, date) else value


def _kind(arrow: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_date(arrow):
        return "date"
    if pa.types.is_floating(arrow):
        return "double"
    return str(arrow) if arrow in (pa.string(), pa.binary()) else "long"


def _matching(
    when: Any, stream: pa.Table, table: pa.Table, on: bool = False
) -> Counter[tuple[Any, Any]]:
    """The pairs of rows that match, by a nested loop."""
    kind = _kind(table["q"].type)
    found: Counter[tuple[Any, Any]] = Counter()
    there = [
        (n, k, *(order_or_none(_number(value, kind_)) for value, kind_ in ((q, arrow), (y, last))))
        for n, k, q, y in cells(table.select("nkqy"))
        for arrow, last in [(table["q"].type, table["y"].type)]
    ]
    for s, k, p, x in cells(stream.select("skpx")):
        probe = [_number(p, stream["p"].type), _number(x, stream["x"].type)]
        if p is None or (on and k is None):
            continue
        holds = matcher(when, probe[: len(when.stream_columns)], kind)
        for n, key, *ends in there:
            same = not on or key == k
            if same and ends[0] is not None and holds(ends[: len(when.table_columns)]):
                found[s, n] += 1
    return found


def _sides(spark: SparkSession, name: str, pair: Pair) -> tuple[DataFrame, DataFrame]:
    (p, q), (x, y) = pair.spark, pair.ends or pair.spark
    stream = sample(pair.stream, pair.values, "skpx", 24, f"relations {name}")
    table = sample(pair.table, pair.values, "nkqy", 40, f"relations table {name}")
    return side(spark, stream, p=p, x=x), side(spark, table, q=q, y=y)


def test_every_condition_in_sql_means_what_the_index_means(spark: SparkSession) -> None:
    results, sides, whens = {}, {}, {}
    for number, (name, pair) in enumerate(PAIRS.items()):
        stream, table = sides[name] = _sides(spark, name, pair)
        ours, theirs = (
            {field.name: (field.name, field.dataType) for field in df.schema}
            for df in (stream, table)
        )
        drawn = {n: c for n, c in conditions(pair, number).items() if not isinstance(c, AsOf)}
        drawn |= _related(pair.closed or CLOSED[number % 4], pair.widths)
        whens[name] = list(drawn.values())
        texts = [condition_sql(when, ours, theirs) for when in whens[name]]
        pairs = stream.crossJoin(table.withColumnRenamed("k", "l"))
        results[name] = pairs.selectExpr("s", "n", f"array({', '.join(texts)})")
    for name, rows in rows_of_all(results).items():
        stream, table = (df.toArrow() for df in sides[name])
        found = cells(rows)
        for place, when in enumerate(whens[name]):
            got = Counter((s, n) for s, n, holds in found if holds[place])
            wanted = _matching(when, stream, table)
            told = f"{name}, {when}"
            assert got == wanted, f"{told}: too many {got - wanted}, lacking {wanted - got}"


WIDE = Within("p", "q", "y")
NEAR = Band("p", "q", before=2, after=1)
LONG = Overlaps(("p", "x"), ("q", "y"), "both", "contains", at_least=1)


def _hostile(names: str, seed: str, many: int) -> pa.Table:
    return sample(pa.int32(), (*range(7), -(2**31), 2**31 - 1), names, many, seed)


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Hostile rows of a stream and of a table."""
    return (
        one_part(spark, _hostile("skpx", "joined", 24)),
        one_part(spark, _hostile("nkqy", "joined table", 80)),
    )


def _held(
    results: dict[tuple[str, str], DataFrame],
    whens: dict[str, Sequence[Any]],
    both: tuple[DataFrame, DataFrame],
    on: bool,
) -> None:
    stream, table = (df.toArrow() for df in both)
    all_rows = stream["s"].to_pylist()
    for (label, how), rows in rows_of_all(results).items():
        inner: Any = None
        for when in whens[label]:
            one = _matching(when, stream, table, on)
            inner = one if inner is None else inner & one
        wanted, got = of_join_type(how, inner, all_rows), Counter(cells(rows))
        assert inner, f"{label}: nothing matches"
        assert got == wanted, f"{label}, {how}: too many {got - wanted}, lacking {wanted - got}"


CHECKED: dict[str, Sequence[Any]] = {
    **{relation: [Overlaps(("p", "x"), ("q", "y"), "left", relation)] for relation in RELATIONS},
    "long": [Overlaps(("p", "x"), ("q", "y"), "left", at_least=2)],
    "band of within": [WIDE, NEAR],
    "relation and band": [LONG, NEAR],
    "three": [NEAR, Overlaps(("p", "x"), ("q", "y"), at_least=1), WIDE],
}


@pytest.mark.usefixtures("runtime")
def test_joins_answer_as_exact_arithmetic_does(both: tuple[DataFrame, DataFrame]) -> None:
    stream, batch = both
    results, built = {}, {}
    for place, (label, whens) in enumerate(CHECKED.items()):
        kind = type(whens[0]) is Band, getattr(whens[0], "searched_ends", "")
        if kind not in built:
            built[kind] = BatchTable.build(batch, on="k", when=whens[0])
        for how in ("left", ("inner", "semi", "anti")[place % 3]):
            names = ["s", "n"] if how in ("inner", "left") else ["s"]
            # A table is searched for the condition that it was built for, wherever that stands.
            turned = list(whens[::-1]) if place % 2 else list(whens)
            joined = built[kind].join(stream, "k", how, when=turned)  # type: ignore[arg-type]
            results[label, how] = joined.select(*names)
    _held(results, CHECKED, both, on=True)


def test_other_tables_answer_the_same(both: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    """DataFrames, a source behind an incremental cache, and joins without keys."""
    stream, batch = both
    source = Model(tmp_path / "model", batch.toArrow(), max_keys=2)
    few = {label: CHECKED[label] for label in ("meets", "band of within", "three")}
    results = {
        (label, how): bsjoin.join(stream, source, "k", how, when=whens, cache=ROOMY).select(  # type: ignore[arg-type]
            *(["s", "n"] if how in ("inner", "left") else ["s"])
        )
        for label, whens in few.items()
        for how in HOWS
    }
    frames = {
        (f"{label} alone", "left"): bsjoin.join(stream, batch, [], "left", when=whens).select(
            "s", "n"
        )
        for label, whens in few.items()
    }
    _held(results, few, both, on=True)
    _held(frames, {f"{label} alone": whens for label, whens in few.items()}, both, on=False)


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
    table = batch.toArrow()
    pairs = _matching(WIDE, stream.toArrow(), table, True) & _matching(
        NEAR, stream.toArrow(), table, True
    )
    matched = {s for s, n in pairs if n % 2 == 0}
    assert {row.s for row in joined.where("found").collect()} == matched != set()


def test_explain_says_what_is_searched(
    both: tuple[DataFrame, DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    stream, batch = both
    table = BatchTable.build(batch, on="k", when=NEAR)
    bsjoin.explain(table.join(stream, "k", when=[WIDE, NEAR]))
    assert f"k = k and {NEAR!r}, checks {WIDE!r}: full cache" in capsys.readouterr().out


def test_a_table_keeps_the_relation_it_was_built_with(
    both: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    stream, batch = both
    whole = Overlaps(("p", "x"), ("q", "y"), "both", "contains", 1)
    built = BatchTable.build(batch, on="k", when=whole, path=str(tmp_path / "t"))
    for again in (built, BatchTable.open(str(tmp_path / "t"))):
        assert (
            again.join(stream).count()
            == _matching(whole, stream.toArrow(), batch.toArrow(), True).total()
            > 0
        )
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
        ([AsOf("p", "q"), WIDE, AsOf("p", "q")], "nearest by two columns is not defined"),
        ([NEAR, Within("p", "q", "y", take="shortest")], "is found before the others are checked"),
        (Overlaps(*pair, at_least="1 hour"), "is a duration and the columns are numbers"),
        ([WIDE, Band("p", "q", "1 hour", 0)], "is a duration and the columns are numbers"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            bsjoin.join(stream, batch, "k", when=when)  # type: ignore[arg-type]
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
def test_the_nearest_of_the_rows_that_pass_the_others(both: tuple[DataFrame, DataFrame]) -> None:
    stream, batch = both
    nearest = AsOf("p", "q", n=2)
    table = BatchTable.build(batch, on="k", when=nearest)
    results = {
        "conditions": table.join(stream, "k", "left", when=[NEAR, nearest, WIDE]).select("s", "n"),
        "where": table.join(
            stream,
            "k",
            "left",
            when=nearest,
            where="q BETWEEN p - 2L AND p + 1L AND p >= q AND (y IS NULL OR p < y AND q < y)",
        ).select("s", "n"),
    }
    found = {name: Counter(cells(rows)) for name, rows in rows_of_all(results).items()}
    assert found["conditions"] == found["where"]
    assert any(n is not None for _, n in found["where"])
