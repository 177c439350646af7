"""``bsjoin.kafka.route``: which topic a record goes to, and with which headers."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cache_runs import database_of_planes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from bsjoin.errors import ArgumentError, ColumnError
from bsjoin.kafka import WAITED_SINCE, WAITING_SINCE
from bsjoin.runtimes.jvm.attach import attached

SCHEMA = """
    key binary, value binary, headers array<struct<key string, value binary>>,
    timestamp timestamp, found boolean not null, name string
"""
NOW = datetime(2026, 11, 28, 12)
MS = 1_795_867_200_000  # of NOW
TOPICS = {"topic": "out", "retry": "again", "dead": "never"}
TRACE, LAST = ("trace", b"t"), ("last", b"")


def since(ms: int | None) -> tuple[str, bytes]:
    return WAITING_SINCE, b"" if ms is None else str(ms).encode()


def waited(ms: int) -> tuple[str, bytes]:
    return WAITED_SINCE, str(ms).encode()


# The headers that come; found or not: the headers and the topic that go.
CASES: list[tuple[Any, bool, Any, str]] = [
    (None, True, [], "out"),
    ([], True, [], "out"),
    ([TRACE], True, [TRACE], "out"),
    (None, False, [since(None)], "again"),
    ([TRACE], False, [TRACE, since(None)], "again"),
    # The second miss: since now.
    ([TRACE, since(None), LAST], False, [TRACE, since(MS), LAST], "again"),
    ([since(MS - 60_000)], False, [since(MS - 60_000)], "again"),
    ([since(MS - 60_001), LAST], False, [since(MS - 60_001), LAST], "never"),
    # Found after it waited, however long: the header tells it.
    ([TRACE, since(MS - 99_000)], True, [TRACE, waited(MS - 99_000)], "out"),
    ([since(None)], True, [waited(MS)], "out"),
    # Of a topic whose records were routed themselves: it does not wait yet.
    ([waited(MS - 99_000)], True, [waited(MS - 99_000)], "out"),
    ([waited(MS - 99_000)], False, [waited(MS - 99_000), since(None)], "again"),
    ([waited(MS - 99_000), since(MS - 9)], False, [waited(MS - 99_000), since(MS - 9)], "again"),
    ([waited(MS - 99_000), since(MS - 9)], True, [waited(MS - 99_000), waited(MS - 9)], "out"),
    # A header of somebody else's making is no number, or null.
    ([(WAITING_SINCE, b"soon")], False, [since(MS)], "again"),
    ([(WAITING_SINCE, None)], False, [since(MS)], "again"),
    ([since(-(1 << 63))], False, [since(-(1 << 63))], "never"),
    ([since((1 << 63) - 1)], False, [since((1 << 63) - 1)], "again"),
    ([(WAITING_SINCE, b"9" * 40)], False, [since(MS)], "again"),
    ([(WAITING_SINCE, b"\xff\xfe")], False, [since(MS)], "again"),
    # Two of them: the first counts.
    ([since(MS - 99_000), since(None)], False, [since(MS - 99_000), since(None)], "never"),
    ([since(None), since(MS - 99_000)], False, [since(MS), since(MS - 99_000)], "again"),
    # A header without a name.
    ([(None, b"1"), since(None)], True, [(None, b"1"), waited(MS)], "out"),
    ([(None, b"1")], True, [(None, b"1")], "out"),
]


def cases(spark: SparkSession) -> DataFrame:
    """The rows of a join, keyed by the numbers of ``CASES``."""
    rows = [
        (str(i).encode(), b"as it came", headers, NOW, found, "Ada" if found else None)
        for i, (headers, found, _, _) in enumerate(CASES)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def routed(joined: DataFrame) -> DataFrame:
    return bsjoin.kafka.route(joined, value="upper(name)", patience="1 minute", **TOPICS)


def assert_routed(rows: list[Any]) -> None:
    """Each of ``CASES`` has gone where it says."""
    got = {
        int(row.key): (
            [(h.key, h.value and bytes(h.value)) for h in row.headers],
            row.topic,
            row.value,
        )
        for row in rows
    }
    assert len(rows) == len(CASES)
    assert got == {
        i: (headers, topic, b"ADA" if found else b"as it came")
        for i, (_, found, headers, topic) in enumerate(CASES)
    }


def counted() -> dict[str, int]:
    """What became of ``CASES``."""
    topics = [topic for *_, topic in CASES]
    names = [{name for name, _ in headers or ()} for headers, *_ in CASES]
    waits = {WAITED_SINCE, WAITING_SINCE}
    recovered = sum(
        topic == "out" and waits & one != set() for topic, one in zip(topics, names, strict=True)
    )
    found, waiting, expired = map(topics.count, ("out", "again", "never"))
    return {"found": found, "recovered": recovered, "waiting": waiting, "expired": expired}


@pytest.fixture
def joined(spark: SparkSession) -> DataFrame:
    return cases(spark)


@pytest.mark.parametrize("is_attached", [True, False], ids=["jar", "SQL"])
def test_where_records_go(
    joined: DataFrame, monkeypatch: pytest.MonkeyPatch, is_attached: bool
) -> None:
    monkeypatch.setattr("bsjoin.kafka.is_attached", lambda _: is_attached)
    assert_routed(routed(joined).collect())
    nulls = {"found": F.lit(None).cast("boolean"), "timestamp": F.lit(None).cast("timestamp")}
    rows = {row.key: row for row in routed(joined.withColumns(nulls)).collect()}
    assert {row.topic for row in rows.values()} == {"again", "never"}
    assert [(h.key, h.value) for h in rows[b"9"].headers] == [since(0)]


def test_records_of_a_stream_may_lack_a_timestamp(spark: SparkSession, tmp_path: Path) -> None:
    nulls = cases(spark).withColumn("timestamp", F.lit(None).cast("timestamp"))
    nulls.write.parquet(str(tmp_path / "in"))
    read = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    query = routed(read).writeStream.format("memory").queryName("no_times").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    rows = {int(row.key): row for row in spark.table("no_times").collect()}
    assert [rows[i].topic == "out" for i in range(len(CASES))] == [one[1] for one in CASES]
    assert [(h.key, h.value) for h in rows[9].headers] == [waited(0)]


def figures_of(routes: list[bsjoin.kafka.RouteProgress]) -> list[dict[str, int]]:
    return [{name: getattr(one, name) for name in counted()} for one in routes]


@pytest.mark.parametrize("counts", ["jar", "SQL", "jar, without our planner"])
def test_what_became_of_the_rows_is_counted_in_their_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: str
) -> None:
    """Behind all that is computed, which is one stage with one projection; of each batch anew."""
    session = spark.newSession()
    is_attached = counts != "SQL"
    assert not is_attached or attached(session) is None
    if counts.endswith("without our planner"):
        session.conf.set("spark.bsjoin.planner", "off")
    read = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    for _ in range(2):
        cases(session).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    monkeypatch.setattr("bsjoin.kafka.is_attached", lambda _: is_attached)
    query = routed(read.parquet(str(tmp_path / "in"))).writeStream.format("noop").start()
    query.processAllAvailable()
    told = bsjoin.kafka.progress(query)
    plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()  # type: ignore[attr-defined]
    query.stop()
    cases(spark)  # ours is the active session again
    assert figures_of(told) == [counted(), counted()]
    assert [(one.batch_id, one.topic) for one in told] == [(0, "out"), (1, "out")]
    assert figures_of(bsjoin.kafka.progress(query.recentProgress[0])) == [counted()]
    assert ("CollectMetrics" in plan) == (not is_attached), plan
    assert plan.count("Project") <= 1, plan
    assert "common_expr" not in plan


def test_rows_are_counted_once_however_often_their_partitions_are_computed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By actions of a function, put together, in part, and from Spark's cache; each call counts."""
    cases(spark).write.parquet(str(tmp_path / "in"))

    def function(batch: DataFrame, number: int) -> None:
        batch.collect()
        batch.coalesce(1).collect()
        batch.limit(1).collect()
        sent = routed(cases(spark))
        sent.limit(1).collect()
        sent.where("topic = 'out'").collect()
        sent.repartition(3).groupBy("topic").count().collect()  # AQE plans anew
        sent.select("key").collect()  # nobody asks where it goes
        kept = routed(cases(spark).repartition(3)).persist()
        assert not kept.isEmpty()
        kept.coalesce(1).collect()
        kept.unpersist()

    read = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    query = routed(read.repartition(3)).writeStream.foreachBatch(function).start()
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    assert figures_of(bsjoin.kafka.progress(query)) == [{k: 3 * n for k, n in counted().items()}]


