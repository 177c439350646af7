"""Points that are found ahead of their rows, and rows with any number of matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from plain_joins import CODE, KINDS, check_same, lookups, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from test_keys_ahead import ahead

from bsjoin import AsOf, Band, BatchTable
from tests.oracle import together

_DRAWN = "abs(hash(id, 3)) % 400"
POINTS = {
    "bigint": f"CASE id % 50 WHEN 0 THEN {-(2**63)} WHEN 1 THEN {2**63 - 1} ELSE {_DRAWN} END",
    "int": f"CAST({_DRAWN} AS INT)",
    "date": f"date_add(DATE'2026-01-01', CAST({_DRAWN} DIV 9 AS INT))",
    "timestamp": f"timestamp_micros({_DRAWN} * 60000000L)",
    "double": f"CASE id % 40 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') "
    f"WHEN 2 THEN -0.0D WHEN 3 THEN 0.0D ELSE {_DRAWN} / 8.0D END",
}
WIDTHS: dict[str, tuple[Any, str]] = {
    "int": (3, "3"),
    "date": ("2 days", "INTERVAL '2' DAY"),
    "timestamp": ("150 seconds", "INTERVAL '150' SECOND"),
    "double": (1.5, "1.5D"),
}
TABLES = {"bigint": [], "int": ["k"], "date": ["s"], "timestamp": [], "double": ["k"]}
"""Keys by the type of the points: none, few with many rows, many with few rows."""
KEYS = ("IF(id % 13 = 0, NULL, id % 9) AS k", "IF(id % 7 = 0, NULL, concat('s', id % 100)) AS s")
DIRECTIONS = ("backward", "forward", "nearest")


def rows_of(spark: SparkSession, kind: str, rows: int) -> DataFrame:
    null = f"IF(id % 11 = 0, NULL, {POINTS[kind]})"
    return spark.range(rows).selectExpr("id", *KEYS, f"{null} AS p")


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the tables; batches of streams are no multiple of the rows found at once."""
    with configured(spark, {"spark.sql.parquet.columnarReaderBatchSize": "600"}):
        yield tmp_path_factory.mktemp("points")


def streamed(spark: SparkSession, stored: Path, kind: str) -> DataFrame:
    """A stream, of a Parquet file; it and the table of its kind are made at the first call."""
    path = stored / f"stream-{kind}"
    if not path.exists():
        rows = rows_of(spark, kind, 700).selectExpr("id AS v", "k", "s", "p AS t")
        BatchTable.build(rows, on=TABLES[kind], when=AsOf("p", "t"), path=stored / kind)
        rows_of(spark, kind, 1500).coalesce(1).write.parquet(str(path))
    return spark.read.parquet(str(path))


def joined(spark: SparkSession, stored: Path, kind: str, how: str, condition: str) -> DataFrame:
    streamed(spark, stored, kind).createOrReplaceTempView(f"s_{kind}")
    on = " AND ".join([*(f"s.{key} = t.{key}" for key in TABLES[kind]), condition])
    columns = "s.id, s.p" if how in ("LEFT SEMI", "LEFT ANTI") else "s.id, s.p, t.v, t.t"
    text = f"SELECT {columns} FROM s_{kind} s {how} JOIN bsjoin.`{stored / kind}` t ON {on}"
    return spark.sql(text)


def banded(spark: SparkSession, stored: Path, kind: str, how: str) -> DataFrame:
    stream = streamed(spark, stored, kind)
    width = WIDTHS[kind][0]
    table = BatchTable.open(str(stored / kind))
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        df = table.join(stream, TABLES[kind], when=Band("p", "t", width, width), how=how)
    return df.select("id", "p", *([] if how in ("semi", "anti") else ["v", "t"]))


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.long)])
def test_bands(spark: SparkSession, stored: Path, step: int) -> None:
    ours, right = [], []
    for number, (kind, (_, width)) in [*enumerate(WIDTHS.items())][::step]:
        how, sql = KINDS[number], ("INNER", "LEFT", "LEFT SEMI", "LEFT ANTI")[number]
        ours.append(partial(banded, spark, stored, kind, how))
        within = f"t.t BETWEEN s.p - {width} AND s.p + {width}"
        right.append(partial(joined, spark, stored, kind, sql, within))
    check_same(spark, *ours, right=right)
    assert {ahead(spark, query) for query in ours} == {1}


