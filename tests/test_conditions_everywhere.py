"""Every kind of condition and key, in both runtimes and with both caches, in a batch and a stream.

The oracle is SQL over the same rows. What values and ties do is the subject of other oracles; here
it is that each cell of the table in docs/limits.md has the rows that it says it has.
"""

from __future__ import annotations

import io
import ipaddress
import random
from collections.abc import Collection, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle import PLAINLY, united
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import CODE, configured
from spark_samples import write_stream_file

import bsjoin
from bsjoin import AsOf, Band, Full, Incremental, Overlaps, Within
from bsjoin.functions import network_start

STREAM = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "p": pa.int64(), "p2": pa.int64(), "x": pa.int64(),
     "address": pa.string(), "w": pa.string()}
)  # fmt: skip
TABLE = pa.schema(
    {"k": pa.int64(), "q": pa.int64(), "y": pa.int64(), "b": pa.int64(), "e": pa.int64(),
     "v": pa.int64(), "first": pa.binary(), "last": pa.binary(), "w": pa.string()}
)  # fmt: skip

KEY, BAND = "s.k = t.k", "t.q BETWEEN s.p - 4 AND s.p + 4"
INSIDE = "t.b <= s.p AND (s.p < t.e OR t.e IS NULL)"
BAND_OF_P = Band("p", "q", 4, 4)
Given = dict[str, Any]
Sides = tuple[DataFrame, DataFrame, DataFrame, Path]
"""A stream, the same rows as a batch, a table, and the file that has its rows."""


def inner(condition: str) -> str:
    return f"SELECT s.id, t.v FROM s JOIN t ON {condition}"


def ranked(condition: str, order: str, many: int = 1) -> str:
    """So many rows of the table for each of the stream, in an order."""
    window = f"row_number() OVER (PARTITION BY s.id ORDER BY {order}) AS place"
    return (
        f"SELECT id, v FROM (SELECT s.id, t.v, {window} FROM s JOIN t ON {condition}) "
        f"WHERE place <= {many}"
    )


COLLATED = "keys with a collation"


@cache
def cases() -> dict[str, tuple[Given, str]]:
    """What a left join is given besides the key ``k``, and its pairs or its rows in SQL."""
    return {
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
        "n nearest beside where": (
            {"when": AsOf("p", "q", "nearest", 9, n=2, order_by="v"), "where": "v % 3 > 0"},
            ranked(f"{KEY} AND abs(t.q - s.p) <= 9 AND t.v % 3 > 0", "abs(t.q - s.p), t.q, t.v", 2),
        ),
        "aggregates": (
            {"when": replace(BAND_OF_P, agg={"n": "count(*)", "all": "sum(v)", "least": "min(v)"})},
            "SELECT s.id, struct(count(t.q) AS n, sum(t.v) AS all, min(t.v) AS least) AS v "
            f"FROM s LEFT JOIN t ON {KEY} AND {BAND} GROUP BY s.id",
        ),
        "n nearest in an array": (
            {"when": AsOf("p", "q", n=2, order_by="v", collect="near")},
            "SELECT s.id, transform(slice(array_sort(collect_list("
            "CASE WHEN t.q <= s.p THEN struct(-t.q AS q, t.v AS v) END)), 1, 2), r -> r.v) AS v "
            f"FROM s LEFT JOIN t ON {KEY} GROUP BY s.id",
        ),
        "intervals that contain": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), relation="contains", at_least=2)},
            inner(f"{KEY} AND s.p <= t.b AND t.e <= s.p2 AND t.e - t.b >= 2"),
        ),
        "intervals that meet": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), "both", "meets")},
            inner(f"{KEY} AND s.p IS NOT NULL AND (s.p2 = t.b OR t.e = s.p)"),
        ),
        "equal intervals": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), "both", "equals")},
            inner(f"{KEY} AND s.p = t.b AND s.p2 = t.e"),
        ),
        "intervals within": (
            {"when": Overlaps(("p", "p2"), ("b", "e"), "both", "within")},
            inner(f"{KEY} AND t.b <= s.p AND (s.p2 <= t.e OR t.e IS NULL)"),
        ),
        "null-safe keys": ({"nulls_equal": True}, inner("s.k <=> t.k")),
        "latest rows": (
            {"cache": Full(latest_by="v")},
            "SELECT s.id, l.v FROM s JOIN (SELECT k, max(v) AS v FROM t GROUP BY k) l ON s.k = l.k",
        ),
        "keys that are expressions": ({"on": [(F.col("k") + 1, "k")]}, inner("s.k + 1 = t.k")),
        "keys in lower case": ({"on": [(F.lower("w"), "w")]}, inner("lower(s.w) = t.w")),
        COLLATED: ({"on": "w"}, inner("lower(s.w) = lower(t.w)")),
        "networks": (
            {"when": Within("ip", "first", "last", "both", "shortest", "v")},
            ranked(f"{KEY} AND s.ip BETWEEN t.first AND t.last", "t.first DESC, t.last, t.v"),
        ),
    }  # fmt: skip


# Joins whose rows are not pairs, which have no indicator.
SHOWN = {
    "n nearest in an array": "transform(near, r -> r.v)",
    "aggregates": "struct(n, all, least)",
}


WORDS = (None, "a", "A", "ab", "aB", "AB", "b")


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
                "w": draw.choice(WORDS),
            }
        )
    return pa.Table.from_pylist(rows, STREAM)