@pytest.mark.parametrize("is_attached", [True, False], ids=["jar", "SQL"])
def test_calls_of_a_query_with_one_topic_add_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_attached: bool
) -> None:
    monkeypatch.setattr("bsjoin.kafka.is_attached", lambda _: is_attached)
    cases(spark).write.parquet(str(tmp_path / "in"))
    read = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    topics = {**TOPICS, "retry": "later"}
    other = bsjoin.kafka.route(read, value="name", patience="1 minute", **topics)
    query = routed(read).union(other).writeStream.format("noop").start()
    query.processAllAvailable()
    query.stop()
    assert figures_of(bsjoin.kafka.progress(query)) == [{k: 2 * n for k, n in counted().items()}]


def test_values_and_keys_may_be_null_and_names_in_the_rows_do_not_matter(joined: DataFrame) -> None:
    nulls = joined.withColumn("key", F.lit(None).cast("binary")).withColumn("value", F.col("key"))
    named = nulls.withColumnRenamed("found", "is `there`").withColumn("since_", F.lit(1))
    options = {"patience": timedelta(minutes=1), "found": "is `there`", **TOPICS}
    name = F.collate("name", "UTF8_LCASE")
    rows = bsjoin.kafka.route(named, value=name, **options).collect()
    assert sum(row.topic == "out" for row in rows) == sum(found for _, found, _, _ in CASES)
    assert {(row.key, row.value) for row in rows if row.topic == "again"} == {(None, None)}


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_what_an_incremental_cache_does_not_find_waits(spark: SparkSession, tmp_path: Path) -> None:
    rows = (
        cases(spark).drop("found", "name").withColumn("id", F.expr("bigint(CAST(key AS STRING))"))
    )
    source = bsjoin.sources.sql(database_of_planes(tmp_path), table="planes")
    cache = bsjoin.Incremental(max_rows=5)
    joined = bsjoin.join(rows, source, "id", "left", cache=cache, indicator="found")
    sent = {
        int(row.key): (row.topic, bytes(row.value), [h.key for h in row.headers])
        for row in routed(joined).collect()
    }
    assert sent.keys() == {*range(len(CASES))}
    for number, (headers, *_) in enumerate(CASES):
        topic, value, names = sent[number]
        if number < 10:  # the planes that are there
            assert (topic, value) == ("out", b"PLANE %d" % number)
            assert names == [name.replace("waiting", "waited") for name, _ in headers or ()]
        else:
            assert topic in ("again", "never")
            assert value == b"as it came"
            assert WAITING_SINCE in names


