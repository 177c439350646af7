"""Plain joins with tables whose rows are boxes: the rows are those of Spark's own join.

Conditions are random, with fixed seeds, over the hostile rows of the joins by ``when=[...]``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from oracle import one_part
from plain_joins import CODE, lookup_lines, plan_of
from plain_ranges import JOINS, answers
from pyspark.sql import DataFrame, SparkSession
from real_time_queries import planned_in_real_time
from sessions import configured
from spark_samples import Feed, cycles, rows
from test_boxes import BOXES, STREAM, TABLE

from bsjoin import BatchTable
from bsjoin.runtimes.jvm.attach import attached
from bsjoin.storage import StorageLocation, versions

MODES = ("stage", "projections", "interpreted")
WRAPS = {"spark__sql__ansi__enabled": "false"}
"""Sums that overflow: integers wrap around."""
LAST = {"d": "9e9D", "t": "timestamp_micros(99000000)", "n": f"bigint('{2**63 - 1}')"}
WIDTH = {"d": "1.5D", "t": "INTERVAL '3' SECOND", "n": "2L"}


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    assert attached(spark) is None
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


class Conditions:
    """Conditions of all ranges of a table.

    Args:
        label: of the ranges.
        seed: of all that is random.
    """

    def __init__(self, label: str, seed: object) -> None:
        self.whens = BOXES[label]
        self.random = random.Random(f"{label} {seed}")

    def of_all(self) -> list[str]:
        """One of each range."""
        found = []
        for when in self.whens:
            made = self._point if len(when.table_columns) == 1 else self._interval
            found.append(made(when.table_columns[0][1]))
        return found

    def _sign(self, sign: str) -> str:
        return sign + self.random.choice(["", "="])

    def _value(self, name: str, kind: str) -> str:
        """A column; sometimes a sum, of which that of the table's doubles is no bound."""
        if self.random.random() < 0.75 or (name.startswith("t") and kind == "d"):
            return name
        return f"{name} {self.random.choice('+-')} {WIDTH[kind]}"

    def _point(self, kind: str) -> str:
        """A condition on points."""
        names = ("s.p", "s.x", "t.q", "t.q")
        a, b, p, q = (self._value(name + kind, kind) for name in names)
        both = f"{p} {self._sign('>')} {a} AND {q} {self._sign('<')} {b}"
        near = f"{p} BETWEEN s.p{kind} - {WIDTH[kind]} AND s.p{kind} + {WIDTH[kind]}"
        return self.random.choice([both, both, near, f"{p} = {a}", f"{b} {self._sign('>')} {p}"])

    def _interval(self, kind: str) -> str:
        """A condition on intervals, with a point of the stream or with an interval."""
        names = ("s.p", "s.x", "t.q", "t.y")
        a, b, p, q = (self._value(name + kind, kind) for name in names)
        end, column = f"{q} {self._sign('>')} {a}", f"t.y{kind}"
        missing = f"({column} IS NULL OR {end})"
        greatest = end.replace(column, f"coalesce({column}, {LAST[kind]})")
        end = self.random.choice([end, end, missing, missing, greatest])
        within = f"{p} {self._sign('<')} {a} AND {end}"
        overlaps = f"{b} {self._sign('>')} {p} AND {end}"
        inside = f"{p} >= {a} AND {q} <= {b}"
        others = [inside, f"{a} BETWEEN {p} AND {q}", f"{p} = {a}", f"{p} < {b}"]
        return self.random.choice([within, within, overlaps, overlaps, *others])


def queries(label: str, seed: object, *, keyed: bool) -> str:
    """Joins of all kinds, one below the other, of the stream with ``{t}``."""
    conditions, parts = Conditions(label, seed), []
    for number, join in enumerate(JOINS):
        on = [*conditions.of_all(), *["s.k = t.k"] * keyed]
        on += [one for one in ("t.id % 3 <> s.id % 3",) if conditions.random.random() < 0.2]
        conditions.random.shuffle(on)
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
        (2, "three", True),
        (3, "right", True),
        (4, "neither", False),
        (5, "overlap, right", True),
    ],
)
def test_random_conditions(
    spark: SparkSession, source: DataFrame, tmp_path: Path, place: int, label: str, keyed: bool
) -> None:
    table = built(source, label, tmp_path / "t", keyed=keyed)
    with configured(spark, CODE[MODES[place % 3]]):
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
            spark, queries(label, "few", keyed=True), table,
            "(SELECT * FROM source WHERE id < 500 OR id >= 550)",
        )  # fmt: skip
        monkeypatch.setattr("bsjoin.storage.layers.applying._BOXED", 65)
        table.apply(source.where("id >= 400"), key="id")
        many = check(spark, queries(label, "many", keyed=True), table)
        with planned_in_real_time(spark, tmp_path / "idle"):
            live = check(spark, queries(label, "live", keyed=True), table)
    assert [len(few), len(many)] == [len(JOINS)] * 2
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
        (keyed, [second], "a join of Spark"),  # rows without the first start match, too
        (keyed, [second, "t.qd IS NOT NULL"], "keys alone"),
        (small, [first, second], "ranges"),  # it has no boxes
        (alone, [first, second], "boxes"),
        (alone, [second], "a join of Spark"),
    ]
    told = []
    with configured(spark, CODE["interpreted"]):
        for table, conditions, _ in cases:
            keys = [] if table is alone else ["s.k = t.k"]
            query = "SELECT 0, s.id, t.id FROM s LEFT JOIN {t} t ON "
            own = "(SELECT * FROM source WHERE id < 60)" if table is small else "source"
            lines = check(spark, query + " AND ".join([*keys, *conditions]), table, own)
            line = lines[0] if lines else ""
            found = [what for what in ("boxes", "ranges") if f", {what} " in line]
            told.append(" ".join(found) or ("keys alone" if lines else "a join of Spark"))
    assert told == [what for *_, what in cases]
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
        for where in ("true", "qd > 3 OR yt IS NULL", "k = 2 AND qn IS NOT NULL"):
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
    try:
        for number in range(3):
            if number == 1:
                table.refresh(changed)
            if number == 2:
                whens: Any = [BOXES["points in boxes"][0], BOXES["no end"][1]]
                BatchTable.build(source, on="k", when=whens, path=table.path)
            pq.write_table(content, sent / f"{number}.parquet")
            running.processAllAvailable()
    finally:
        running.stop()
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
