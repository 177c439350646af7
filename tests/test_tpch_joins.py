"""The joins of TPC-H in SQL, with its tables as stored tables: the rows of Spark's own joins."""

from __future__ import annotations

import pytest
from oracle import collected, counted
from plain_doors import lookups, plan_of
from pyspark.sql import SparkSession
from tpch_joins import KEYS, QUERIES

from benchmarks.data import tpch
from bsjoin import BatchTable

SCALE = 0.01


@pytest.fixture(scope="module")
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the tables are called in SQL, by name, and their files behind "rows of"."""
    folder = tmp_path_factory.mktemp("tpch")
    files = tpch.tables(folder, SCALE)
    found = {"lineitem": f"parquet.`{files}/lineitem.parquet`"}
    for name, key in KEYS.items():
        rows = spark.read.parquet(f"{files}/{name}.parquet")
        table = BatchTable.build(rows, on=key, unique=True, path=folder / name)
        table.to_df(spark)  # which attaches the jar
        found[name] = f"bsjoin.`{table.path}`"
        found[f"rows of {name}"] = f"parquet.`{files}/{name}.parquet`"
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_answers_what_sparks_joins_answer(
    spark: SparkSession, names: dict[str, str], name: str
) -> None:
    least, query = QUERIES[name]
    plain = names | {table: names[f"rows of {table}"] for table in KEYS}
    found, wanted = spark.sql(query.format_map(names)), spark.sql(query.format_map(plain))
    got, right = counted(collected(found)), counted(collected(wanted))
    assert right
    assert got == right
    assert lookups(found) >= least, plan_of(found)
