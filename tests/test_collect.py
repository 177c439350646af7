"""`AsOf(collect=)`: what Spark's window and `collect_list` have of the same rows, in one array."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sessions
from cache_samples import Model
from oracle import rows_of_all
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import rows_of_each
from test_asof_ties import CACHED

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Hash
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.runtimes.python.worker import collecting

COLUMNS = {
    "k": "bigint",
    "q": "bigint",
    "i": "int",
    "t": "string",
    "d": "double",
    "f": "float",
    "c": "decimal(20,4)",
    "x": "binary",
    "y": "boolean",
    "at": "timestamp",
    "on": "date",
    "nt": "timestamp_ntz",
    "iv": "interval day to second",
}
PICKED = ["T", "q", "d", "c", "x", "at", "nt", "iv"]
WAYS = [
    AsOf("p", "q", collect="near"),
    AsOf("p", "q", "nearest", n=3, collect="near"),
    AsOf("p", "q", "forward", exact=False, n=4, collect="near"),
    AsOf("p", "q", "backward", exact=False, tolerance=12, n=2, collect="near"),
    AsOf("p", "q", "nearest", tolerance=6, n=2**31 - 1, collect="near"),
]
ORDERED = AsOf("p", "q", "nearest", n=5, order_by=["d DESC", "t NULLS LAST"], collect="near")


def table_of(spark: SparkSession) -> DataFrame:
    """Many rows of a point; keys without rows; NaN, zeros of both signs, nulls, empty texts."""
    u = "pmod(xxhash64(id, {}), {})".format
    columns = {
        "k": f"IF({u(0, 30)} = 0, NULL, {u(1, 5)})",
        "q": f"IF({u(2, 30)} = 0, NULL, {u(3, 60)})",
        "i": f"int({u(4, 9)})",
        "t": f"element_at(array('', 'a', 'ä', repeat('long ', 9)), 1 + int({u(5, 4)}))",
        "d": f"element_at(array(double('NaN'), -0.0D, 0.0D, double('-Infinity'), 1.5D), "
        f"1 + int({u(6, 5)}))",
        "f": f"float({u(7, 9)} / 8)",
        "c": "xxhash64(id, 8) / 10000bd",
        "x": f"unhex(repeat('00FF', int({u(9, 3)})))",
        "y": f"{u(10, 2)} = 0",
        "at": "timestamp_micros(xxhash64(id, 11) DIV 1000)",
        "on": f"date_add(date'1970-01-01', int({u(12, 40000)} - 20000))",
        "nt": "timestamp_ntz'1900-01-01 00:00:00' + make_dt_interval(0, 0, 0, 0.000001)",
        "iv": f"make_dt_interval({u(13, 2000)} - 1000, 0, 0, 0.5)",
    }
    texts = [
        f"CAST({text} AS {COLUMNS[name]}) AS `{name}`"
        if name in ("k", "q")
        else f"CAST(IF({u(50 + place, 6)} = 0, NULL, {text}) AS {COLUMNS[name]}) AS `{name}`"
        for place, (name, text) in enumerate(columns.items())
    ]
    return spark.range(900, numPartitions=3).selectExpr(*texts)


def stream_of(spark: SparkSession) -> DataFrame:
    """Points before, among and behind the table's; null keys and points, keys without rows."""
    return spark.sql(
        "SELECT id AS s, IF(id % 13 = 0, NULL, id % 7) AS k, IF(id % 11 = 0, NULL, id - 9) AS p "
        "FROM range(90)"
    )


def by_spark(
    stream: DataFrame, table: DataFrame, when: AsOf, how: str, columns: list[str], *, on: bool
) -> DataFrame:
    side = {"backward": "q <= p", "forward": "q >= p", "nearest": "abs(p - q) >= 0"}[when.direction]
    holds = [side, *(["s.k = t.k"] if on else []), *([] if when.exact else ["q <> p"])]
    holds += [] if when.tolerance is None else [f"abs(p - q) <= {when.tolerance}"]
    pairs = stream.alias("s").join(table.alias("t"), F.expr(" AND ".join(holds)))
    order = ["abs(p - q)", "q", *when.order_by, *(f"t.`{name}`" for name in COLUMNS)]
    numbered = F.expr(f"row_number() OVER (PARTITION BY s ORDER BY {', '.join(order)})")
    nearest = pairs.select("s", "t.*", numbered.alias("rn")).where(f"rn <= {when.n}")
    shown = [f"'{name}'" for name in COLUMNS for one in columns if one.lower() == name]
    values = ", ".join(f"{one}, `{one[1:-1]}`" for one in shown)
    inside = ", ".join(f"{one}, x.`{one[1:-1]}`" for one in shown)
    collected = f"sort_array(collect_list(named_struct('rn', rn, {values})))"
    lists = nearest.groupBy("s").agg(
        F.expr(f"transform({collected}, x -> named_struct({inside}))").alias("near")
    )
    return stream.join(lists, "s", how).select(
        *(f"s {name}".split()[-1] for name in stream.columns),
        F.coalesce("near", F.array()).alias("near"),
    )


