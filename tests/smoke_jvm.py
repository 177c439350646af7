"""Both runtimes in one version of Spark: every type, all join types, a stream and its refresh.

``tests/smoke.py`` runs it with other versions than the installed one, without pytest.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles, table_of, values_of

import bsjoin
from bsjoin import BatchTable
from bsjoin.planner.chain import joins_of

SETTINGS = {
    "spark.bsjoin.runtime": "jvm",
    # Code that cannot be compiled is an error, and not evaluated in another way.
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
}
HOWS = {"inner": "inner", "left": "left", "semi": "left_semi", "anti": "left_anti"}
# Of a number n: its values as a key are equal for equal n, and different otherwise.
TYPES = {
    "boolean": "n % 2 = 0",
    "tiny": "tinyint(n - 4)",
    "small": "smallint(n - 4)",
    "int": "int(n - 4)",
    "long": "n - 4",
    "float": "IF(n = 3, float('NaN'), float(n - 2) / 2)",
    "double": "IF(n = 3, double('NaN'), double(n - 2) / 2)",
    "decimal": "CAST(n - 4 AS decimal(12,3))",
    "wide": "CAST(n - 4 AS decimal(38,10)) * 123456789012345678",
    "text": "concat('key ', n, repeat('é', int(n)))",
    "binary": "unhex(concat('00FF', repeat('0A', int(n))))",
    "date": "date_add(DATE'1969-12-30', int(n))",
    "time": "timestamp_micros(n - 4)",
    "ntz": "TIMESTAMP_NTZ'1969-12-31 23:59:59.999998' + make_dt_interval(0, 0, 0, n / 1000000)",
    "interval": "make_dt_interval(int(n - 4), 0, 0, n / 1000000)",
}
ALONE = ("long", "float", "wide", "text", "binary")


def _rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    """Rows with a number that each two have, and that is null in one more."""
    rows = spark.range(2 * first, 2 * last, 1, 1).selectExpr("id DIV 2 AS n", "id AS row")
    return rows.union(spark.sql("SELECT bigint(null), -1L"))


def _equal(stream: DataFrame, batch: DataFrame, keys: list[str], hows: Iterable[str]) -> None:
    """Hold the answers against those of Spark's own join."""
    table = BatchTable.build(batch, on=keys)
    ours = {how: table.join(stream, how=how) for how in hows}  # type: ignore[arg-type]
    assert all("BsjoinLookup" in _plan(df) for df in ours.values())
    own = {how: stream.join(batch, keys, HOWS[how]) for how in hows}
    got, wanted = values_of(ours), values_of(own)
    assert got == wanted, (keys, got, wanted)
    assert all(wanted.values()), "a join type has no rows"


def every_type(spark: SparkSession) -> None:
    """Each type as a key and as a payload; keys that occur once, twice and never."""
    stream, batch = _rows(spark, 0, 6).withColumnRenamed("row", "event"), _rows(spark, 2, 8)
    keys = [f"{dtype} AS k{name}" for name, dtype in TYPES.items() if name != "interval"]
    for name in ALONE:
        key = f"{TYPES[name]} AS k{name}"
        once = batch.where("row % 2 = 0") if name == "long" else batch
        _equal(stream.selectExpr(key, "event"), once.selectExpr(key, "row"), [f"k{name}"], ["left"])
    values = [f"{dtype} AS p{name}" for name, dtype in TYPES.items()]
    batch = batch.selectExpr(*keys, *values, "row", "IF(row = 9, null, row) AS perhaps")
    stream = stream.selectExpr(*keys, "event")
    _equal(stream, batch, stream.columns[:-1], HOWS)


def _plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


def a_stream(spark: SparkSession, folder: Path) -> None:
    """Two joins in one query: its rows, a refresh, and the figures."""
    table = BatchTable.build(table_of(spark, 1), on="k", path=folder / "table")
    names = spark.range(1, 10).selectExpr("id DIV 2 AS k", "concat('name ', id) AS name")
    named = BatchTable.build(names, on="k")
    feed = Feed(spark, folder)
    query = feed.start(named.join(table.join(feed.stream, how="left")))
    feed.turn(query, 1, None, 4, 9)
    table.refresh(table_of(spark, 2, keys=5))
    feed.turn(query, 4, 0)
    query.stop()
    assert feed.results == {
        0: [(1, 1, "name 2"), (1, 1, "name 3"), (4, None, "name 8"), (4, None, "name 9")],
        1: [(0, 2, "name 1"), (4, 2, "name 8"), (4, 2, "name 9")],
    }, feed.results
    figures = [(c.runtime, c.rows_in, c.hits, c.rows_out, c.table_version) for c in cycles(query)]
    assert figures == [
        ("jvm", 4, 1, 4, 1),
        ("jvm", 4, 2, 4, 1),
        ("jvm", 2, 2, 2, 2),
        ("jvm", 2, 2, 3, 1),
    ], figures


def selections_between_joins(spark: SparkSession) -> None:
    """Joins in Python workers with selections between them are one stage: Spark's plans tell."""
    table = spark.range(5).selectExpr("id", "id * 2 AS next", "concat('text ', id) AS text")
    stream = spark.range(6).select(F.col("id").alias("k", metadata={"unit": "m"}))
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        df = bsjoin.join(stream, table, {"k": "id"}, how="left")
        df = df.withColumn("sum", F.col("k") + F.col("next")).withColumnRenamed("next", "n")
        df = df.drop("text").alias("a").select("a.*", F.expr("transform(array(n), v -> v + 1)[0]"))
        df = bsjoin.join(df.toDF("k", "n", "sum", "more"), table, {"n": "id"}, select=["text"])
        random = bsjoin.join(df.withColumn("r", F.rand()), table, {"n": "id"}, how="semi")
    assert [step.apart for step in joins_of(df)] == ["", ""]
    assert df.schema["k"].metadata == {"unit": "m"}
    wanted = [(k, 2 * k, 3 * k, 2 * k + 1, f"text {2 * k}") for k in range(3)]
    assert sorted(map(tuple, df.collect())) == wanted
    assert joins_of(random)[-1].apart == "an expression between them is not deterministic"


def checks(spark: SparkSession, folder: Path) -> None:
    """Run all of them."""
    with configured(spark, SETTINGS):
        every_type(spark)
        a_stream(spark, folder)
    selections_between_joins(spark)