def read(end: Any, latest: Any) -> dict[str, Any]:
    return {"startOffset": None, "endOffset": end, "latestOffset": latest}


ORDERS = read({"orders": {"0": 4}}, {"orders": {"0": 9}})
LATER = read({"later": {"0": 1}}, {"later": {"0": 2}})


@pytest.mark.parametrize(
    ("sources", "waits"),
    [
        ([read({"again": {"0": 4, "1": 0}}, {"again": {"0": 4, "1": 0}})], 3),
        ([read({"again": {"0": 4, "1": 0}}, {"again": {"0": 9, "1": 2}})], 10),
        ([read({"again": {"0": 4}, "orders": {"0": 1}}, {"again": {"0": 5}, "orders": {}})], 4),
        ([ORDERS, read({"again": {"0": 4}}, {"again": {"0": 4, "1": 7}})], 10),
        # Of the call whose retry topic is another one, where that is read.
        ([read({"again": {"0": 4}}, {"again": {"0": 9}}), LATER], 11),
        ([LATER], 3),
        ([ORDERS], None),
        ([], None),
        # In real-time mode, and where a source does not tell its latest offset.
        ([read({"again": {"0": 7}}, {"again": {"0": 4}})], None),
        ([read({"again": {"0": 4}}, None)], None),
        # Sources of other kinds.
        ([read({"again": 4}, {"again": 9}), read("4", "9"), read(4, 9), {}], None),
        ([read({"again": {"0": "4"}}, {"again": {"0": 9}})], None),
    ],
)
def test_rows_that_wait_now_are_told_by_what_reads_the_retry_topic(
    sources: list[Any], waits: int | None
) -> None:
    row = {"found": 5, "recovered": 1, "waiting": 3, "expired": 0, "retry": "again"}
    batch = SimpleNamespace(
        batchId=7,
        observedMetrics={
            "bsjoin.kafka.route the out 0": row,
            "bsjoin.kafka.route the out 1": {**row, "waiting": 2, "retry": "later"},
        },
        json=json.dumps({"sources": sources}),
    )
    (found,) = bsjoin.kafka.progress(batch)
    assert (found.batch_id, found.topic, found.waiting) == (7, "the out", 5)
    assert found.waiting_now == waits


def test_what_is_unread_in_a_retry_topic_is_told_once() -> None:
    row = {"found": 5, "recovered": 1, "waiting": 3, "expired": 0, "retry": "again"}
    batch = SimpleNamespace(
        batchId=7,
        observedMetrics={f"bsjoin.kafka.route {name} {name}": row for name in "12"},
        json=json.dumps({"sources": [read({"again": {"0": 4}}, {"again": {"0": 9}})] * 2}),
    )
    assert [one.waiting_now for one in bsjoin.kafka.progress(batch)] == [8, 3]


def test_errors(joined: DataFrame) -> None:
    without = joined.drop
    for changed, error, said in (
        ({"dead": "again"}, ArgumentError, "give three topics"),
        ({"topic": ""}, ArgumentError, "topic='' is not the name of a topic"),
        ({"retry": None}, ArgumentError, "retry=None"),
        ({"patience": 0}, ArgumentError, "patience=0: give a duration"),
        ({"patience": "a while"}, ArgumentError, "patience='a while' is not a duration"),
        ({"value": "struct(name)"}, ArgumentError, "is of type struct<name:string>"),
        ({"found": "fuond"}, ColumnError, "indicator='fuond'. Did you mean 'found'"),
        ({"joined": 7}, ArgumentError, "joined=7 is no DataFrame"),
        ({"joined": without("headers")}, ColumnError, "includeHeaders"),
        ({"joined": without("timestamp")}, ColumnError, "keep what the source"),
    ):
        arguments: dict[str, Any] = {"joined": joined, "value": "name", "patience": 1, **TOPICS}
        arguments |= changed
        with pytest.raises(error, match=re.escape(said)):
            bsjoin.kafka.route(arguments.pop("joined"), **arguments)
    with pytest.raises(ArgumentError, match="of a int: give a StreamingQuery"):
        bsjoin.kafka.progress(3)