def told(results: Mapping[str, DataFrame]) -> dict[str, list[str]]:
    """The rows of results whose arrays have the same type, from one action."""
    found = rows_of_all({name: df.select("s", "near") for name, df in results.items()})
    return {name: sorted(map(repr, rows.to_pylist())) for name, rows in found.items()}


@pytest.mark.parametrize(
    "ways", [WAYS[1:2], pytest.param(WAYS, marks=pytest.mark.long)], ids=["one", "all"]
)
def test_arrays_have_the_rows_that_spark_collects(
    spark: SparkSession, tmp_path: Path, ways: list[AsOf]
) -> None:
    """Of a stored table in both runtimes, and in turn of a cache; by two orders; without keys."""
    table, stream = table_of(spark).localCheckpoint(), stream_of(spark).localCheckpoint()
    with sessions.configured(spark, sessions.CODE["python"]):
        model = Model(tmp_path / "model", table.toArrow())
        built = BatchTable.build(table, on="k", when=Band("p", "q", 1, 1))
        alone = BatchTable.build(table, on=[], when=WAYS[0])
    names = [name for name in COLUMNS if name != "k"]
    picked = [name for name in COLUMNS if name in [one.lower() for one in PICKED]]
    hows = {str(when): ("left", "inner")[number % 2] for number, when in enumerate(ways)}
    inside = ", ".join(f"'{name.lower()}', x.`{name.lower()}`" for name in PICKED)
    array = f"transform(near, x -> named_struct({inside})) AS near"
    unkeyed = by_spark(stream, table, WAYS[1], "inner", picked, on=False)
    wanted = {
        "all": {
            str(when): by_spark(stream, table, when, hows[str(when)], names, on=True)
            for when in ways
        },
        "ordered": {"": by_spark(stream, table, ORDERED, "left", picked, on=True)},
        "alone": {"": unkeyed.selectExpr("s", "k", "p", array)},
    }
    with sessions.configured(spark, sessions.CODE["python"]):
        right = {label: told(own) for label, own in wanted.items()}
    assert all(any("[{" in row for row in rows) for own in right.values() for rows in own.values())
    of_model: Any = partial(bsjoin.join, stream, model, "k", cache=CACHED)
    of_table: Any = partial(bsjoin.join, stream, table, "k")
    of_built: Any = partial(built.join, stream)
    for runtime, few, by_turns in (
        ("jvm", of_table, (of_built, of_built)),
        ("python", of_model, (of_model, of_built)),
    ):
        with sessions.configured(spark, {"spark.bsjoin.runtime": runtime}):
            every = {
                str(when): by_turns[number % 2](how=hows[str(when)], when=when)
                for number, when in enumerate(ways)
            }
            ours: dict[str, dict[str, DataFrame]] = {
                "all": every,
                "ordered": {"": few(how="left", when=ORDERED, select=picked)},
                "alone": {"": alone.join(stream, when=WAYS[1], select=PICKED)},
            }
        for label, results in ours.items():
            for name, result in results.items():
                assert [(f.name, f.dataType.simpleString()) for f in result.schema] == [
                    (f.name, f.dataType.simpleString()) for f in wanted[label][name].schema
                ], name
            codes = ("jvm", "python") if (runtime, label) == ("jvm", "all") else (runtime,)
            for code in codes:  # the JVM also without generated code
                with sessions.configured(spark, sessions.CODE[code]):
                    assert told(results) == right[label], (runtime, code)


