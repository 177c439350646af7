"""Joins in a Spark whose planner lacks a class of those that bsjoin supports; run by itself.

Arguments: files of Parquet with the columns ``k`` and ``v``, and the table of a part of them.
"""

from __future__ import annotations

import sys

from sessions import INTERPRETED, session

import bsjoin
from bsjoin.runtimes.jvm.attach import attached

if __name__ == "__main__":
    spark = session("local[1]", {**INTERPRETED, "spark.log.level": "WARN"})
    reason = attached(spark)
    assert reason is None, reason
    source, path = sys.argv[1:]
    df = spark.read.schema("k long, v long").parquet(source).where("k < 2")
    print("version", bsjoin.BatchTable.build(df, on="k", path=path).version)
    table = spark.read.format("bsjoin").load(path)
    stream = spark.range(3).selectExpr("id AS k")
    for _ in range(2):
        joined = stream.join(table, "k", "left")
        assert "BsjoinLookup" not in joined._jdf.queryExecution().executedPlan().toString()
        print("rows", sorted(tuple(row) for row in joined.collect()))
    records = joined.selectExpr(
        "binary(string(k)) AS key", "binary('') AS value", "v IS NOT NULL AS found",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        "current_timestamp() AS timestamp",
    )  # fmt: skip
    sent = bsjoin.kafka.route(
        records, value="'x'", topic="out", retry="again", dead="never", patience=1
    )
    assert "CollectMetrics" in sent._jdf.queryExecution().executedPlan().toString()
    joined = bsjoin.BatchTable.open(path).join(stream, "k", how="left")
    assert "MapInArrow" in joined._jdf.queryExecution().executedPlan().toString()
    print("rows", sorted(tuple(row) for row in joined.collect()))
    spark.stop()
