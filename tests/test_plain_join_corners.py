"""Corners of plain joins in SQL where a planner may lose or add rows: the rows are Spark's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import collected, counted
from plain_joins import lookups, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from real_time_queries import planned_in_real_time

from bsjoin import BatchTable
from tests import sessions
from tests.sessions import configured

_PEOPLE = """SELECT id AS k, if(id % 6 = 1, null, concat('n', id % 7)) AS name,
cast(if(id % 5 = 2, null, id % 4) AS int) AS tier, id % 3 = 0 AS ok
FROM range(20) WHERE id NOT IN (3, 8)"""
_ITEMS = """SELECT if(id % 11 = 4, null, concat('c', id % 9)) AS code, id AS n,
cast(id % 5 AS decimal(10,2)) AS price FROM range(24)"""
_GRADES = """SELECT CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN null
ELSE id * 0.5D END AS x, id AS n FROM range(8)"""
_DAYS = "SELECT date_add(DATE'2024-02-26', cast(id AS int)) AS d, id AS n FROM range(5)"
_PADDED = "SELECT cast(concat('c', id) AS char(4)) AS code, id AS n FROM range(6)"
_TABLES = {
    "people": (_PEOPLE, "k"), "items": (_ITEMS, "code"), "grades": (_GRADES, "x"),
    "days": (_DAYS, "d"), "padded": (_PADDED, "code"),
}  # fmt: skip
_ORDERS = """SELECT id, if(id % 7 = 3, null, id % 23) AS k, cast(id % 20 AS int) AS i,
if(id % 8 = 5, null, concat('c', id % 12)) AS code, cast(id % 6 AS int) AS lim,
CASE id % 6 WHEN 0 THEN double('NaN') WHEN 1 THEN 0.0D WHEN 2 THEN -0.0D WHEN 3 THEN null
ELSE id % 8 * 0.5D END AS x, cast(id % 9 AS decimal(12,3)) AS p,
timestamp_seconds(1708905600 + id * 43200) AS at,
if(id % 4 = 3, null, named_struct('u', if(id % 3 = 1, null, id % 20), 'v', string(id))) AS s
FROM range(60)"""

BY_INDEX = {
    "a filter on the table's key beside the equality":
        "SELECT o.id, p.name FROM orders o LEFT JOIN {people} p ON o.k = p.k AND p.k > 4",
    "a filter on the stream's key beside the equality":
        "SELECT o.id, p.name FROM orders o LEFT JOIN {people} p ON o.k = p.k AND o.k > 4",
    "a filter on the key above an inner join":
        "SELECT o.id, p.name FROM orders o JOIN {people} p ON o.k = p.k WHERE p.k < 9 AND o.i > 2",
    "a higher-order function in a semi join":
        "SELECT o.id FROM orders o LEFT SEMI JOIN {people} p ON o.k = p.k "
        "AND size(map_filter(map('a', o.lim, 'b', p.tier), (n, v) -> v >= p.tier)) > 1",
    "a part of a struct that is not null":
        "SELECT o.id, o.s, p.k FROM orders o LEFT JOIN {people} p ON o.k = p.k "
        "AND o.s.u IS NOT NULL",
    "a part of a struct as key":
        "SELECT o.id, p.name FROM orders o LEFT JOIN {people} p ON o.s.u = p.k AND o.s.v < '5'",
    "a struct that is null":
        "SELECT o.id, p.k, o.s.v FROM orders o JOIN {people} p ON o.k = p.k AND o.s IS NULL",
    "joins in a row, the first of which drops rows":
        "SELECT o.id, p.name, i.n FROM orders o JOIN {people} p ON o.k = p.k AND p.tier = 1 "
        "LEFT JOIN {items} i ON o.code = i.code LEFT ANTI JOIN {grades} g ON g.x = o.x",
    "a key from the table before":
        "SELECT o.id, i.n, p.name FROM orders o LEFT JOIN {items} i ON o.code = i.code "
        "LEFT JOIN {people} p ON i.n = p.k AND p.tier >= o.lim",
    "a condition of three joins":
        "SELECT o.id, i.n FROM orders o JOIN {people} p ON o.k = p.k JOIN {items} i "
        "ON o.code = i.code AND i.n > p.k LEFT JOIN {people} q ON q.k = i.n AND q.tier <> p.tier",
    "NaN and zeros": "SELECT o.id, g.x, g.n FROM orders o LEFT JOIN {grades} g ON o.x = g.x",
    "an expression as key":
        "SELECT o.id, p.name FROM orders o LEFT JOIN {people} p ON coalesce(o.k, o.lim) + 1 = p.k",
    "a narrower key": "SELECT o.id, p.name FROM orders o LEFT JOIN {people} p ON o.i = p.k",
    "the table on the left": "SELECT o.id, p.k FROM {people} p RIGHT JOIN orders o ON o.k = p.k",
    "EXISTS beside OR":
        "SELECT o.id FROM orders o WHERE o.lim = 2 OR EXISTS "
        "(SELECT 1 FROM {people} p WHERE p.k = o.k AND p.tier > 1)",
    "IN of a selection":
        "SELECT o.id FROM orders o WHERE o.k IN (SELECT k FROM {people} WHERE ok)",
    "a table joined twice":
        "SELECT o.id, p.name, q.name FROM orders o JOIN {people} p ON o.k = p.k "
        "LEFT JOIN {people} q ON o.i = q.k",
    "a table joined with itself":
        "SELECT p.k, q.name FROM {people} p JOIN {people} q ON p.k = q.k",
    "a selection with a computed column":
        "SELECT o.id, p.z FROM orders o LEFT JOIN (SELECT k, coalesce(tier, -1) AS z FROM {people} "
        "WHERE ok) p ON o.k = p.k AND p.z < 3",
    "a constant in the place of missing rows":
        "SELECT o.id, p.one, p.k FROM orders o LEFT JOIN (SELECT *, 1 AS one FROM {people}) p "
        "ON o.k = p.k",
    "below a window and an aggregate":
        "SELECT name, count(*), max(r) FROM (SELECT p.name, rank() OVER (PARTITION BY p.tier "
        "ORDER BY o.id) AS r FROM orders o JOIN {people} p ON o.k = p.k) GROUP BY name",
    "above an aggregate":
        "SELECT p.name, a.n FROM (SELECT k, count(*) AS n FROM orders GROUP BY k) a "
        "LEFT JOIN {people} p ON a.k = p.k",
    "above a limit":
        "SELECT o.id, p.name FROM (SELECT * FROM orders ORDER BY id LIMIT 9) o "
        "LEFT JOIN {people} p ON o.k = p.k",
    "<=> where neither side is null":
        "SELECT o.id, p.name FROM orders o JOIN {people} p ON o.id <=> p.k",
    "rand() on the stream's side":
        "SELECT o.id, p.name FROM (SELECT *, rand() >= 0 AS r FROM orders) o "
        "LEFT JOIN {people} p ON o.k = p.k AND o.r",
}  # fmt: skip

ANYWAY = {
    "not all of the condition is an equality of keys":
        "SELECT o.id, p.name FROM orders o JOIN {people} p ON o.k = p.k OR o.i = p.k",
    "<=> on nullable keys":
        "SELECT o.id, p.n FROM orders o LEFT JOIN {items} p ON o.code <=> p.code",
    "NOT IN of a table with null keys":
        "SELECT o.id FROM orders o WHERE o.code NOT IN (SELECT code FROM {items}) OR o.lim = 2",
    "NOT IN of an empty selection":
        "SELECT o.id FROM orders o WHERE o.code NOT IN (SELECT code FROM {items} WHERE n > 99)",
    "a decimal of another scale":
        "SELECT o.id, i.n FROM orders o LEFT JOIN {items} i ON o.p = i.price AND o.code = i.code",
    "a timestamp against a date": "SELECT o.id, d.n FROM orders o JOIN {days} d ON o.at = d.d",
    "a date of a timestamp":
        "SELECT o.id, d.n FROM orders o JOIN {days} d ON CAST(o.at AS DATE) = d.d",
    "CHAR keys":
        "SELECT o.id, c.n FROM orders o LEFT JOIN {padded} c ON rpad(o.code, 4, ' ') = c.code",
    "CHAR keys against a text":
        "SELECT o.id, c.n FROM orders o LEFT JOIN {padded} c ON o.code = c.code",
    "a scalar subquery in the condition":
        "SELECT o.id, p.name FROM orders o JOIN {people} p ON o.k = p.k "
        "AND p.tier < (SELECT max(tier) FROM {people})",
    "the table alone": "SELECT count(*), count(code), max(n) FROM {items}",
    "a selection of the table alone": "SELECT k, name FROM {people} WHERE k IN (1, 2, 19)",
    "a hint for another join":
        "SELECT /*+ MERGE(p) */ o.id, p.name FROM orders o JOIN {people} p ON o.k = p.k",
    "intersection": "SELECT k FROM orders INTERSECT SELECT k FROM {people}",
    "difference": "SELECT code FROM orders EXCEPT SELECT code FROM {items}",
}  # fmt: skip
"""Answered by Spark's own joins where the index cannot; the rows are the same."""

