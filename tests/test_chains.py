"""Joins that follow each other: rows and figures do not depend on how a chain is carried out.

That the rows are right, the fuzz shows (`test_fuzz.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Within

pytestmark = pytest.mark.usefixtures("without_code")

_KEYS = 12
WAYS = {
    "jvm": {"runtime": "jvm"},
    "one stage": {"runtime": "python", "python.chains": "true"},
    "keys": {"runtime": "python", "python.transfer": "keys"},
    "rows, a stage each": {
        "runtime": "python",
        "python.transfer": "rows",
        "python.chains": "false",
    },
}
"""How chains are carried out, by settings of the session."""
_DIFFERS = ("join", "lookup_ms", "open_ms", "runtime", "runtime_reason", "timestamp")
"""What the figures of two queries do not share."""


# How many rows the keys of a table have, in turns.
KINDS = {
    "unique": (1, 0),
    "one row a key": (1, 1, 0),
    "a few rows": (1, 3, 0, 2),
    "many rows": (1, 0, 70),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, BatchTable]:
    """A table of each kind: the key ``id``; ``next``, a key of another table or null; a text."""
    made = {}
    for kind, has in KINDS.items():
        ids = [key for key in range(_KEYS) for _ in range(has[key % len(has)])]
        columns = {
            "id": pa.array(ids, pa.int64()),
            "next": pa.array([i % 13 if i % 5 else None for i in range(len(ids))], pa.int64()),
            "text": pa.array([f"{kind} {i}" for i in range(len(ids))]),
        }
        df = spark.createDataFrame(pa.table(columns)).coalesce(1)
        folder = tmp_path_factory.mktemp("tables") / "table"
        made[kind] = BatchTable.build(df, on="id", path=folder, unique=kind == "unique")
    return made


# Kinds of tables, join types, and keys: the stream's, or one that a join before has brought.
CHAIN: list[tuple[str, Any, str]] = [
    ("a few rows", "left", "k"),
    ("unique", "inner", "next_0"),
    ("many rows", "left", "next_1"),
    ("one row a key", "anti", "next_0"),
]


def joined(stream: DataFrame, tables: dict[str, BatchTable]) -> DataFrame:
    """The stream has the tables' columns, too: those of each join get its number."""
    for number, (kind, how, on) in enumerate(CHAIN):
        select = None if how in ("semi", "anti") else ["next", "text"]
        stream = tables[kind].join(stream, {on: "id"}, how=how, select=select, suffix=f"_{number}")
    return stream


