"""Plain joins with tables whose rows are boxes: the rows are those of Spark's own join.

The rows are the hostile ones of the joins by ``when=[...]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from oracle import one_part
from plain_joins import CODE, lookup_lines, lookups, plan_of
from plain_ranges import JOINS, answers
from pyspark.sql import DataFrame, SparkSession
from real_time_queries import planned_in_real_time
from sessions import configured
from spark_samples import Feed, cycles, rows
from test_boxes import BOXES, STREAM, TABLE

from bsjoin import BatchTable
from bsjoin.storage import StorageLocation, versions

MODES = ("stage", "interpreted", "projections", "interpreted")
WRAPS = {"spark.sql.ansi.enabled": "false"}
"""Sums that overflow: integers wrap around."""
LAST = {"d": "9e9D", "t": "timestamp_micros(99000000)", "n": f"bigint('{2**63 - 1}')"}
WIDTH = {"d": "1.5D", "t": "INTERVAL '3' SECOND", "n": "2L"}


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    stream, table = one_part(spark, STREAM), one_part(spark, TABLE)
    return stream.withColumnRenamed("s", "id"), table.withColumnRenamed("n", "id")


@pytest.fixture
def source(sides: tuple[DataFrame, DataFrame]) -> DataFrame:
    """The rows of the tables, as ``source``; those of the stream are ``s``."""
    stream, table = sides
    stream.createOrReplaceTempView("s")
    table.createOrReplaceTempView("source")
    return table


def built(source: DataFrame, label: str, path: Path, *, keyed: bool) -> BatchTable:
    """A table with boxes, in several segments if it has keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
        on, size = ["k"] * keyed, 32 << 10
        return BatchTable.build(source, on=on, when=BOXES[label], path=path, segment_bytes=size)


POINTS = (
    "t.q{0} >= s.p{0} AND t.q{0} < s.x{0}",
    "t.q{0} BETWEEN s.p{0} - {width} AND s.p{0} + {width}",
    "t.q{0} = s.p{0}",
    "s.x{0} + {width} > t.q{0} AND s.p{0} < t.q{0}",
    "t.q{0} <= s.x{0}",
)
INTERVALS = (
    "t.q{0} <= s.p{0} AND (t.y{0} IS NULL OR s.p{0} < t.y{0})",
    "s.p{0} BETWEEN t.q{0} AND t.y{0}",
    "s.x{0} > t.q{0} AND coalesce(t.y{0}, {last}) >= s.p{0}",
    "t.q{0} >= s.p{0} AND t.y{0} <= s.x{0}",
    "(t.y{0} >= s.p{0} + {width} OR t.y{0} IS NULL) AND t.q{0} < s.p{0}",
    "t.q{0} = s.p{0}",
    "t.q{0} < s.x{0}",
)
"""Conditions of a range, by its kind; that of the table's doubles has no sum that is a bound."""


def queries(label: str, place: int, *, keyed: bool, joins: Sequence[str] = JOINS) -> str:
    """Joins of the stream with ``{t}``, one below the other; each has conditions of all ranges."""
    parts = []
    for number, join in enumerate(joins):
        on = ["s.k = t.k"] * keyed + ["t.id % 3 <> s.id % 3"] * (number == place)
        for dimension, when in enumerate(BOXES[label]):
            kind = when.table_columns[0][1]
            texts = POINTS if len(when.table_columns) == 1 else INTERVALS
            text = texts[(number + place + 2 * dimension) % len(texts)]
            on.append(text.format(kind, width=WIDTH[kind], last=LAST[kind]))
        parts.append(join.format(no=number, s="s", t="{t}", on=" AND ".join(on)))
    return "\nUNION ALL\n".join(parts)


def check(spark: SparkSession, query: str, table: BatchTable, own: str = "source") -> list[str]:
    """Hold a query against Spark's own join; the lines of the joins that the index answers."""
    its, theirs = (query.replace("{t}", name) for name in (f"bsjoin.`{table.path}`", own))
    return answers(spark, its, theirs, **WRAPS)


@pytest.mark.parametrize(
    ("place", "label", "keyed"),
    [
        (0, "points in boxes", True),
        (1, "boxes of points", False),
        pytest.param(2, "three", True, marks=pytest.mark.long),
        pytest.param(3, "right", True, marks=pytest.mark.long),
        pytest.param(4, "neither", False, marks=pytest.mark.long),
        pytest.param(5, "overlap, right", True, marks=pytest.mark.long),
    ],
)
def test_conditions(
    spark: SparkSession, source: DataFrame, tmp_path: Path, place: int, label: str, keyed: bool
) -> None:
    table = built(source, label, tmp_path / "t", keyed=keyed)
    with configured(spark, CODE[MODES[place % 4]]):
        lines = check(spark, queries(label, place, keyed=keyed), table)
    assert ["boxes" if ", boxes " in line else line for line in lines] == ["boxes"] * len(JOINS)


