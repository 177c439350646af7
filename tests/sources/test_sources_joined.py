"""Every kind of source in a join, in Spark's workers: row for row what Spark's own join answers.

And faults of its data: only the keys concerned pay, whatever ``on_error`` says.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import (
    HOWS,
    assert_same_rows,
    assert_same_schema,
    expected,
    one_part,
    rows_of_all,
    rows_of_spark,
    united,
)
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from source_stands import EVERYWHERE, STANDS, Database, Redis, SQLite
from test_sources_contract import CODES, IDS, model

import bsjoin
from bsjoin import Full, Incremental
from bsjoin.errors import DataError
from bsjoin.sources import Source, parquet

# Workers do not import the folder of the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.usefixtures("interpreted")

# Both kinds of Redis would clear the other's rows; the contract holds them.
APART = ("function", "redis json", "redis cluster json")
PLACES = [kind for kind in EVERYWHERE if kind not in APART]
QUICK = ("sqlite", "adbc duckdb", "postgresql", "iceberg", "redis hash")


@pytest.mark.parametrize(
    ("places", "all_hows"),
    [(QUICK, ("left",)), pytest.param(PLACES, HOWS, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_joins_with_sources_equal_sparks_join(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    places: Sequence[str],
    all_hows: Sequence[Any],
) -> None:
    """In the same query; each kind of join, and the full cache, for some."""
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
    left = one_part(spark, stream)
    sources, copies = {}, {}
    for kind in places:
        folder = tmp_path / kind.replace(" ", "_")
        folder.mkdir()
        stand = STANDS[kind](folder, request)
        if isinstance(stand, Database):
            stand.create()
        copies[kind] = 1 if isinstance(stand, Redis) else 2
        stand.put(model(copies[kind]))
        sources[kind] = stand.source()
    on = {"plane": "id", "code": "code"}
    rights = {n: spark.createDataFrame(model(n)) for n in (1, 2)}
    right = {(n, how): expected(left, rights[n], on, how) for n in rights for how in HOWS}
    results = {}
    for kind in places:
        for cache, hows in (
            (Incremental(max_rows=50), all_hows if kind == "sqlite" else ("left",)),
            (Full(), ("left",) if kind == "postgresql" and places is PLACES else ()),
        ):
            for how in hows:
                df = bsjoin.join(left, sources[kind], on, how=how, cache=cache)
                assert_same_schema(df, right[copies[kind], how], how)
                results[kind, type(cache).__name__, how] = df
    wanted = {n: rows_of_spark(left, right, on) for n, right in rights.items()}
    for (kind, cache_name, how), found in rows_of_all(results).items():
        assert_same_rows(found, wanted[copies[kind]][how], f"{kind} {cache_name} {how}")


ROWS = """
    SELECT id AS n, if(id % 7 = 0, CAST(X'FF' AS STRING), concat('k', id % 20)) AS k,
        timestamp_micros(253402300799999999 - id * 5000000000000000) AS at,
        date_sub(DATE'9999-12-31', int(id * 60000)) AS day,
        CAST(id / 4 AS DECIMAL(9, 2)) AS amount, float(id) AS f,
        CASE WHEN id % 5 = 0 THEN NULL ELSE id % 3 END AS part
    FROM range(60)
