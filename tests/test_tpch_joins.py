"""The joins of TPC-H in SQL, with its tables as stored tables: the rows of Spark's own joins.

The queries are written here, with TPC-H's tables, keys and kinds of joins. ``lineitem`` is the
stream's side, the others are stored tables with their primary keys. There is no order: rows are
compared as a multiset.
"""

from __future__ import annotations

import pytest
from oracle import collected, counted
from plain_joins import CODE, lookups, plan_of
from pyspark.sql import SparkSession
from sessions import configured

from benchmarks.data import tpch
from bsjoin import BatchTable

SCALE = 0.01
KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
}

QUERIES: dict[str, tuple[int, str]] = {
    "2, the cheapest supplier": (4, """
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr FROM {partsupp} c
        JOIN {part} ON p_partkey = c.ps_partkey JOIN {supplier} ON s_suppkey = c.ps_suppkey
        JOIN {nation} ON n_nationkey = s_nationkey JOIN {region} ON r_regionkey = n_regionkey
        WHERE p_size < 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE' AND ps_supplycost =
            (SELECT min(m.ps_supplycost) FROM {partsupp} m JOIN {supplier} t
             ON t.s_suppkey = m.ps_suppkey WHERE m.ps_partkey = p_partkey)"""),
    "5, local suppliers": (5, """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) FROM {lineitem}
        JOIN {orders} ON o_orderkey = l_orderkey JOIN {customer} ON c_custkey = o_custkey
        JOIN {supplier} ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
        JOIN {nation} ON n_nationkey = s_nationkey JOIN {region} ON r_regionkey = n_regionkey
        WHERE r_name = 'ASIA' AND year(o_orderdate) IN (1994, 1995) GROUP BY n_name"""),
    "13, orders of customers": (1, """
        SELECT c_count, count(*) FROM (SELECT c_name, count(o_orderkey) AS c_count FROM {orders}
            RIGHT JOIN (SELECT * FROM {customer} WHERE c_custkey < 900) ON c_custkey = o_custkey
            AND o_comment NOT LIKE '%special%requests%' GROUP BY c_name)
        JOIN {nation} ON n_nationkey = c_count GROUP BY c_count"""),
    "16, suppliers without complaints": (1, """
        SELECT p_brand, p_size, count(DISTINCT ps_suppkey) FROM {partsupp}
        JOIN {part} ON p_partkey = ps_partkey WHERE p_brand <> 'Brand#45' AND ps_suppkey NOT IN
        (SELECT s_suppkey FROM {supplier} WHERE s_comment LIKE '%Customer%') GROUP BY 1, 2"""),
    "20, potential promotions": (1, """
        SELECT s_name FROM {supplier} JOIN {nation} ON n_nationkey = s_nationkey
        WHERE n_name IN ('CANADA', 'FRANCE') AND s_suppkey IN (SELECT ps_suppkey FROM {partsupp}
            WHERE ps_partkey IN (SELECT p_partkey FROM {part} WHERE p_name LIKE 'f%')
            AND ps_availqty > (SELECT sum(l_quantity) / 2 FROM {lineitem}
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey))"""),
    "21, suppliers that kept orders waiting": (3, """
        SELECT s_name, count(*) FROM {lineitem} l JOIN {supplier} ON s_suppkey = l_suppkey
        JOIN {orders} ON o_orderkey = l_orderkey JOIN {nation} ON n_nationkey = s_nationkey
        WHERE o_orderstatus = 'F' AND l.l_receiptdate > l.l_commitdate
        AND EXISTS (SELECT 1 FROM {lineitem} m WHERE m.l_orderkey = l.l_orderkey
            AND m.l_suppkey <> l.l_suppkey)
        AND NOT EXISTS (SELECT 1 FROM {lineitem} m WHERE m.l_orderkey = l.l_orderkey
            AND m.l_suppkey <> l.l_suppkey AND m.l_receiptdate > m.l_commitdate)
        GROUP BY s_name"""),
}  # fmt: skip
"""By TPC-H's number: how many joins an index answers at least, and the query."""


@pytest.fixture(scope="module")
def names(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], dict[str, str]]:
    """What SQL calls the stored tables, and the files that they are built of."""
    folder = tmp_path_factory.mktemp("tpch")
    made = tpch.tables(folder, SCALE)
    files = {name: f"parquet.`{made}/{name}.parquet`" for name in ("lineitem", *KEYS)}
    stored = dict(files)
    for name, key in KEYS.items():
        rows = spark.read.parquet(f"{made}/{name}.parquet")
        table = BatchTable.build(rows, on=key, unique=True, path=folder / name)
        table.to_df(spark)  # which attaches the jar
        stored[name] = f"bsjoin.`{table.path}`"
    return stored, files


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_answers_what_sparks_joins_answer(
    spark: SparkSession, names: tuple[dict[str, str], dict[str, str]], name: str
) -> None:
    least, query = QUERIES[name]
    tables, files = names
    with configured(spark, CODE["interpreted"]):
        right = counted(collected(spark.sql(query.format_map(files))))
    found = spark.sql(query.format_map(tables))
    assert right
    assert counted(collected(found)) == right
    assert lookups(found) >= least, plan_of(found)
