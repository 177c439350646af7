"""Every kind of condition in a streaming query, in both runtimes and with both caches.

The oracle is SQL over the same rows. What values and ties do is the subject of the oracles of
batches; here it is that a stream has the same rows, for each micro-batch.
"""

from __future__ import annotations

import ipaddress
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured
from spark_samples import write_stream_file

import bsjoin
from bsjoin import AsOf, Band, Full, Incremental, Overlaps, Within
from bsjoin.functions import network_start

STREAM = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "p": pa.int64(), "p2": pa.int64(), "x": pa.int64(),
     "address": pa.string()}
)  # fmt: skip
TABLE = pa.schema(
    {"k": pa.int64(), "q": pa.int64(), "y": pa.int64(), "b": pa.int64(), "e": pa.int64(),
     "v": pa.int64(), "first": pa.binary(), "last": pa.binary()}
)  # fmt: skip

KEY, BAND = "s.k = t.k", "t.q BETWEEN s.p - 4 AND s.p + 4"
INSIDE = "t.b <= s.p AND (s.p < t.e OR t.e IS NULL)"
BAND_OF_P = Band("p", "q", 4, 4)
Given = dict[str, Any]


def inner(condition: str) -> str:
    return f"SELECT s.id, t.v FROM s JOIN t ON {condition}"


def ranked(condition: str, order: str, many: int = 1) -> str:
    """So many rows of the table for each of the stream, in an order."""
    window = f"row_number() OVER (PARTITION BY s.id ORDER BY {order}) AS place"
    return (
        f"SELECT id, v FROM (SELECT s.id, t.v, {window} FROM s JOIN t ON {condition}) "
        f"WHERE place <= {many}"
    )


def cases_of(way: str) -> dict[str, tuple[Given, str]]:
    """What a left join is given besides the key ``k``, and its pairs or its rows in SQL."""
    cases: dict[str, tuple[Given, str]] = {
        "where": (
            {"where": "p < v"},
            inner(f"{KEY} AND s.p < t.v"),
        ),
        "where beside a band": (
            {"when": BAND_OF_P, "where": F.col("v") % 2 == F.col("p") % 2},
            inner(f"{KEY} AND {BAND} AND t.v % 2 = s.p % 2"),
        ),
        "a list": (
            {"when": [Within("x", "b", "e"), BAND_OF_P]},
            inner(f"{KEY} AND {BAND} AND {INSIDE.replace('s.p', 's.x')}"),
        ),
        "a box without a key": (
            {"when": [BAND_OF_P, Band("x", "y", 5, 5)], "on": []},
            inner(f"{BAND} AND t.y BETWEEN s.x - 5 AND s.x + 5"),
        ),
        "take latest_start": (
            {"when": Within("p", "b", "e", take="latest_start", order_by="v")},
            ranked(f"{KEY} AND {INSIDE}", "t.b DESC, t.v"),
        ),
        "take first": (
            {"when": Within("p", "b", "e", take="first", order_by="v")},
            ranked(f"{KEY} AND {INSIDE}", "t.v"),
        ),
        "take first beside where": (
            {"when": Within("p", "b", "e", take="first", order_by="v"), "where": "x < v"},
            ranked(f"{KEY} AND {INSIDE} AND s.x < t.v", "t.v"),
        ),
        "take shortest in a list": (
            {"when": [BAND_OF_P, Within("p", "b", "e", take="shortest", order_by="v")]},
            ranked(f"{KEY} AND {INSIDE} AND {BAND}", "t.e - t.b NULLS LAST, t.v"),
        ),
        "n nearest in a list beside where": (
            {"when": [Within("x", "b", "e"), AsOf("p", "q", n=2, order_by="v")], "where": "v > x"},
            ranked(f"{KEY} AND t.q <= s.p AND {INSIDE.replace('s.p', 's.x')} AND t.v > s.x",
                   "t.q DESC, t.v", 2),
        ),
        "n nearest": (
            {"when": AsOf("p", "q", n=2, order_by="v")},
            ranked(f"{KEY} AND t.q <= s.p", "t.q DESC, t.v", 2),
        ),
        "n nearest in an array": (
            {"when": AsOf("p", "q", n=2, order_by="v", collect="near")},
            "SELECT s.id, transform(slice(array_sort(collect_list("
            "CASE WHEN t.q <= s.p THEN struct(-t.q AS q, t.v AS v) END)), 1, 2), r -> r.v) AS v "
            f"FROM s LEFT JOIN t ON {KEY} GROUP BY s.id",
        ),
        "aggregates": (
            {"when": replace(BAND_OF_P, agg={"n": "count(*)", "all": "sum(v)", "least": "min(v)"})},
            "SELECT s.id, struct(count(t.q) AS n, sum(t.v) AS all, min(t.v) AS least) AS v "
            f"FROM s LEFT JOIN t ON {KEY} AND {BAND} GROUP BY s.id",
        ),
        "intervals that contain": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), relation="contains")},
            inner(f"{KEY} AND s.p <= t.b AND t.e <= s.p2 AND t.b < t.e"),
        ),
        "at_least": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), at_least=2)},
            inner(f"{KEY} AND t.b < coalesce(t.e, t.b + 1) "
                  "AND s.p IS NOT NULL AND least(s.p2, t.e) - greatest(s.p, t.b) >= 2"),
        ),
        "null-safe keys": ({"nulls_equal": True}, inner("s.k <=> t.k")),
        "keys that are expressions": ({"on": [(F.col("k") + 1, "k")]}, inner("s.k + 1 = t.k")),
        "latest rows": (
            {"cache": Full(latest_by="v")},
            "SELECT s.id, l.v FROM s JOIN (SELECT k, max(v) AS v FROM t GROUP BY k) l ON s.k = l.k",
        ),
        "networks": (
            {"when": Within("ip", "first", "last", closed="both", take="latest_start",
                            order_by=["last", "v"])},
            ranked(f"{KEY} AND s.ip BETWEEN t.first AND t.last", "t.first DESC, t.last, t.v"),
        ),
    }  # fmt: skip
    if way == "source":  # which asks for keys, and has no latest row of each
        return {
            name: case
            for name, case in cases.items()
            if case[0].get("on") != [] and name != "latest rows"
        }
    return cases


