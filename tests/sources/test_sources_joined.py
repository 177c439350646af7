"""Every kind of source in a join, in Spark's workers: row for row what Spark's own join answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracle import HOWS, assert_same_rows, assert_same_schema, expected, rows_of_all, rows_of_spark
from pyspark.sql import SparkSession
from source_stands import EVERYWHERE, Database, Redis
from test_sources_contract import CODES, IDS, made, model

import bsjoin
from bsjoin import Full, Incremental

pytestmark = pytest.mark.usefixtures("interpreted")

PLACES = [kind for kind in EVERYWHERE if kind != "function"]


@pytest.mark.parametrize("kind", PLACES)
def test_a_join_with_a_source_equals_sparks_join(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    stand = made(kind, tmp_path, request)
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