def table_rows() -> pa.Table:
    draw, rows = random.Random(7), []
    for v in range(160):  # a key of more than 64 rows has boxes
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
                "first": ipaddress.ip_address(f"::ffff:{network[0]}").packed,
                "last": ipaddress.ip_address(f"::ffff:{network[-1]}").packed,
                "w": draw.choice(WORDS),
            }
        )
    return pa.Table.from_pylist(rows, TABLE)


def labelled(case: Column, rows: DataFrame, value: str) -> DataFrame:
    return rows.select(case.alias("case"), "id", F.to_json(F.expr(f"struct({value} AS v)")))


def started(joined: DataFrame, name: str, checkpoint: Path) -> None:
    """Run a query to the end of what is there; its rows are the table of that name."""
    writer = joined.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def made(spark: SparkSession, folder: Path) -> Sides:
    """Their rows are those of the views ``s`` and ``t``."""
    (folder / "in").mkdir()
    for number in range(2):
        batch = stream_rows(number)
        columns = {name: batch[name] for name in batch.column_names}
        write_stream_file(folder / "in", number, **columns)
    with_ip = {"ip": network_start("address")}
    static = spark.read.parquet(str(folder / "in"))
    batch = static.withColumns(with_ip).coalesce(1)
    batch.createOrReplaceTempView("s")
    table = spark.createDataFrame(table_rows())
    table.createOrReplaceTempView("t")
    pq.write_table(table_rows(), folder / "t.parquet")
    reader = spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(folder / "in")).withColumns(with_ip)
    return stream, batch, table, folder / "t.parquet"


def rows_of_sql(spark: SparkSession) -> list[tuple[Any, ...]]:
    """What SQL has of the views, in all cases: of pairs those of a left join with an indicator."""
    names = [name for name in cases() if name not in SHOWN]
    case = F.explode(F.array(*map(F.lit, names))).alias("case")
    pairs = united(
        [spark.sql(cases()[name][1]).select(F.lit(name).alias("case"), "*") for name in names]
    ).withColumn("found", F.lit(True))
    rows = spark.table("s").select(case, "id").join(pairs, ["case", "id"], "left")
    found = [labelled(F.col("case"), rows, "struct(v, coalesce(found, false) AS found)")]
    found += [labelled(F.lit(name), spark.sql(cases()[name][1]), "v") for name in SHOWN]
    with configured(spark, PLAINLY):
        wanted = sorted(map(tuple, united(found).collect()))
    assert {row[0] for row in wanted if "true" in row[2]} == set(names)
    return wanted


DOORS = ("jvm", "python", "incremental")


def runtime(door: str) -> str:
    return "jvm" if door == "jvm" else "python"


def joined(sides: Sides, doors: Mapping[str, str], *, streaming: bool) -> DataFrame:
    """The rows of cases, each by its door.

    What the incremental cache has not, as docs/limits.md says, is full there.
    """
    stream, batch, table, file = sides
    pieces = []
    for name, door in doors.items():
        arguments, _ = cases()[name]
        more: Given = {} if name in SHOWN else {"indicator": "found"}
        there: Any = table
        rows = stream if streaming else batch
        is_full = arguments.get("on") == [] or "cache" in arguments or name == COLLATED
        if door == "incremental" and not is_full:
            there, more["cache"] = bsjoin.sources.parquet(file), Incremental(max_rows=10_000)
        elif name == COLLATED:
            collated = F.collate("w", "UTF8_LCASE")
            rows, there = (df.withColumn("w", collated) for df in (rows, table))
        with configured(rows.sparkSession, {"spark.bsjoin.runtime": runtime(door)}):
            found = bsjoin.join(rows, there, **{"on": "k", "how": "left", **more, **arguments})
        if arguments.get("on") == [] and not streaming:
            with redirect_stdout(io.StringIO()) as told:
                bsjoin.explain(found)
            assert "searches boxes of " in told.getvalue()
        pieces.append(labelled(F.lit(name), found, SHOWN.get(name, "struct(v, found)")))
    return united(pieces)


def assert_same(found: Iterable[Any], wanted: Iterable[Any], names: Collection[str]) -> None:
    rows, right = sorted(map(tuple, found)), [row for row in wanted if row[0] in names]
    assert [row for row in rows if row not in right] == []
    assert rows == right


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    return made(spark, tmp_path_factory.mktemp("conditions"))


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, sides: Sides) -> list[tuple[Any, ...]]:
    assert sides
    return rows_of_sql(spark)


@pytest.mark.parametrize(
    ("door", "some"),
    [
        *((door, slice(place, None, 3)) for place, door in enumerate(DOORS)),
        *(pytest.param(door, slice(None), marks=pytest.mark.long) for door in DOORS),
    ],
    ids=[f"{door}, {many}" for many in ("a third", "all") for door in DOORS],
)
def test_batches_and_streams_have_the_rows_that_sql_has(
    spark: SparkSession,
    sides: Sides,
    wanted: list[tuple[Any, ...]],
    tmp_path: Path,
    door: str,
    some: slice,
) -> None:
    doors = dict.fromkeys([*cases()][some], door)
    with configured(spark, CODE[runtime(door)]):
        assert_same(joined(sides, doors, streaming=False).collect(), wanted, doors)
    # Of some cases, only the batch meets generated code.
    with configured(spark, CODE[runtime(door) if some == slice(None) else "python"]):
        started(joined(sides, doors, streaming=True), f"found_{door}", tmp_path / "checkpoint")
    assert_same(spark.table(f"found_{door}").collect(), wanted, doors)