"""


@pytest.mark.long
def test_what_spark_writes_is_joined_as_spark_joins_it(spark: SparkSession, tmp_path: Path) -> None:
    """Timestamps of INT96, the legacy calendar, null partitions, keys that are not UTF-8."""
    path = str(tmp_path / "table")
    modes = {f"spark.sql.parquet.{k}RebaseModeInWrite": "LEGACY" for k in ("datetime", "int96")}
    with configured(spark, modes):
        spark.sql(ROWS).write.partitionBy("part").parquet(path)
    table = spark.read.parquet(path)
    stream = spark.sql(ROWS).selectExpr("k AS sk", "at AS sat", "day AS sday", "part AS sp", "f sf")
    source = parquet(path)
    found, right = [], []
    for on, cache in (
        ({"sk": "k"}, Incremental(max_rows=500)),
        ({"sat": "at"}, Incremental(max_rows=9, on_error="null")),
        ({"sday": "day", "sp": "part"}, Incremental(max_rows=500)),
        ({"sf": "f"}, Full()),
    ):
        keyed = stream.select(*on)
        wanted = expected(keyed, table, on, "left")
        df = bsjoin.join(keyed, source, on, how="left", cache=cache)
        assert_same_schema(df, wanted, "left")
        found.append(df)
        right.append(wanted)
    assert as_text(found) == as_text(right)


def as_text(results: list[DataFrame]) -> list[str]:
    """The rows of all of them; Python has no texts that are not UTF-8."""
    tagged = []
    for number, df in enumerate(results):
        columns = [F.hex(F.col(name).cast("string")) for name in df.columns]
        tagged.append(df.select(F.lit(number), F.array(*columns)))
    return sorted(map(repr, united(tagged).collect()))


def incremental(on_error: Any) -> Incremental:
    # A failure of the source would be waited for, and leave it alone for an hour.
    return Incremental(
        max_rows=5000, on_error=on_error, retries=2, backoff="1 ms", failure_cooldown="1 hour"
    )


class Rows(Source):
    """A source of a user's, which fails for some keys."""

    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    def lookup(self, keys: pa.Table, columns: Any = None) -> pa.Table:
        texts = keys["k"].to_pylist()
        if {"k3", "k7"} & set(texts):
            raise self.fault
        return pa.table({"k": texts, "n": [int(text[1:]) for text in texts]}, self.schema)


def test_a_source_of_the_users_own_says_which_faults_are_of_the_data(spark: SparkSession) -> None:
    keys = spark.range(12).selectExpr(
        "CASE WHEN id = 9 THEN CAST(X'6BFF' AS STRING) ELSE concat('k', id) END AS k", "id"
    )
    faults = DataError("wrong"), OverflowError("wrong"), pa.ArrowInvalid("wrong")
    joined = {
        fault: bsjoin.join(keys, Rows(fault), "k", how="left", cache=incremental("null")).select(
            "id", "n"
        )
        for fault in faults
    }
    for fault, table in rows_of_all(joined).items():
        found = dict(zip(*table.to_pydict().values(), strict=True))
        assert found == {n: None if n in (3, 7, 9) else n for n in range(12)}, fault
    failing = bsjoin.join(keys, Rows(faults[-1]), "k", how="left", cache=incremental("fail"))
    with pytest.raises(PySparkException, match=r"DataError: .*wrong"):
        failing.collect()


def test_a_hot_key_that_is_not_utf_8_ends_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    place = SQLite(tmp_path)
    place.run("CREATE TABLE t (k TEXT, n INTEGER)", "INSERT INTO t VALUES ('k1', 1), ('k2', 2)")
    ids = spark.range(200)
    ids.coalesce(1).write.parquet(str(tmp_path / "ids"))
    key = "CASE WHEN id % 3 = 0 THEN CAST(X'6BFF' AS STRING) ELSE concat('k', id % 3) END AS k"
    stream = spark.readStream.schema(ids.schema).parquet(str(tmp_path / "ids"))
    joined = bsjoin.join(
        stream.selectExpr(key, "id"), place.source(table="t"), "k", how="left",
        cache=Incremental(max_rows=100),
    )  # fmt: skip
    found: dict[int, int | None] = {}

    def keep(batch: DataFrame, number: int) -> None:
        found.update({row.id: row.n for row in batch.collect()})

    writer = joined.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert found == {n: n % 3 or None for n in range(200)}
    (cycle,) = (cycle for cycle in bsjoin.progress(query) if cycle.rows_in)
    assert cycle.rows_in == 200
    assert cycle.cache.failed_keys == 0
