"""As-of takes the first of several rows with the same key and point, whatever else is different."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cache_samples import Model
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed, rows_of_each

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Full, Incremental, sources
from bsjoin.errors import ArgumentError, ColumnError, KeyTypeError, TableMismatchError

pytestmark = [pytest.mark.in_turns("runtime"), pytest.mark.usefixtures("without_code")]

CACHED = Incremental(max_rows=9999)
MAP = pa.map_(pa.string(), pa.int64())


def table_rows(seed: int, *, with_maps: bool) -> pa.Table:
    """Many rows with the same key and point; the map has its entries in any order."""
    draw = random.Random(seed)
    many = 120
    columns: dict[str, tuple[Callable[[], Any], pa.DataType]] = {
        "k": (lambda: draw.choice([1, 2]), pa.int64()),
        "q": (lambda: draw.choice([10, 20, 30]), pa.int64()),
        "a": (lambda: draw.choice([None, 1, 2]), pa.int64()),
        "t": (lambda: draw.choice([None, "", "b", "B", "ü"]), pa.string()),
        "f": (lambda: draw.choice([None, 0.5, -2.0]), pa.float64()),
    }
    if with_maps:
        entries = [("x", 1), ("y", None), ("z", 3)]
        columns["m"] = (lambda: draw.choice([None, draw.sample(entries, draw.randrange(4))]), MAP)
        columns["e"] = (lambda: draw.choice([None, [], [None], [1, 2], [1]]), pa.list_(pa.int64()))
    made = {
        name: pa.array([value() for _ in range(many)], t) for name, (value, t) in columns.items()
    }
    return pa.table({**made, "n": pa.array(range(many)), "z": pa.array([seed] * many)})


def in_any_order(rows: pa.Table, seed: int) -> pa.Table:
    return rows.take(random.Random(seed).sample(range(len(rows)), len(rows)))


def streamed(spark: SparkSession) -> DataFrame:
    points = "element_at(array(5L, 10L, 12L, 20L, 35L), int(1 + id / 3))"
    return spark.sql(f"SELECT id AS s, 1 + id % 3 AS k, {points} AS p FROM range(15)")


def by_spark(
    stream: DataFrame, table: DataFrame, order_by: Sequence[Column], n: int = 1
) -> DataFrame:
    """The number of the n rows that Spark's window function takes, for the last points before."""
    table = table.withColumnRenamed("k", "key_")
    whole = [
        F.array_sort(F.map_entries(name)) if name == "m" else F.col(name)
        for name in table.columns
        if name not in ("key_", "q")
    ]
    pairs = stream.join(table, (F.col("k") == F.col("key_")) & (F.col("q") <= F.col("p")))
    order = [F.col("q").desc(), *order_by, *(column.asc() for column in whole)]
    place = F.row_number().over(Window.partitionBy("s").orderBy(*order))
    return pairs.withColumn("place", place).where(f"place <= {n}").select("s", "n")


def chosen(results: Mapping[Any, DataFrame]) -> dict[Any, list[tuple[int, int]]]:
    return rows_of_each({name: rows.select("s", "n") for name, rows in results.items()})


def test_the_rows_are_those_of_a_window_function(
    spark: SparkSession, runtime: str, tmp_path: Path
) -> None:
    """Whatever the order in which they are read; maps are ordered as their sorted entries."""
    stream, rows = streamed(spark), table_rows(1, with_maps=True)
    table, model = spark.createDataFrame(rows), Model(tmp_path / "model", in_any_order(rows, 5))
    own, ours = {}, {}
    orders: list[tuple[int, Any, list[Column]]] = [
        (1, (), []),
        (4, ["f desc nulls first", "n desc"], [F.desc_nulls_first("f"), F.desc("n")]),
    ]
    for n, order_by, columns in orders:
        when = AsOf("p", "q", order_by=order_by, n=n)
        join = partial(bsjoin.join, stream, on="k", when=when)
        own[f"{n}"] = by_spark(stream, table, columns, n)
        ours[f"{n} full"] = join(table.orderBy(F.rand(1)), select=["z", "n"])
        ours[f"{n} incremental"] = join(model, cache=CACHED, select=["n"])
    expected = chosen(own)
    for name, got in chosen(ours).items():
        assert got == expected[name.split()[0]], name