# Joins whose rows are not pairs, which have no indicator.
SHOWN = {
    "n nearest in an array": "transform(near, r -> r.v)",
    "aggregates": "struct(n, all, least)",
}


def left(pairs: str) -> str:
    """The rows of a left join with an indicator, of its pairs."""
    return (
        "SELECT s.id, struct(pairs.v, pairs.id IS NOT NULL AS found) AS v "
        f"FROM s LEFT JOIN ({pairs}) pairs ON s.id = pairs.id"
    )


def stream_rows(number: int) -> pa.Table:
    draw = random.Random(number)
    rows = []
    for id_ in range(number * 40, number * 40 + 40):
        start = draw.randrange(30)
        address = ipaddress.ip_address(f"10.{draw.randrange(3)}.{draw.randrange(3)}.7")
        rows.append(
            {
                "id": id_,
                "k": draw.choice([None, 0, 1, 2, 3, 9]),
                "p": draw.choice([start, start, None]),
                "p2": start + draw.randrange(12),
                "x": draw.randrange(30),
                "address": str(address),
            }
        )
    return pa.Table.from_pylist(rows, STREAM)


def table_rows() -> pa.Table:
    draw, rows = random.Random(7), []
    for v in range(60):
        start, bits = draw.randrange(30), draw.choice([8, 16, 24])
        network = ipaddress.ip_network(f"10.{draw.randrange(3)}.{v % 3}.0/{bits}", strict=False)
        rows.append(
            {
                "k": draw.choice([None, 0, 1, 2, 3]),
                "q": draw.choice([None, *range(30)]),
                "y": draw.randrange(30),
                "b": start,
                "e": draw.choice([None, start, start + 3, start + 9]),
                "v": v,
                "first": network[0].packed,
                "last": network[-1].packed,
            }
        )
    return pa.Table.from_pylist(rows, TABLE)


def labelled(name: str, rows: DataFrame, value: str) -> DataFrame:
    return rows.select(F.lit(name).alias("case"), "id", F.to_json(F.expr(f"struct({value} AS v)")))


def started(joined: DataFrame, name: str, checkpoint: Path) -> None:
    """Run a query to the end of what is there; its rows are the table of that name."""
    writer = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.parametrize("way", ["jvm", "python", "source"])
def test_a_stream_has_the_rows_that_sql_has(spark: SparkSession, tmp_path: Path, way: str) -> None:
    rows = table_rows()
    table = spark.createDataFrame(rows)
    (tmp_path / "in").mkdir()
    for number in range(2):
        batch = stream_rows(number)
        columns = {name: batch[name] for name in batch.column_names}
        write_stream_file(tmp_path / "in", number, **columns)
    with_ip = {"ip": network_start("address")}
    static = spark.read.parquet(str(tmp_path / "in"))
    reader = spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in")).withColumns(with_ip)
    static.withColumns(with_ip).createOrReplaceTempView("s")
    table.createOrReplaceTempView("t")
    cases = cases_of(way)
    pq.write_table(rows, tmp_path / "t.parquet")
    source = bsjoin.sources.parquet(tmp_path / "t.parquet") if way == "source" else None
    cache = {"cache": Incremental(max_rows=10_000)} if source else {}
    pieces, wanted = [], []
    runtime = "python" if source else way
    with configured(spark, {"spark.bsjoin.runtime": runtime} | CODE[runtime]):
        for name, (given, sql) in cases.items():
            more: Given = {} if name in SHOWN else {"indicator": "found"}
            options = {"on": "k", "how": "left", **more, **cache, **given}
            joined = bsjoin.join(stream, source or table, **options)
            pieces.append(labelled(name, joined, SHOWN.get(name, "struct(v, found)")))
            wanted.append(labelled(name, spark.sql(sql if name in SHOWN else left(sql)), "v"))
        union, answer = pieces[0], wanted[0]
        for piece, expected in zip(pieces[1:], wanted[1:], strict=True):
            union, answer = union.unionAll(piece), answer.unionAll(expected)
        started(union, f"found_{way}", tmp_path / "checkpoint")
    found_rows = sorted(map(tuple, spark.table(f"found_{way}").collect()))
    wanted_rows = sorted(map(tuple, answer.collect()))
    assert {row[0] for row in wanted_rows} == set(cases)
    assert [row for row in found_rows if row not in wanted_rows] == []
    assert found_rows == wanted_rows