RUNS: dict[str, tuple[Any, str]] = {
    "timestamp": ("40 minutes", "INTERVAL '40' MINUTE"),
    "double": (12.5, "12.5D"),
}
"""Widths of more rows than a block of their aggregates has."""
AGG = ("count(v)", "sum(v)", "min(v)", "max(v)", "count({0})", "min({0})", "avg({0})")
"""Of a column without nulls, and of one with nulls; of texts only how many there are."""


def aggregates(kind: str) -> dict[str, str]:
    other, some = ("s", AGG[:5]) if TABLES[kind] == ["k"] else ("k", AGG)
    return {f"a{number}": text.format(other) for number, text in enumerate(some)}


def aggregated(spark: SparkSession, stored: Path, kind: str, how: str) -> DataFrame:
    stream = streamed(spark, stored, kind)
    table, width, agg = BatchTable.open(str(stored / kind)), RUNS[kind][0], aggregates(kind)
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        df = table.join(stream, TABLES[kind], when=Band("p", "t", width, width, agg=agg), how=how)
    return df.select("id", *agg)


def of_pairs(spark: SparkSession, stored: Path, kind: str, how: str) -> DataFrame:
    """The same by the rows of the join."""
    streamed(spark, stored, kind).createOrReplaceTempView(f"s_{kind}")
    width = RUNS[kind][1]
    keys = "".join(f"s.{key} = t.{key} AND " for key in TABLES[kind])
    calls = (f"{text.replace('(', '(t.')} AS {name}" for name, text in aggregates(kind).items())
    return spark.sql(
        f"SELECT s.id, {', '.join(calls)} FROM s_{kind} s {how} JOIN bsjoin.`{stored / kind}` t "
        f"ON {keys}t.t BETWEEN p - {width} AND p + {width} GROUP BY s.id"
    )


@pytest.mark.long
@pytest.mark.parametrize(("kind", "how"), [("timestamp", "inner"), ("double", "left")])
def test_aggregates(spark: SparkSession, stored: Path, kind: str, how: str) -> None:
    """Both ends of a run are found ahead of its rows."""
    ours, right = (partial(way, spark, stored, kind, how) for way in (aggregated, of_pairs))
    check_same(spark, ours, right=[right])
    assert ahead(spark, ours) == 1


@pytest.mark.long
def test_as_of(spark: SparkSession, stored: Path) -> None:
    """Ahead of their rows, and one after the other, which other tests hold against an oracle."""
    queries = [
        partial(joined, spark, stored, kind, "LEFT", f"bsjoin.as_of(s.p, t.t, '{way}'{more})")
        for i, kind in enumerate(TABLES)
        for j, way in enumerate(DIRECTIONS)
        if i in (0, 2 + j)
        for more in [("", ", NULL, false", ", NULL, true, 3")[(i + j) % 3]]
    ]
    found = []
    for code in ("stage", "interpreted"):
        with configured(spark, CODE[code]):
            all_rows = together(
                {
                    i: query().selectExpr("to_json(struct(*)) AS j")
                    for i, query in enumerate(queries)
                }
            )
            assert lookups(all_rows) == len(queries)
            found.append(sorted(map(tuple, all_rows.collect())))
    assert found[0] == found[1]
    assert [ahead(spark, query) for query in queries[2:]] == [1] * 4


