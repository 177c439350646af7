"""Selections between joins in Python workers, in one version of Spark: its plans are private.

``tests/smoke.py`` and ``tests/smoke_jvm.py`` run it with other versions than the installed one.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured, session

import bsjoin
from bsjoin.planner.chain import joins_of

__all__ = ["check"]


def check(spark: SparkSession) -> None:
    """Two joins with all kinds of selections between are one stage, and have the right rows."""
    table = spark.range(5).selectExpr("id", "id * 2 AS next", "concat('text ', id) AS text")
    stream = spark.range(6).select(F.col("id").alias("k", metadata={"unit": "m"}))
    with configured(spark, {"spark.bsjoin.runtime": "python"}):
        df = bsjoin.join(stream, table, {"k": "id"}, how="left")
        df = df.withColumn("sum", F.col("k") + F.col("next")).withColumnRenamed("next", "n")
        df = df.drop("text").alias("a").select("a.*", F.expr("transform(array(n), v -> v + 1)[0]"))
        df = bsjoin.join(df.toDF("k", "n", "sum", "more"), table, {"n": "id"}, select=["text"])
        computed = bsjoin.join(df, table, {"sum": "id"}, how="semi")
        random = bsjoin.join(df.withColumn("r", F.rand()), table, {"n": "id"}, how="semi")
    assert [step.apart for step in joins_of(df)] == ["", ""]
    assert df.schema["k"].metadata == {"unit": "m"}
    wanted = [(k, 2 * k, 3 * k, 2 * k + 1, f"text {2 * k}") for k in range(3)]
    assert sorted(map(tuple, df.collect())) == wanted
    assert joins_of(computed)[-1].apart == "'sum' is computed between them"
    assert sorted(map(tuple, computed.collect())) == wanted[:2]
    assert joins_of(random)[-1].apart == "an expression between them is not deterministic"


def main() -> None:
    spark = session("local[2]")
    check(spark)
    print(f"smoke test: selections between joins are right with Spark {spark.version}")
    spark.stop()


if __name__ == "__main__":
    main()