@pytest.mark.long
@pytest.mark.usefixtures("runtime")
def test_what_is_above_takes_a_part_of_the_array(spark: SparkSession, tmp_path: Path) -> None:
    table = spark.sql("SELECT id % 3 AS k, id AS q, string(id) AS t, array(id) AS a FROM range(30)")
    stream = spark.sql("SELECT id AS s, id % 4 AS k, id * 3 AS p FROM range(8)")
    when = AsOf("p", "q", tolerance=7, n=2, collect="near")
    built = BatchTable.build(table.drop("a"), on="k", when=when)
    joined = built.join(stream, how="left", indicator="found")
    assert joined.columns == ["s", "k", "p", "near", "found"]
    assert joined.count() == 8
    assert built.join(stream).select("k").count() == 6
    # A later join has a column of it as its key; arrays in arrays are for Python workers.
    names = BatchTable.build(table.selectExpr("q AS first", "t AS name", "a"), on="first")
    first = built.join(stream, partition=Hash(2)).selectExpr("s", "get(near, 0).q AS first")
    nested = bsjoin.join(stream, table, "k", when=when, select=["a"])
    right = [
        (0, [0], "0", True), (1, [1], "1", True), (2, [5, 2], "5", True), (3, [], None, False),
        (4, [12, 9], "12", True), (5, [13, 10], "13", True), (6, [17, 14], "17", True),
        (7, [], None, False),
    ]  # fmt: skip
    exploded = built.join(stream).selectExpr("s", "inline(near)").where("t <> '5'")
    results = {
        "taken": joined.selectExpr("s", "near.q AS q", "get(near, 0).t AS t", "found"),
        "exploded": exploded.select("s", "q"),
        "semi": built.join(stream, how="semi"),
        "anti": built.join(stream, how="anti", when=when),
        "later": names.join(first, "first").select("s", "name"),
        "nested": nested.where("s = 2").select("near.a"),
    }
    assert rows_of_each(results) == {
        "taken": right,
        "exploded": [(s, q) for s, found, _, _ in right for q in sorted(found) if q != 5],
        "semi": [(s, s % 4, 3 * s) for s in range(8) if s % 4 < 3],
        "anti": [(3, 3, 9), (7, 3, 21)],
        "later": [(s, t) for s, _, t, found in right if found],
        "nested": [([[5], [2]],)],
    }
    # What is collected is of a join; its store has the rows for others.
    store = Full(store=tmp_path / "store")
    assert bsjoin.join(stream, table, "k", when=when, cache=store, select=["q"]).count() == 6
    assert {"q", "t"} <= {*BatchTable.open(tmp_path / "store").columns}


def test_what_cannot_be_an_array_is_refused_at_the_call(spark: SparkSession) -> None:
    stream = spark.sql("SELECT 1L AS k, 2L AS p")
    table = spark.sql("SELECT 1L AS k, 2L AS q, NULL AS nothing")
    when = AsOf("p", "q", collect="near")
    for bad in ("", 1, ["a"], True):
        with pytest.raises(ArgumentError, match="give the name of the column"):
            AsOf("p", "q", collect=bad)  # type: ignore[arg-type]
    for whens, arguments, error, rule in [
        (when, {"where": "q > 1"}, ArgumentError, "where='q > 1'.*without collect"),
        ([when, Band("p", "q", 1, 1)], {}, ArgumentError, "other range conditions"),
        (when, {"select": []}, ArgumentError, "no column for the structs"),
        (when, {"select": ["r"]}, ColumnError, "no column 'r'"),
        (when, {}, ColumnError, "'nothing' has the type void"),
        (AsOf("p", "q", collect="P"), {"select": ["q"]}, ColumnError, "collect='P': the stream"),
        (when, {"select": ["q"], "how": "left", "indicator": "near"}, ColumnError, "indicator="),
        (when, {"select": ["q"], "how": "semi"}, ArgumentError, "brings no column"),
    ]:
        with pytest.raises(error, match=rule):
            bsjoin.join(stream, table, "k", when=whens, **arguments)  # type: ignore[call-overload]
    keys = BatchTable.build(table.select("k"), on=[], when=AsOf("p", "k", collect="near"))
    assert keys.join(stream.select("p")).collect() == [(2, [(1,)])]
    with pytest.raises(ArgumentError, match=r"was built with collect='near', and joined with wher"):
        keys.join(stream.select("p"), where="p > 1")
    assert repr(AsOf("p", "q")).endswith("n=1)")
    assert repr(when).endswith("n=1, collect='near')")
    assert when != AsOf("p", "q")


def test_lists_are_made_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them may be longer than what is made together."""
    monkeypatch.setattr(collecting, "_TOGETHER", 10)
    counts = [3, 40, 1, 1, 12, 9, 25]
    positions = np.repeat(np.arange(len(counts)) * 2, counts)
    found = np.arange(len(positions))[::-1].copy()
    element = pa.struct([pa.field("v", pa.int64())])
    plan: Any = SimpleNamespace(
        types=[pa.int64()],
        aggregates=[SimpleNamespace(type=pa.list_(pa.field("element", element, nullable=False)))],
    )
    source = SimpleNamespace(gather=lambda rows, _: [pa.array(rows * 10)])
    group: Any = SimpleNamespace(source=source, numbers=lambda rows: rows)
    pieces = [(positions[at : at + 7], found[at : at + 7]) for at in range(0, len(found), 7)]
    made = list(collecting.collected(plan, group, pieces))
    assert len(made) > 3
    assert np.concatenate([where for where, _ in made]).tolist() == [0, 2, 4, 6, 8, 10, 12]
    lists = [one for _, some in made for one in some.to_pylist()]
    assert [len(one) for one in lists] == counts
    assert [row["v"] for one in lists for row in one] == (found * 10).tolist()
    assert collecting.empty_lists(plan, 2).to_pylist() == [[], []]
    assert len(collecting.empty_lists(plan, 0)) == 0