@pytest.mark.parametrize(
    ("columns", "batch"), [("id k p", 70), pytest.param("id k s p", 10_000, marks=pytest.mark.long)]
)
def test_rows_of_the_cache(spark: SparkSession, stored: Path, columns: str, batch: int) -> None:
    """A stream in Spark's memory and a large index: numbers come in batches, others are copied."""
    large = spark.range(100_000).selectExpr("id AS v", "id % 40 AS k", "id * 37 % 4001 AS t")
    table = BatchTable.build(large, on="k", when=AsOf("p", "t"), path=stored / f"large {batch}")
    with configured(spark, {"spark.sql.inMemoryColumnarStorage.batchSize": str(batch)}):
        stream = rows_of(spark, "int", 1500).select(columns.split()).repartition(2).cache()
        stream.count()
    stream.createOrReplaceTempView("s_cached")
    large.createOrReplaceTempView("t_large")
    try:

        def query(which: str) -> DataFrame:
            with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
                df = table.join(stream.where(which), "k", when=Band("p", "t", 1, 4), how="left")
            return df.select("id", "p", "v", "t")

        wheres = ("id % 5 < 3", "id % 97 = 3")
        right = """
        SELECT s.id, s.p, t.v, t.t FROM (SELECT * FROM s_cached WHERE {}) s
        LEFT JOIN t_large t ON s.k = t.k AND t.t BETWEEN s.p - 1 AND s.p + 4
        """
        check_same(
            spark,
            *(partial(query, which) for which in wheres),
            right=[partial(spark.sql, right.format(which)) for which in wheres],
            codes=["adaptive"],
        )
        assert ahead(spark, partial(query, wheres[0])) == 1
        with configured(spark, {"spark.sql.adaptive.enabled": "false"}):
            text = query(wheres[0])._jdf.queryExecution().toRdd().toDebugString()
        assert ("executeColumnar at LookupExec" in text) == ("s" not in columns.split()), text
    finally:
        stream.unpersist(blocking=True)


def test_keys_that_have_changed(spark: SparkSession, stored: Path) -> None:
    """Of a text key that has other rows in a layer, and of one that is gone."""
    assert streamed(spark, stored, "date").columns
    table = BatchTable.open(str(stored / "date"))
    changes = rows_of(spark, "date", 700).where("s IN ('s8', 's57') AND p IS NOT NULL")
    changes = changes.selectExpr(
        "id AS v", "k", "s", "p + INTERVAL '1' DAY AS t", "IF(s = 's8', 'delete', 'update') AS op"
    )
    assert table.apply(changes, key="v") == 2
    within = "t.t BETWEEN s.p - INTERVAL '2' DAY AND s.p + INTERVAL '2' DAY"
    right = partial(joined, spark, stored, "date", "LEFT", within)
    check_same(spark, partial(banded, spark, stored, "date", "left"), right=[right])
    found = banded(spark, stored, "date", "inner").where("v % 100 IN (8, 57)")
    assert {row.v % 100 for row in found.collect()} == {57}


MANY = 5_000  # more rows of a key than generated code keeps
CONDITIONS = ("a >= p - 40 AND a <= p + 35", "a >= p - 40 AND a <= p + 35 AND v % 3 = id % 3")
WIDE: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    **{
        f"{how}, {condition}": lambda s, t, how=how, condition=condition: s.join(
            t, F.expr(condition), how
        )
        for how, condition in zip(("inner", "left"), CONDITIONS, strict=True)
    },
    "all rows match": lambda s, t: s.where("id < 3").join(t, F.expr("a >= p - 9999")),
    "sums": lambda s, t: s.join(t, F.expr(CONDITIONS[0]), "left").selectExpr(
        "count(*)", "sum(id)", "sum(v)", "max(name)"
    ),
    "two in a row": lambda s, t: (
        s.join(t, F.expr(CONDITIONS[1]), "left")
        .selectExpr("id", "p", "v AS w", "name AS n")
        .where("w IS NULL OR w % 11 = 0")
        .join(t, F.expr(CONDITIONS[0]), "left")
    ),
}


@pytest.mark.parametrize("names", [[*WIDE][1::2], pytest.param([*WIDE], marks=pytest.mark.long)])
def test_many_matches(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    """A stage stops among the matches of a row, and goes on there."""
    rows = spark.range(MANY).selectExpr("id * 7 % 5003 AS a", "id AS v", "concat('n', id) AS name")
    BatchTable.build(rows, on=[], when=Band("p", "a", 1, 1), path=tmp_path / "t")
    table = spark.read.format("bsjoin").load(str(tmp_path / "t"))
    stream = spark.range(60).selectExpr("id", "IF(id % 7 = 0, NULL, id * 101) AS p").repartition(2)
    queries = {name: partial(WIDE[name], stream, table) for name in names}
    found = [2 if name == "two in a row" else 1 for name in queries]
    # Code that does not compile would be left out in silence.
    with configured(spark, {"spark.sql.codegen.fallback": "false"}):
        check_same(spark, *queries.values(), found=found)
    with configured(spark, CODE["stage"]):
        plan = plan_of(queries["sums"]())
    assert "BsjoinStageEnd" in plan
    assert re.search(r"\*\(\d+\) BsjoinLookup", plan)
