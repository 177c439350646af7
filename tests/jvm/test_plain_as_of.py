"""As-of in the condition of a plain join: as by ``bsjoin.join``, or an error that says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from oracle import united
from plain_joins import CODE, lookups
from plain_ranges import Ranges, answers, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sessions import configured

import bsjoin
from bsjoin import AsOf, BatchTable, Within

RAISED = (Py4JJavaError, PySparkException)
DIRECTIONS = ("backward", "forward", "nearest")
TOLERANCES: dict[str, list[tuple[str, Any]]] = {
    "int": [("2", 2), ("0", 0)],
    "long": [("2", 2), ("2.5BD", 2.5)],
    "timestamp": [("INTERVAL '90' MINUTE", "90 minutes"), ("5400", 5400), ("0.5BD", 0.5)],
    "timestamp_ntz": [("INTERVAL '2' DAY", "2 days")],
    "decimal": [("0.25BD", 0.25), ("0.125", 0.125)],
    "float": [("1", 1)],
    "wide": [("0.25BD", 0.25), ("0.00125BD", 0.00125)],
    "string": [],
}
ALIKE = {"int": "012", "decimal": "0124", "long": "0123", "wide": "012", "string": "01"}
"""The stream's types that can be compared with the table's, by their numbers; otherwise one."""
SHORT = ("long", "timestamp", "string")
"""Of which the others are kinds: left to ``make long``."""


def test_the_value_may_be_the_key_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Spark infers the same call for the table's side alone, with the table's key as the value."""
    rows = spark.range(30).selectExpr("id % 6 AS k", "id % 11 AS p", "id AS v")
    table = BatchTable.build(rows, on="k", when=AsOf("k", "p"), path=tmp_path / "t")
    stream = spark.range(8).selectExpr("id AS k")
    stream.createOrReplaceTempView("s")
    query = (
        f"SELECT s.k, p, v FROM s JOIN bsjoin.`{table.path}` t ON s.k = t.k AND bsjoin.as_of({{}})"
    )
    found = spark.sql(query.format("s.k, t.p"))
    assert lookups(found) == 1
    with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
        wanted = bsjoin.join(stream, table, "k", when=AsOf("k", "p")).select("k", "p", "v")
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, wanted.collect()))
    assert found.count()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=[] if one in SHORT else pytest.mark.long) for one in TOLERANCES],
)
def test_as_of_is_that_of_the_join_function(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Types of the stream and tolerances with all directions, in turns."""
    ranges = Ranges(kind, 7)
    table = BatchTable.build(
        ranges.table(spark), on="k", when=AsOf("a", "p", order_by="v DESC"), path=tmp_path / "t"
    )
    parts, wanted = [], []
    directions = DIRECTIONS if TOLERANCES[kind] else DIRECTIONS[:2]  # texts have no distances
    dtypes = [*map(int, ALIKE.get(kind, "0"))]
    cases = [
        (dtype, *written, exact)
        for dtype in dtypes
        for written in [("NULL", None), *TOLERANCES[kind]]
        for exact in (True, False)
    ]
    cases = cases[:: 5 if len(cases) > 8 else 1]  # each of all three
    streams = {dtype: ranges.stream(spark, dtype) for dtype in dtypes}
    for dtype, stream in streams.items():
        stream.createOrReplaceTempView(f"s{dtype}")
    for number, (dtype, text, tolerance, exact) in enumerate(cases):
        direction: Any = directions[number % len(directions)]
        n = (1, 2, 5)[number // 2 % 3]
        when = AsOf("a", "p", direction, tolerance, exact, "v DESC", n)
        with configured(spark, {"spark.bsjoin.runtime": "jvm"}):
            df = bsjoin.join(streams[dtype], table, "k", when=when, how="left")
            wanted.append(df.selectExpr(f"{number}", "id", "id_batch"))
        call = f"bsjoin.as_of(s.a, t.p, '{direction}', {text}, {str(exact).lower()}"
        call += f", {n}{'LSY'[number % 3]})" if n > 1 else ")"
        parts.append(
            f"SELECT {number}, s.id, t.id FROM s{dtype} s "
            f"LEFT JOIN bsjoin.`{table.path}` t ON s.k = t.k AND {call}"
        )
    with configured(spark, CODE["stage" if kind == "timestamp" else "interpreted"]):
        result = spark.sql("\nUNION ALL\n".join(parts))
        assert lookups(result) == len(parts)
        found = rows_of(result)
    with configured(spark, CODE["interpreted"]):
        assert found == rows_of(united(wanted))


def test_other_conditions_are_of_the_row_that_is_found(spark: SparkSession, tmp_path: Path) -> None:
    ranges = Ranges("timestamp", 3)
    table = BatchTable.build(ranges.table(spark), when=AsOf("a", "p"), on="k", path=tmp_path / "t")
    stream = ranges.stream(spark)
    stream.createOrReplaceTempView("s")
    nearest = bsjoin.join(stream, table, "k", when=AsOf("a", "p"), how="left")
    wanted = rows_of(nearest.where("v > 2").selectExpr("id", "id_batch"))
    stored = f"bsjoin.`{table.path}`"
    call = "t.k = s.k AND bsjoin.as_of(s.a, t.p)"
    for query in (
        f"FROM s JOIN {stored} t ON {call} AND t.v > 2",
        f"FROM s JOIN {stored} t ON {call} WHERE t.v > 2",
        f"FROM {stored} t JOIN s ON {call} AND t.v > 2",
    ):
        df = spark.sql(f"SELECT s.id, t.id {query}")
        assert lookups(df) == 1
        assert rows_of(df) == wanted
    left = spark.sql(
        f"SELECT s.id FROM s LEFT ANTI JOIN {stored} t "
        "ON s.k = t.k AND bsjoin.as_of(s.a, t.p, 'forward')"
    )
    forward = bsjoin.join(stream, table, "k", when=AsOf("a", "p", direction="forward"), how="anti")
    assert rows_of(left) == rows_of(forward.select("id"))


def test_what_is_wrong_with_a_call_is_said(spark: SparkSession, tmp_path: Path) -> None:
    ranges = Ranges("long", 1)
    table = BatchTable.build(ranges.table(spark), on="k", when=AsOf("a", "p"), path=tmp_path / "t")
    ranges.stream(spark).createOrReplaceTempView("s")
    query = f"SELECT * FROM s JOIN bsjoin.`{table.path}` t ON s.k = t.k AND bsjoin.as_of"
    for call, said in {
        "s.a": "takes 2 to 6 arguments, not 1",
        "s.a, t.p, 'later'": "its direction is later. Give 'backward', 'forward' or 'nearest'",
        "s.a, t.p, 'forward', -1": "it must not be negative",
        "s.a, t.p, 'forward', INTERVAL '1' DAY": "the columns are bigint. Give a number",
        "s.a, t.p, 'forward', s.a": "the tolerance is .* Give a constant",
        "s.a, t.p, 'forward', NULL, 'no'": "its fifth argument is no. Give true or false",
        "s.a, t.p, 'forward', NULL, true, 0": "its sixth argument is 0. Give how many rows match",
        "s.a, t.p, 'forward', NULL, true, 2147483648": "its sixth argument is 2147483648. Give",
        "s.a, t.p, 'forward', NULL, true, s.k": "the sixth argument is .* Give a constant",
        "s.a, t.v": "the table is sorted by p. Give that column",
        "string(s.a), t.p": "which are not of one family. Cast one side",
    }.items():
        with pytest.raises(PySparkException, match=f"(?i){said}"):
            spark.sql(f"{query}({call})").collect()
    for kind, calls in {
        "string": {"s.a, t.p, 'nearest'": "which has an order but no distances. Give 'backward'"},
        "wide": {"CAST(s.id AS DECIMAL(38,0)), t.p": "needs more than 38 digits. Cast the former"},
    }.items():
        given = Ranges(kind, 1)
        path = BatchTable.build(given.table(spark), on="k", when=AsOf("a", "p")).path
        given.stream(spark).createOrReplaceTempView("s")
        for call, said in calls.items():
            with pytest.raises(PySparkException, match=f"(?i){said}"):
                spark.sql(f"{query}({call})".replace(table.path, path)).collect()
    ranges.stream(spark).createOrReplaceTempView("s")
    # Without the index there is no answer.
    rows = ranges.table(spark)
    intervals = BatchTable.build(rows, on="k", when=Within("a", "p", "q"), path=tmp_path / "q")
    said = "bsjoin.as_of\\(...\\) is answered by the index of a stored table only"
    query += "(s.a, t.p)"
    with configured(spark, {"spark.bsjoin.planner": "off"}), pytest.raises(RAISED, match=said):
        spark.sql(query).collect()
    with pytest.raises(RAISED, match=said):  # not all of the key
        spark.sql(query.replace("s.k = t.k AND", "")).collect()
    with pytest.raises(RAISED, match=said):
        spark.sql("SELECT bsjoin.as_of(id, id) FROM range(1)").collect()
    with pytest.raises(PySparkException, match="it is not sorted by one column"):
        spark.sql(query.replace(table.path, intervals.path)).collect()


@pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="Spark has no ASOF JOIN"
)
@pytest.mark.parametrize(("kind", "answered"), [("timestamp", 4), ("double", 0)])
def test_the_asof_join_of_spark(
    spark: SparkSession, tmp_path: Path, kind: str, answered: int
) -> None:
    """Of rows with the same key and point Spark takes any one: there are none here."""
    ranges = Ranges(kind, 5)
    rows = ranges.table(spark).dropDuplicates(["k", "p"]).localCheckpoint()
    table = BatchTable.build(rows, on="k", when=AsOf("a", "p"), path=tmp_path / "t")
    ranges.stream(spark).createOrReplaceTempView("s")
    joins = [(">=", "LEFT", ""), (">", "", ""), ("<=", "LEFT", ""), ("<", "", "")]
    query = "\nUNION ALL\n".join(
        f"SELECT {number}, s.id, t.id FROM s {how} ASOF JOIN "
        f"(SELECT * FROM bsjoin.`{table.path}` {filtered}) t "
        f"MATCH_CONDITION (s.a {sign} t.p) ON s.k = t.k"
        for number, (sign, how, filtered) in enumerate([*joins, (">", "LEFT", "WHERE v > 2")])
    )
    with configured(spark, {"spark.sql.join.asofJoin.enabled": "true"}):
        if answered:
            assert len(answers(spark, query)) == answered
        else:
            assert lookups(spark.sql(query)) == 0