def in_all_ways(
    spark: SparkSession,
    folder: Path,
    query: Callable[[DataFrame], DataFrame],
    *batches: list[int | None],
) -> list[tuple[list[tuple[Any, ...]], list[dict[str, Any]]]]:
    """By way: the rows and the figures of a query on micro-batches with these keys."""
    feed, results = Feed(spark, folder), []
    for keys in batches:
        feed.add(*keys)
    stream = feed.stream
    for number, way in enumerate(WAYS.values()):
        with configured(spark, {f"spark.bsjoin.{k}": v for k, v in way.items()}):
            results.append(query(stream).select(F.lit(number).alias("way"), "*"))
    running = feed.run(oracle.united(results))
    by_way: list[list[dict[str, Any]]] = [[] for _ in WAYS]
    for batch in range(len(batches)):
        of_batch = [cycle for cycle in cycles(running) if cycle.batch_id == batch]
        each, rest = divmod(len(of_batch), len(WAYS))
        assert each > 0
        assert rest == 0
        for place, cycle in enumerate(of_batch):  # in the order in which they were planned
            shown = {f.name: getattr(cycle, f.name) for f in fields(cycle)}
            by_way[place // each].append({n: v for n, v in shown.items() if n not in _DIFFERS})
    found = []
    for number, told in enumerate(by_way):
        of_way = [(n, row) for n, some in feed.results.items() for row in some if row[0] == number]
        found.append(([(n, *row[1:]) for n, row in of_way], told))
    return found


@pytest.mark.long
def test_the_figures_of_a_chain_are_those_of_its_joins(
    spark: SparkSession, tables: dict[str, BatchTable], tmp_path: Path
) -> None:
    def query(stream: DataFrame) -> DataFrame:
        return joined(stream.selectExpr("k", "k % 4 AS next", "'' AS text"), tables)

    found = in_all_ways(spark, tmp_path, query, [*range(15), *range(6), None], [99, None])
    assert all(one == found[0] for one in found)
    assert {told["batch_id"] for told in found[0][1]} == {0, 1}


def test_range_joins_in_a_chain(
    spark: SparkSession, tables: dict[str, BatchTable], tmp_path: Path
) -> None:
    """One is around a column that the join before brings; rows that it multiplies go on."""
    points = spark.range(60).selectExpr("id % 3 AS g", "id DIV 4 AS q", "id AS n")
    spans = spark.range(60).selectExpr("id AS start", "id + 70 - id % 7 * 10 AS end", "id AS m")
    band, nearest = Band("next", "q", 1, 2), AsOf("k", "q", "nearest", exact=False)
    within = Within("k", "start", "end", "both")
    by_band = BatchTable.build(points, on="g", when=band, path=tmp_path / "points")
    by_span = BatchTable.build(spans, on=[], when=within, path=tmp_path / "spans")

    def query(stream: DataFrame) -> DataFrame:
        rows = stream.selectExpr("k", "k % 4 AS g")
        rows = tables["unique"].join(rows, {"k": "id"}, how="left")
        rows = by_band.join(rows, "g", when=band, how="left", select=["n"])
        rows = by_band.join(rows, "g", when=nearest, how="left", select=["n"], suffix="_2")
        rows = by_span.join(rows, [], when=within, how="inner", select=["m"])
        return by_span.join(rows, [], when=within, how="semi")

    found = in_all_ways(spark, tmp_path, query, [*range(15), *range(6), None], [3, 4, 99])
    assert all(one == found[0] for one in found)
    assert len(found[0][0]) > 100


def test_two_parts_of_a_query_that_use_one_join(tables: dict[str, BatchTable], feed: Feed) -> None:
    few, unique = tables["a few rows"], tables["unique"]
    first = few.join(feed.stream, {"k": "id"})
    parts = [first.select("k"), unique.join(first, {"k": "id"}, how="semi").select("k")]
    query = feed.run(parts[0].union(parts[1]), *range(6), None)
    found = [(c.rows_in, c.rows_out, c.hits, c.misses, c.table_version) for c in cycles(query)]
    # Keys 0 to 5 have 1, 3, 0, 2, 1 and 3 rows; of these 0, 2 and 4 are in the other table.
    assert found == [(14, 20, 10, 4, 1), (10, 2, 2, 8, 1)]


def test_a_chain_is_one_pass(
    tables: dict[str, BatchTable], feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    few, unique = tables["a few rows"], tables["unique"]
    both = few.join(unique.join(feed.stream, {"k": "id"}), {"next": "id"}, suffix="_2")
    third = unique.join(both, {"next_2": "id"}, suffix="_3")
    bsjoin.explain(third)
    assert capsys.readouterr().out.count("in the pass of the join before") == 2
    query = feed.run(third, 1, 2)
    progress = query.lastProgress
    assert not progress["observedMetrics"]
    assert [cycle.join for cycle in cycles(query)] == sorted(c.join for c in cycles(query))
    assert len(cycles(query)) == 3


def test_a_join_in_the_sink_of_a_cycle_counts_apart(
    spark: SparkSession, tables: dict[str, BatchTable], feed: Feed
) -> None:
    few, on = tables["a few rows"], {"k": "id"}
    steered = bsjoin.cycles(few, on, sink=lambda df, _: few.join(df, on, how="semi").collect())
    feed.add(1, 2, 9)
    with configured(spark, {f"spark.bsjoin.{k}": v for k, v in WAYS["one stage"].items()}):
        query = feed.call(steered)
    query.processAllAvailable()
    assert [[one.rows_in for one in bsjoin.progress(of)] for of in (steered, query)] == [[3], [6]]