def test_changes_and_real_time(
    spark: SparkSession, source: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments without boxes below those that have them; and rows that come one by one."""
    label = "points in boxes"
    table = built(source.where("id < 500"), label, tmp_path / "t", keyed=True)
    with configured(spark, CODE["interpreted"]):
        table.apply(source.where("id >= 550"), key="id")
        few = check(
            spark, queries(label, 0, keyed=True, joins=JOINS[:3]), table,
            "(SELECT * FROM source WHERE id < 500 OR id >= 550)",
        )  # fmt: skip
        monkeypatch.setattr("bsjoin.storage.layers.applying._BOXED", 65)
        table.apply(source.where("id >= 400"), key="id")
        many = check(spark, queries(label, 1, keyed=True, joins=JOINS[3:]), table)
        with planned_in_real_time(spark, tmp_path / "idle"):
            live = check(spark, queries(label, 2, keyed=True), table)
    assert len(few) + len(many) == len(JOINS)
    assert len(live) > 4
    assert all(", boxes " in line for line in (*few, *many, *live))


def test_what_is_searched(spark: SparkSession, source: DataFrame, tmp_path: Path) -> None:
    keyed = built(source, "points in boxes", tmp_path / "keyed", keyed=True)
    alone = built(source, "points in boxes", tmp_path / "alone", keyed=False)
    small = built(source.where("id < 60"), "points in boxes", tmp_path / "small", keyed=True)
    first = "t.qd <= s.pd AND (t.yd IS NULL OR s.pd < t.yd)"
    second = "s.pt BETWEEN t.qt AND t.yt"
    cases: list[tuple[BatchTable, Sequence[str], str]] = [
        (keyed, [first, second], "boxes"),
        (keyed, ["t.qd <= 3.25D", second], "boxes"),
        (keyed, [first], "ranges"),
        (keyed, [first, "t.yt > s.pt"], "ranges"),  # rows without a start would not be found
        (keyed, [second, "t.qd IS NOT NULL"], "keys alone"),
        (small, [first, second], "ranges"),  # it has no boxes
        (alone, [first, second], "boxes"),
    ]
    query = "SELECT {}, s.id, t.id FROM s LEFT JOIN {} t ON {}"
    parts, own = [], []
    for number, (table, conditions, _) in enumerate(cases):
        on = " AND ".join([*["s.k = t.k"] * (table is not alone), *conditions])
        whole = f"(SELECT * FROM source WHERE {'id < 60' if table is small else 'true'})"
        parts.append(query.format(number, f"bsjoin.`{table.path}`", on))
        own.append(query.format(number, whole, on))
    with configured(spark, CODE["interpreted"]):
        its, theirs = ("\nUNION ALL\n".join(texts) for texts in (parts, own))
        lines = answers(spark, its, theirs, **WRAPS)
    told = [[what for what in ("boxes", "ranges") if f", {what} " in line] for line in lines]
    assert [" ".join(one) or "keys alone" for one in told] == [what for *_, what in cases]
    # Rows without the first start match, too: Spark joins.
    for table, on in ((keyed, f"s.k = t.k AND {second}"), (alone, second)):
        assert lookups(spark.sql(query.format(0, f"bsjoin.`{table.path}`", on))) == 0
    # All of the conditions are answered, and checked again where a segment has no boxes.
    joined = f"SELECT * FROM s JOIN bsjoin.`{alone.path}` t ON {first} AND {second}"
    (line,) = lookup_lines(plan_of(spark.sql(joined)))
    boxes, _, checked = line.partition(", boxes ")[2].partition(", condition ")
    for column in ("pd", "qd", "yd", "pt", "qt", "yt"):
        assert f"{column}#" in boxes
        assert f"{column}#" in checked


def test_a_scan_has_all_rows(spark: SparkSession, source: DataFrame, tmp_path: Path) -> None:
    table = built(source, "three", tmp_path / "t", keyed=True)
    with configured(spark, CODE["interpreted"]):
        for where in ("true", "qd > 3 OR yt IS NULL AND k = 2"):
            its, own = (
                df.where(where).selectExpr("id", "k", "qd", "yd", "unix_micros(qt)", "qn", "yn")
                for df in (spark.table(f"bsjoin.`{table.path}`"), source)
            )
            found, wanted = (Counter(repr(tuple(row)) for row in df.collect()) for df in (its, own))
            assert found == wanted
            assert found


def test_a_stream(spark: SparkSession, source: DataFrame, feed: Feed, tmp_path: Path) -> None:
    """A version without boxes, and another one with others, answer it as well."""
    near = "pt IS NOT NULL AND unix_micros(pt) BETWEEN 0 AND 1000000000"
    sent, some = tmp_path / "rows", spark.table("s").where(near).select("id", "k", "pd", "pt")
    sent.mkdir()
    table = built(source, "points in boxes", tmp_path / "table", keyed=True)
    query = (
        "SELECT s.id, t.id AS other FROM {s} s LEFT JOIN {t} t ON s.k = t.k AND "
        "t.qd <= s.pd AND s.pd < t.yd AND s.pt BETWEEN t.qt AND t.yt"
    )
    spark.readStream.schema(some.schema).parquet(str(sent)).createOrReplaceTempView("events")
    its = query.format(s="events", t=f"bsjoin.`{table.path}`")
    content = some.toArrow()
    changed = source.where("id % 3 <> 0")
    running = feed.start(spark.sql(its))
    for number in range(3):
        if number == 1:
            table.refresh(changed)
        if number == 2:
            whens: Any = [BOXES["points in boxes"][0], BOXES["no end"][1]]
            BatchTable.build(source, on="k", when=whens, path=table.path)
        pq.write_table(content, sent / f"{number}.parquet")
        running.processAllAvailable()
    (first, *_) = cycles(running)
    assert first.on == ("k", "pd", "pt")
    assert versions.latest(StorageLocation.of(table.path)).boxes[0].columns.names == ("qn",)
    some.createOrReplaceTempView("some")
    changed.createOrReplaceTempView("changed")
    with configured(spark, CODE["interpreted"]):
        wanted = [
            rows(spark.sql(query.format(s="some", t=own)))
            for own in ("source", "changed", "source")
        ]
    assert [found for found in feed.results.values() if found] == wanted
    assert wanted[0] != wanted[1]
