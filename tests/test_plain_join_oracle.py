"""Plain joins and SQL over a stored table: the index answers what Spark answers for its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from oracle import FUZZ, HOWS, assert_same_rows, one_part, together
from plain_doors import DOORS, check_plain, lookups
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_samples import Feed
from test_oracle_collisions import long_of_hash
from test_oracle_fanout import SIZES, groups, two_tables
from test_oracle_fanout import probes as probes_of_groups
from test_oracle_payloads import nested_tables, wide_tables
from test_oracle_types import PAIRS, Answers, Pair, answers, probes, sides, stored

from bsjoin import BatchTable
from tests import sessions
from tests.fuzz.collisions import hash_of

CODE = {
    "generated": {},
    "without whole stages": {"spark.sql.codegen.wholeStage": "false"},
    "interpreted": sessions.CODE["python"],
}
"""How Spark carries a plan out."""


@pytest.fixture(scope="module", params=CODE)
def code(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    with sessions.configured(spark, CODE[request.param]):
        yield request.param


@pytest.fixture(scope="module")
def matched(spark: SparkSession) -> Answers:
    """The answers for all pairs of types, by the doors in turns.

    Those of a pair alike come from the index.
    """
    stream, batch = one_part(spark, probes()), one_part(spark, stored())
    tables = {
        kind: BatchTable.build(batch.select(F.col(f"`{kind}`"), "v"), on=kind)
        for kind in dict.fromkeys(right for _, right in PAIRS)
    }

    def join(left: str, right: str, how: str) -> DataFrame:
        # Of a pair the one join type comes by the one door, the other by the other.
        door = list(DOORS)[(PAIRS.index((left, right)) + (how == "left")) % 2]
        df = DOORS[door](stream, tables[right], {left: right}, how)
        if left == right:
            assert lookups(df) == 1, (left, how)
        return df

    return answers(stream, batch, PAIRS, join)


@pytest.mark.parametrize("pair", PAIRS, ids=",".join)
def test_every_pair_of_key_types_matches_as_in_spark(matched: Answers, pair: Pair) -> None:
    for how, (found, wanted) in matched[pair].items():
        assert_same_rows(found, wanted, how)


@settings(FUZZ, max_examples=2)
@given(sides())
def test_composite_keys_of_any_types_match_as_in_spark(
    spark: SparkSession, case: tuple[pa.Table, pa.Table, dict[str, str]]
) -> None:
    stream, batch, on = case
    left, right = spark.createDataFrame(stream), spark.createDataFrame(batch)
    table = BatchTable.build(right, on=list(on.values()))
    rows = oracle.rows_of_spark(left, right, on)
    results = {(door, how): DOORS[door](left, table, on, how) for door in DOORS for how in HOWS}
    for (door, how), found in oracle.rows_of_all(results).items():
        assert_same_rows(found, rows[how], f"{door}, {how}")


@pytest.mark.in_turns("code")
@pytest.mark.parametrize("sizes", [[1] * 9, [1, 2, 63, 64, 3], SIZES], ids=["row", "rows", "runs"])
def test_any_number_of_rows_per_key(spark: SparkSession, code: str, sizes: list[int]) -> None:
    check_plain(probes_of_groups(spark, 9), groups(spark, sizes), "k")


def test_rows_of_small_segments_are_one_table(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.options._SMALLEST_SEGMENT", 1)
    batch = spark.range(300).selectExpr("id % 250 AS k", "id AS v", "string(id) AS t")
    table = BatchTable.build(batch.repartition(4, "k"), on="k", segment_bytes=1)
    assert table.stats().segments > 50
    check_plain(spark.range(-10, 300).selectExpr("id AS k"), batch, "k", table=table)


@settings(FUZZ, max_examples=2)
@given(two_tables())
def test_few_keys_in_many_rows(spark: SparkSession, case: tuple[pa.Table, pa.Table]) -> None:
    stream, batch = map(spark.createDataFrame, case)
    check_plain(stream, batch, ["k", "t"])


@pytest.mark.in_turns("code")
@pytest.mark.parametrize(
    ("stream", "batch"),
    [((), (1, 2, 2)), ((1, 1, None), ()), ((1, None), (None, None)), ((None,), (1, 2, None))],
    ids=["empty stream", "empty table", "table of nulls", "only nulls"],
)
def test_little_or_nothing_is_joined(
    spark: SparkSession, code: str, stream: tuple[int | None, ...], batch: tuple[int | None, ...]
) -> None:
    def frame(name: str, keys: tuple[int | None, ...]) -> DataFrame:
        columns = {"k": pa.array(keys, pa.int32()), name: pa.array(map(str, keys), pa.string())}
        return one_part(spark, pa.table(columns))

    check_plain(frame("x", stream), frame("y", batch), "k")


def test_composite_keys_of_equal_hash_are_distinguished(spark: SparkSession, code: str) -> None:
    texts, target = ["a", "b", "", "é"], 1234567890123456789
    longs = [long_of_hash(target, hash_of(text.encode())) for text in texts]
    stream = {"t": pa.array([*texts, "a"]), "n": pa.array([*longs, None])}
    rows = [(texts[0], longs[0]), (texts[1], longs[1]), (texts[1], longs[1]), ("a", longs[1])]
    batch = {
        "n": pa.array([n for _, n in rows]),
        "v": pa.array(range(4)),
        "t": pa.array([t for t, _ in rows]),
    }
    left, right = (one_part(spark, pa.table(side)) for side in (stream, batch))
    check_plain(left, right, ["t", "n"])


@settings(FUZZ, max_examples=1)
@given(wide_tables())
def test_every_simple_type_arrives_unchanged(
    spark: SparkSession, case: tuple[pa.Table, pa.Table]
) -> None:
    stream, batch = (one_part(spark, rows) for rows in case)
    check_plain(stream, batch, "k", hows=["inner", "left"])


@settings(FUZZ, max_examples=2)
@given(nested_tables())
def test_nested_columns_of_the_stream_arrive_unchanged(
    spark: SparkSession, case: tuple[pa.Table, pa.Table]
) -> None:
    stream, batch = one_part(spark, case[1]), one_part(spark, case[0]).select("k")
    check_plain(stream, batch, "k")


def test_quirky_column_names_stay_as_they_are(spark: SparkSession) -> None:
    quirky = ("a.b", "c`d", "Größe", "select", " ", "c0", "k0", "h", "none", "element")
    texts = (F.concat(F.lit(n), F.col("`a.b`")).alias(n) for n in quirky[1:])
    df = spark.range(4).toDF("a.b").select("*", *texts)
    check_plain(df, df, ["a.b"])
    check_plain(df, df, {"c`d": "c`d", "k0": "k0", " ": " "}, hows=["inner"], suffix=".x`y")


@pytest.mark.in_turns("code")
def test_selected_columns_and_none(spark: SparkSession, code: str) -> None:
    stream, batch = probes_of_groups(spark, 5), groups(spark, [1, 2, 70])
    check_plain(stream, batch, "k", hows=["inner", "left"], select=["t", "k"], suffix="_of_table")
    check_plain(stream, batch, "k", hows=["inner", "left"], select=[])


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_a_session_time_zone_changes_no_match(spark: SparkSession, zone: str) -> None:
    with oracle.settings(spark, spark__sql__session__timeZone=zone):
        hours = [1_699_160_400_000_000 + 1_800_000_000 * i for i in range(12)]
        times = {"at": pa.array([*hours, None], pa.timestamp("us", "UTC"))}
        times["wall"] = pa.array([*hours[::-1], None], pa.timestamp("us"))
        stream = one_part(spark, pa.table(times))
        check_plain(stream, stream.where("at > timestamp_micros(1699165000000000)"), "at")
        check_plain(stream, stream, ["wall", "at"], hows=["left"])


def test_every_join_type_in_micro_batches_with_a_refresh(
    spark: SparkSession, feed: Feed, tmp_path: object
) -> None:
    """One query of both doors; its third micro-batch sees the table as it is then."""
    old = spark.range(6).selectExpr("id % 4 AS k", "id AS v", "string(id) AS t")
    new = spark.range(1, 8).selectExpr("id % 5 AS k", "id * 10 AS v", "string(-id) AS t")
    table = BatchTable.build(old, on="k", path=f"{tmp_path}/refreshed")
    doors = itertools.product(DOORS, HOWS)
    stream = feed.stream  # one source, whose files all the joins read at the same time
    results = {one: DOORS[one[0]](stream, table, "k", one[1]) for one in doors}
    query = feed.start(together(results))
    batches: list[tuple[int | None, ...]] = [(0, 1, 5, None), (), (3, 3, 4), (0, 4, None)]
    for number, keys in enumerate(batches):
        if number == 3:
            table.refresh(new)
        if keys:
            feed.add(*keys)
            query.processAllAvailable()
    query.stop()
    for number, (keys, source) in enumerate(
        [(batches[0], old), (batches[2], old), (batches[3], new)]
    ):
        batch = spark.createDataFrame(pa.table({"k": pa.array(keys, pa.int64())}))
        wanted = oracle.rows_of_spark(batch, source, "k")
        for which, (_, how) in enumerate(itertools.product(DOORS, HOWS)):
            rows = sorted(map(repr, oracle.counted(wanted[how]).elements()))
            width = wanted[how].num_columns
            found = [row[1 : 1 + width] for row in feed.results[number] if row[0] == which]
            assert sorted(map(repr, found)) == rows, (number, how)
