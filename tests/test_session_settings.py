"""The rows of a join do not depend on how the session reads names, literals, types and expressions.

Each setting is on for all joins of one test: they are held against Spark's own, under the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Literal

import pyarrow as pa
import pytest
from cache_samples import Model
from oracle import expected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed

import bsjoin
from bsjoin import AsOf, Band, BatchTable, HotSpot, Incremental, Within

pytestmark = pytest.mark.usefixtures("runtime")

SETTINGS: dict[str, dict[str, str]] = {
    "regular expressions as names": {"spark.sql.parser.quotedRegexColumnNames": "true"},
    "ANSI": {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.ansi.relationPrecedence": "true",
    },
    "not ANSI, as before": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.legacy.consecutiveStringLiterals.enabled": "true",
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
        "spark.sql.legacy.literal.pickMinimumPrecision": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.legacy.charVarcharAsString": "true",
        "spark.sql.legacy.castComplexTypesToString.enabled": "true",
        "spark.sql.function.concatBinaryAsString": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.variable.substitute": "false",
    },
    "case": {"spark.sql.caseSensitive": "true"},
    "timestamps without a zone": {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.session.timeZone": "Pacific/Apia",
    },
    "plans": {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.optimizer.expression.nestedPruning.enabled": "false",
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.crossJoin.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    },
}
# All that exclude each other not.
TOGETHER = {
    name: value
    for kind, group in SETTINGS.items()
    if not kind.startswith("not ANSI")
    for name, value in group.items()
}
HOWS: tuple[Literal["left", "anti"], ...] = ("left", "anti")
NAMES = ["order", "a.b", "a`b", "(a)|(b)", ".*", "user", "ba b", 'c"d', "table"]
"""Keys, range columns and others: reserved words, and what a regular expression is."""


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    columns = [F.col(c).alias(n) for c, n in zip("kptdx", NAMES[:5], strict=True)]
    return spark.sql(
        "SELECT k, p, timestamp_seconds(p) AS t, CAST(k + 0.5 AS decimal(9, 2)) AS d, "
        "concat('x', k) AS x FROM VALUES (1, 10), (2, 20), (2, 31), (9, 5), (null, 7) AS r(k, p)"
    ).select(*columns)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    columns = [F.col(c).alias(n) for c, n in zip("kptdxf", NAMES[:4] + NAMES[5:7], strict=True)]
    return spark.sql(
        "SELECT k, p, timestamp_seconds(p) AS t, CAST(k + 0.50 AS decimal(12, 3)) AS d, "
        "concat('y', p) AS x, p / 3 AS f FROM VALUES "
        "(1, 9), (2, 19), (2, 21), (3, 1), (null, 7) AS r(k, p)"
    ).select(*columns)


@pytest.fixture(scope="module")
def tables(table: DataFrame) -> dict[str, BatchTable]:
    """Those that were built before the setting changed."""
    key, point = NAMES[:2]
    return {
        "k": BatchTable.build(table, on=key),
        "several": BatchTable.build(table, on=[NAMES[3], key]),
        "band": BatchTable.build(table, on=key, when=Band(point, point, 2, 2)),
        "asof": BatchTable.build(table, on=[], when=AsOf(NAMES[2], NAMES[2])),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Model:
    rows = {NAMES[0]: pa.array([1, 2, 2, 3], pa.int32()), 'c"d': ["a", "b", None, "d"]}
    return Model(tmp_path_factory.mktemp("source") / "model", pa.table(rows))


def joined(
    stream: DataFrame,
    table: DataFrame,
    tables: dict[str, BatchTable],
    source: Model,
    some_of: slice = slice(None),
) -> dict[str, list[int]]:
    """The rows of joins of every kind, or of some of them, as :func:`hashes` has them."""
    key, _, time, number = NAMES[:4]
    some = NAMES[5:7]
    joins: dict[str, Callable[[], DataFrame]] = {
        "left": lambda: tables["k"].join(stream, how="left"),
        "anti": lambda: tables["k"].join(stream, how="anti"),
        "built now": lambda: bsjoin.join(stream, table, [key, number], "left"),
        "sent by a rule": lambda: tables["k"].join(stream, partition=HotSpot(partitions=2)),
        "chain": lambda: tables["several"].join(
            tables["band"].join(stream, select=some), suffix="2"
        ),
        "incremental": lambda: bsjoin.join(stream, source, key, cache=Incremental(max_rows=99)),
        "band": lambda: tables["band"].join(stream, how="left", select=some),
        "as of": lambda: tables["asof"].join(stream, how="left", select=some),
        "within": lambda: bsjoin.join(
            stream, table, [], when=Within(time, time, time, closed="both"), select=some
        ),
    }
    return hashes({name: join() for name, join in [*joins.items()][some_of]})


def hashes(results: Mapping[str, DataFrame]) -> dict[str, list[int]]:
    """A hash of each row, in order, from one action."""
    of_rows = []
    for name, df in results.items():
        plain = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
        of_rows.append(plain.select(F.lit(name), F.xxhash64(*plain.columns)))
    rows = reduce(DataFrame.union, of_rows).collect()
    return {name: sorted(row[1] for row in rows if row[0] == name) for name in results}


@pytest.fixture(scope="module")
def wanted(
    runtime: str,
    stream: DataFrame,
    table: DataFrame,
    tables: dict[str, BatchTable],
    source: Model,
) -> dict[str, list[int]]:
    """Without a setting; held against Spark's own where an oracle is at hand."""
    found = joined(stream, table, tables, source)
    own = hashes({how: expected(stream, table, NAMES[:1], how) for how in HOWS})
    assert {how: found[how] for how in HOWS} == own
    assert all(found.values())
    return found


@pytest.mark.in_turns("runtime", others="long")
@pytest.mark.parametrize(
    "name", ["together", pytest.param("not ANSI, as before", marks=pytest.mark.long)]
)
def test_rows_are_the_same_under_settings(
    spark: SparkSession,
    runtime: str,
    stream: DataFrame,
    table: DataFrame,
    tables: dict[str, BatchTable],
    source: Model,
    wanted: dict[str, list[int]],
    name: str,
) -> None:
    """Half of the joins under each group of settings, in each runtime the other half."""
    half = slice((runtime == "python") ^ (name == "together"), None, 2)
    with configured(spark, SETTINGS.get(name, TOGETHER)):
        found = joined(stream, table, tables, source, half)
    assert found == dict([*wanted.items()][half])


def test_a_stream_under_all_of_them(
    spark: SparkSession, tables: dict[str, BatchTable], feed: Feed
) -> None:
    """The plan of a micro-batch is made again, and figures are observed."""
    feed.add(1, 2, 9, None)
    with configured(spark, TOGETHER):
        keyed = feed.stream.select(F.col("k").cast("int").alias(NAMES[0]), F.lit(".").alias(".*"))
        result = tables["k"].join(keyed, partition=HotSpot(partitions=2), select=NAMES[5:6])
        query = feed.run(tables["k"].join(result, select=[]))
        query.stop()
    assert len(feed.results[0]) == 5
    assert [cycle.hits for cycle in bsjoin.progress(query)] == [2, 3]
