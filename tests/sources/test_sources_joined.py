"""Every kind of source in a join, in Spark's workers: row for row what Spark's own join answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import HOWS, assert_same_rows, assert_same_schema, expected, rows_of_all, rows_of_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from source_stands import EVERYWHERE, STANDS, Database, Redis
from test_sources_contract import CODES, IDS, model

import bsjoin
from bsjoin import Full, Incremental
from bsjoin.sources import parquet, redis

pytestmark = pytest.mark.usefixtures("interpreted")

PLACES = [kind for kind in EVERYWHERE if kind != "function"]


@pytest.mark.parametrize("kind", PLACES)
def test_a_join_with_a_source_equals_sparks_join(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    stand = STANDS[kind](tmp_path, request)
    if isinstance(stand, Database):
        stand.create()
    table = model(1 if isinstance(stand, Redis) else 2)
    stand.put(table)
    source = stand.source()
    generator = np.random.default_rng(23)
    size = 300
    ids = [None if i == 7 else IDS[i % len(IDS)] for i in generator.integers(0, 12, size)]
    codes = [None if i == 5 else CODES[i % len(CODES)] for i in generator.integers(0, 12, size)]
    stream = pa.table(
        {
            "code": pa.array(codes, pa.string()),
            "n": pa.array(range(size), pa.int64()),
            "plane": pa.array(ids, pa.int16()),
        }
    )
    left, right = spark.createDataFrame(stream), spark.createDataFrame(table)
    for on in ({"plane": "id", "code": "code"}, {"plane": "id"}):
        if isinstance(stand, Redis) and len(on) == 1:
            continue  # it has no other key
        wanted = rows_of_spark(left, right, on)
        caches: list[Incremental | Full] = [Incremental(max_rows=50)]
        if source.can_scan:
            caches.append(Full())
        for cache in caches:
            hows = HOWS if isinstance(cache, Incremental) else ("left",)
            results = {how: bsjoin.join(left, source, on, how=how, cache=cache) for how in hows}
            for how, df in results.items():
                assert_same_schema(df, expected(left, right, on, how), how)
            for how, rows in rows_of_all(results).items():
                assert_same_rows(rows, wanted[how], f"{cache}, {on}, {how}")


ROWS = """
    SELECT id AS n, if(id % 7 = 0, CAST(X'FF' AS STRING), concat('k', id % 20)) AS k,
        timestamp_micros(253402300799999999 - id * 5000000000000000) AS at,
        date_sub(DATE'9999-12-31', int(id * 60000)) AS day,
        CAST(id / 4 AS DECIMAL(9, 2)) AS amount, float(id) AS f,
        CASE WHEN id % 5 = 0 THEN NULL ELSE id % 3 END AS part
    FROM range(60)
"""


@pytest.mark.parametrize("legacy", ["LEGACY", "CORRECTED"])
def test_what_spark_writes_is_joined_as_spark_joins_it(
    spark: SparkSession, tmp_path: Path, legacy: str
) -> None:
    """Timestamps of INT96, the legacy calendar, null partitions, keys that are not UTF-8."""
    path = str(tmp_path / "table")
    modes = {f"spark.sql.parquet.{k}RebaseModeInWrite": legacy for k in ("datetime", "int96")}
    with configured(spark, modes):
        spark.sql(ROWS).write.partitionBy("part").parquet(path)
    table = spark.read.parquet(path)
    stream = spark.sql(ROWS).selectExpr("k AS sk", "at AS sat", "day AS sday", "part AS sp", "f sf")
    source = parquet(path)
    for on in ({"sk": "k"}, {"sat": "at"}, {"sday": "day", "sp": "part"}, {"sf": "f"}):
        keyed = stream.select(*on)
        wanted = expected(keyed, table, on, "left")
        for cache in (Incremental(max_rows=500), Incremental(max_rows=9, on_error="null"), Full()):
            df = bsjoin.join(keyed, source, on, how="left", cache=cache)
            assert_same_schema(df, wanted, "left")
            assert as_text(df) == as_text(wanted), f"{cache}, {on}, {legacy}"
    source.close()


def as_text(df: DataFrame) -> list[str]:
    """The rows; Python has no texts that are not UTF-8."""
    columns = [F.hex(F.col(name).cast("string")).alias(name) for name in df.columns]
    return sorted(map(repr, df.select(*columns).collect()))


@pytest.mark.parametrize("kind", ["parquet", "redis hash"])
def test_a_key_with_wrong_data_costs_no_other_key_its_row(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """One value that does not fit its type, among a thousand keys."""
    keys = [b"\xff", *(f"k{n:04}".encode() for n in range(1000))]
    if kind == "parquet":
        texts = pa.array(keys).view(pa.string())
        values = pa.array(["1"] * 500 + ["x"] + ["1"] * 500)
        pq.write_table(pa.table({"k": texts, "v": values}), tmp_path / "a.parquet")
        source = parquet(tmp_path, schema={"v": pa.int64()})
    else:
        import redis as driver

        server = request.getfixturevalue("redis_server")
        with driver.Redis.from_url(server.url) as client:
            client.flushdb()
            for number, key in enumerate(keys):
                client.hset(b"row:" + key, "v", "x" if number == 500 else "1")
        schema = {"k": pa.string(), "v": pa.int64()}
        source = redis(server.url, key="row:{k}", schema=schema)
    stream = spark.createDataFrame([(bytearray(key),) for key in keys], "b binary").selectExpr(
        "CAST(b AS STRING) AS k"
    )
    cache = Incremental(max_rows=5000, on_error="null", retries=0)
    found = bsjoin.join(stream, source, "k", how="left", cache=cache)
    values = dict(found.selectExpr("hex(k)", "v").collect())
    assert values.pop(keys[500].hex().upper()) is None
    assert len(values) == 1000
    assert set(values.values()) == {1}
    with pytest.raises(Exception, match=r"contains b?'x'|holds 'x'"):
        bsjoin.join(stream, source, "k", cache=Incremental(max_rows=5000)).collect()