CODE = {"generated": {}, "interpreted": sessions.CODE["python"]}
_RIGHT: dict[str, Counter[tuple[Any, ...]]] = {}


@pytest.fixture(scope="module")
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The paths of the tables, as SQL names them."""
    folder, found = tmp_path_factory.mktemp("corners"), {}
    for name, (query, key) in _TABLES.items():
        file = str(folder / f"{name}.parquet")
        spark.sql(query).coalesce(1).write.parquet(file)
        rows = spark.sql(query) if name == "padded" else spark.read.parquet(file)
        table = BatchTable.build(rows, on=key, path=folder / name)
        table.to_df(spark)  # which attaches the jar
        found[name] = f"bsjoin.`{table.path}`"
        found[f"rows of {name}"] = f"parquet.`{file}`"
    return found


@pytest.fixture(autouse=True)
def _orders(spark: SparkSession) -> None:
    spark.sql(_ORDERS).createOrReplaceTempView("orders")


@pytest.fixture(params=CODE)
def code(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    with configured(spark, CODE[request.param]):
        yield request.param


def right_rows(spark: SparkSession, names: dict[str, str], query: str) -> Counter[tuple[Any, ...]]:
    """What Spark's own joins answer, interpreted, and asked once: settings change no row."""
    if query not in _RIGHT:
        plain = {name: names[f"rows of {name}"] for name in _TABLES}
        with configured(spark, CODE["interpreted"]):
            _RIGHT[query] = counted(collected(spark.sql(query.format_map(plain))))
    return _RIGHT[query]