@pytest.mark.long
def test_other_columns_may_be_refreshed(spark: SparkSession, tmp_path: Path) -> None:
    """What comes after the columns that decide does not change the row."""
    stream, rows = streamed(spark), table_rows(1, with_maps=True)
    names = [name for name in rows.column_names if name not in ("m", "z")]
    when = AsOf("p", "q", order_by=["f desc", "n"])
    before = spark.createDataFrame(rows)
    after = before.withColumns({"m": F.lit(None).cast("map<string,bigint>"), "z": -F.col("n")})
    after = after.withColumns({"t": F.lit("other"), "a": -F.col("a")}).orderBy(F.rand(3))
    tables = {
        "order_by": BatchTable.build(before, on="k", when=when, path=tmp_path / "a"),
        "whole row": BatchTable.build(before.select(*names, "z"), on="k", when=AsOf("p", "q")),
    }
    first = chosen({name: t.join(stream, select=["n"]) for name, t in tables.items()})
    assert tables["order_by"].refresh(after) == 2
    assert tables["whole row"].refresh(before.withColumn("z", -F.col("n"))) == 2
    assert chosen({name: t.join(stream, select=["n"]) for name, t in tables.items()}) == first


@pytest.mark.long
def test_a_private_table_of_few_columns_is_refreshed_by_all_of_them(
    spark: SparkSession, runtime: str, feed: Feed, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    pq.write_table(table_rows(1, with_maps=True), folder / "0.parquet")
    schema = spark.read.parquet(str(folder)).schema
    table, found = spark.read.schema(schema).parquet(str(folder)), []
    when = AsOf("p", "q", order_by="f desc")

    def call(micro: DataFrame, number: int) -> None:
        micro = micro.selectExpr("k AS s", "k", "25L AS p")
        now = spark.read.parquet(str(folder))
        ours = bsjoin.join(micro, table, "k", when=when, select=["n"])
        found.append(chosen({"ours": ours, "own": by_spark(micro, now, [F.desc("f")])}))
        rows = table_rows(number + 2, with_maps=True)
        more = rows.set_column(rows.column_names.index("n"), "n", pc.add(rows["n"], 200))
        pq.write_table(more, folder / f"{number + 1}.parquet")

    for _ in range(3):
        feed.add(1, 2)
    feed.call(call).processAllAvailable()
    assert len(found) == 3
    assert all(rows["ours"] == rows["own"] for rows in found)
    assert len({str(rows["own"]) for rows in found}) > 1

    kept = []
    steered = bsjoin.cycles(
        table, "k", when=when, select=["n"], sink=lambda rows, _: kept.append(chosen({"": rows}))
    )
    steered(streamed(spark), 0)
    now = spark.read.parquet(str(folder))
    assert kept == [chosen({"": by_spark(streamed(spark), now, [F.desc("f")])})]


def test_a_table_answers_the_order_that_it_was_built_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream, table = streamed(spark), spark.createDataFrame(table_rows(1, with_maps=False))
    when = AsOf("p", "q", order_by=["A desc", "t"])
    BatchTable.build(table, on="k", when=when, path=tmp_path / "t")
    opened = BatchTable.open(tmp_path / "t")
    wanted = chosen({"": opened.join(stream, select=["n"])})
    for same in (when, AsOf("p", "q", order_by=["a DESC NULLS LAST", "T asc"])):
        assert chosen({"": opened.join(stream, when=same, select=["n"])}) == wanted
    assert opened.join(stream, when=Band("p", "q", 5, 0)).count() > 0
    for other in (AsOf("p", "q"), AsOf("p", "q", order_by="a desc"), AsOf("p", "q", order_by="n")):
        with pytest.raises(TableMismatchError, match=r"order_by.*a DESC NULLS LAST"):
            opened.join(stream, when=other)
        with pytest.raises(TableMismatchError, match="order_by"):
            BatchTable.build(table, on="k", when=other, path=tmp_path / "t")
        with pytest.raises(TableMismatchError, match="order_by"):
            bsjoin.join(stream, table, "k", when=other, cache=Full(store=tmp_path / "t"))
    plain = BatchTable.build(table, on="k", when=Band("p", "q", 0, 0))
    assert chosen({"": plain.join(stream, when=AsOf("p", "q"))}) == chosen(
        {"": by_spark(stream, table, [])}
    )
    with pytest.raises(TableMismatchError, match="order_by"):
        plain.join(stream, when=when)


@pytest.mark.long
def test_columns_may_be_added_spelled_otherwise_and_come_in_another_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The order follows the columns of the frame that is joined, or was built."""
    stream, table = streamed(spark), spark.createDataFrame(table_rows(1, with_maps=False))
    when, cache = AsOf("p", "q", order_by="f desc"), Full(store=tmp_path / "t", fingerprint="1")
    turned = table.select("n", "z", "t", "f", "a", "q", "k").withColumnRenamed("f", "F")
    for frame in (table, turned, table):
        ours = bsjoin.join(stream, frame, "k", when=when, cache=cache, select=["n"])
        assert chosen({"": ours}) == chosen({"": by_spark(stream, frame, [F.desc("f")])})
    stored = BatchTable.open(tmp_path / "t")
    before = chosen({"": stored.join(stream, select=["n"])})
    wider = table.select((-F.col("n")).alias("first"), "*").orderBy(F.rand(2))
    stored.refresh(wider)
    assert "first" in stored.columns
    assert chosen({"": stored.join(stream, select=["n"])}) == before


def test_a_table_of_an_earlier_version_is_joined_in_its_old_order_until_it_is_built_again(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream, table = streamed(spark), spark.createDataFrame(table_rows(1, with_maps=False))
    build = partial(BatchTable.build, table, on="k", path=tmp_path, when=AsOf("p", "q"))
    build(fingerprint="1")
    file = tmp_path / "versions" / "00000001.json"
    written = json.loads(file.read_text())
    del written["row"], written["ranged"]["order_by"]
    assert "order_by" not in written["condition"]["AsOf"]
    file.write_text(json.dumps(written))
    opened = BatchTable.open(tmp_path)
    for _ in range(2):
        assert opened.join(stream).count() == 8
    warnings = [message for message in caplog.messages if "earlier version" in message]
    assert len(warnings) == 1
    assert str(tmp_path) in warnings[0]
    with pytest.raises(TableMismatchError, match="order_by"):
        opened.join(stream, when=AsOf("p", "q", order_by="a"))
    assert build(fingerprint="1").version == 2
    assert chosen({"": opened.join(stream)}) == chosen({"": by_spark(stream, table, [])})
    assert build(fingerprint="1").version == 2


def test_what_cannot_be_an_order_is_refused_at_the_call(spark: SparkSession) -> None:
    stream, table = streamed(spark), spark.createDataFrame(table_rows(1, with_maps=True))
    table = table.withColumn("c", F.expr("collate('x', 'UNICODE_CI')"))
    for name, error in (("m", KeyTypeError), ("c", KeyTypeError), ("nn", ColumnError)):
        with pytest.raises(error, match=f"order_by.*'{name}'"):
            bsjoin.join(stream, table, "k", when=AsOf("p", "q", order_by=name))
    with pytest.raises(ArgumentError, match="twice"):
        bsjoin.join(stream, table, "k", when=AsOf("p", "q", order_by=["a", "A desc"]))
    for name in ("e", "a"):
        when = AsOf("p", "q", order_by=f"{name} desc")
        own = by_spark(stream, table.drop("c"), [F.desc(name)])
        ours = bsjoin.join(stream, table.drop("c"), "k", when=when, select=["n"])
        assert chosen({"": ours}) == chosen({"": own})
    joined = bsjoin.join(
        stream.withColumn("a", F.lit(1)), table.drop("c").withColumnRenamed("k", "K"),
        when=AsOf("p", "q", order_by="a"), select=["a", "n"],
    )  # fmt: skip
    assert joined.columns == ["s", "k", "p", "a", "a_batch", "n"]  # it is no key


def test_texts_with_a_collation_are_in_the_order_of_their_bytes(spark: SparkSession) -> None:
    """By the collation the first row would be the other one."""
    named = "1L AS k, 10L AS q, collate(t, 'UTF8_LCASE') AS t, n"
    table = spark.sql(f"SELECT {named} FROM VALUES ('a', 1L), ('B', 2L) AS r(t, n)")
    ours = bsjoin.join(streamed(spark), table, "k", when=AsOf("p", "q"), select=["n"])
    assert {n for _, n in chosen({"": ours})[""]} == {2}
    assert BatchTable.build(table, on="k", latest_by="q").to_df().select("n").collect() == [(2,)]


@pytest.mark.long
def test_a_join_that_brings_no_column_needs_no_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, rows = streamed(spark), table_rows(1, with_maps=True)
    monkeypatch.setattr("bsjoin.storage.ties.break_ties", None)
    when = AsOf("p", "q", order_by="a desc")
    model, table = Model(tmp_path / "model", rows), spark.createDataFrame(rows)
    table.write.parquet(str(tmp_path / "files"))
    files = sources.parquet(str(tmp_path / "files"))
    semi = [
        bsjoin.join(stream, batch, "k", when=when, how="semi", cache=cache)
        for batch, cache in ((table, Full()), (files, Full()), (model, CACHED))
    ]
    none = bsjoin.join(stream, table, "k", when=when, select=[])
    assert [joined.count() for joined in (*semi, none)] == [8, 8, 8, 8]