def answered(spark: SparkSession, names: dict[str, str], query: str) -> DataFrame:
    """The query over the stored tables, whose rows are those of the query over their sources."""
    found, right = spark.sql(query.format_map(names)), right_rows(spark, names, query)
    got = counted(collected(found))
    assert right
    assert got == right, f"too many {got - right}, lacking {right - got}\n{plan_of(found)}"
    return found


@pytest.mark.parametrize("name", BY_INDEX)
def test_the_index_answers(
    spark: SparkSession, names: dict[str, str], code: str, name: str
) -> None:
    found = answered(spark, names, BY_INDEX[name])
    assert lookups(found), plan_of(found)


@pytest.mark.parametrize("name", ANYWAY)
def test_the_rows_are_right_whatever_answers(
    spark: SparkSession, names: dict[str, str], name: str
) -> None:
    answered(spark, names, ANYWAY[name])


@pytest.mark.parametrize(
    "changed",
    [
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.planChangeValidation": "true"},
        {"spark.sql.caseSensitive": "true"},
        {"spark.sql.codegen.hugeMethodLimit": "1"},
        {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.joinReorder.enabled": "true"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_settings_of_the_session_change_no_row(
    spark: SparkSession, names: dict[str, str], changed: dict[str, str]
) -> None:
    with configured(spark, changed):
        for name in ("a key from the table before", "EXISTS beside OR", "a table joined twice"):
            assert lookups(answered(spark, names, BY_INDEX[name]))


def test_in_real_time_mode(spark: SparkSession, names: dict[str, str], tmp_path: Path) -> None:
    with planned_in_real_time(spark, tmp_path):
        for query in BY_INDEX.values():
            found = answered(spark, names, query)
            assert "MapPartitions BsjoinLookup" in plan_of(found), plan_of(found)


def test_two_tables_with_the_same_rows_are_two(spark: SparkSession, tmp_path: Path) -> None:
    """A scan or a look-up of one is not used again for the other, nor one version for another."""
    one, other = (spark.range(9).selectExpr("id AS k", f"id + {n} AS v") for n in (0, 100))
    tables = [
        BatchTable.build(df, on="k", path=tmp_path / str(n)) for n, df in enumerate((one, other))
    ]
    stream = spark.range(12).selectExpr("id AS k", "id AS i")
    joined = [stream.join(table.to_df(spark), "k", "left") for table in tables]
    both = joined[0].join(joined[1].withColumnRenamed("v", "w"), ["k", "i"])
    assert {(row.v, row.w) for row in both.where("v IS NOT NULL").collect()} == {
        (n, n + 100) for n in range(9)
    }
    united = joined[0].union(joined[1]).union(joined[0])
    assert united.agg(F.sum("v")).first()[0] == 36 + 936 + 36
