"""A source that fails: what is repeated, what fails, what is lost (nothing), what is told."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cache_runs import Run, figures, joined, planes, turns
from cache_samples import Model, Wrong, until
from oracle import HOWS, rows_of_all
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from servers import PASSWORD, PostgreSQL
from spark_samples import Feed, cycles, files, rows

import bsjoin
from bsjoin import Incremental, sources
from bsjoin.errors import SourceError

pytestmark = pytest.mark.usefixtures("interpreted")

Start = Callable[[DataFrame], StreamingQuery]


class Sink:
    """Files of Parquet, as a query from its checkpoint leaves them."""

    def __init__(self, feed: Feed, folder: Path):
        self.feed, self.folder = feed, folder

    def start(self, df: DataFrame) -> StreamingQuery:
        writer = df.writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.feed.checkpoint))
        return writer.start(str(self.folder))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return rows(self.feed.spark.read.parquet(str(self.folder)))


@pytest.fixture
def sink(feed: Feed, tmp_path: Path) -> Sink:
    return Sink(feed, tmp_path / "sink")


def fails(query: StreamingQuery, *parts: str) -> str:
    """Let a query run into its error; the message, which says some things."""
    with pytest.raises(StreamingQueryException) as error:
        query.processAllAvailable()
    message = str(error.value)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    return message


def test_a_failed_micro_batch_is_run_again_and_nothing_is_lost_or_doubled(
    feed: Feed, model: Model, sink: Sink
) -> None:
    query = sink.start(joined(feed, model, retries=2, backoff="1 ms"))
    feed.turn(query, 1, 2, None)
    model.fail()
    feed.add(3, 3, 9, 1)
    fails(
        query,
        "LookupFailedError",
        "did not answer a look-up of 2 keys, nor its 2 retries",
        "ConnectionError: the model is out of order",
        "Spark repeats a failed micro-batch",
        "on_error=",
    )
    assert len(model.begun) == 1 + 3
    first = [(None, None), (1, "v1"), (2, "v1"), (2, "v1")]
    assert sink.rows == first
    feed.add(2)
    model.heal()
    query = sink.start(joined(feed, model))
    query.processAllAvailable()
    more = [(1, "v1"), (2, "v1"), (2, "v1"), (3, "v1"), (3, "v1"), (9, None)]
    assert sink.rows == sorted([*first, *more], key=lambda row: (row[0] is not None, row[0]))


def test_null_treats_keys_as_not_found_and_does_not_keep_that(feed: Feed, model: Model) -> None:
    run = Run(
        feed,
        joined(feed, model, on_error="null", retries=1, backoff="1 ms", failure_cooldown="1 ms"),
    )
    run.turn(1)
    model.fail()
    assert run.turn(1, 3, 3, 9, None).rows == [
        (None, None), (1, "v1"), (3, None), (3, None), (9, None),
    ]  # fmt: skip
    assert figures(run.last(), "hits", "negative_hits", "misses") == (1, 0, 3)
    assert figures(run.last(), "failed_keys", "retries", "rows") == (2, 1, 1)
    model.heal()
    turns(run, 1, 3, 9, last=[(1, "v1"), (3, "v1"), (9, None)])
    assert figures(run.last(), "failed_keys", "rows") == (0, 3)


def test_a_source_that_failed_is_left_alone_for_a_while(feed: Feed, model: Model) -> None:
    options = {"on_error": "null", "retries": 2, "backoff": "1 ms", "failure_cooldown": "1 hour"}
    run = Run(feed, joined(feed, model, **options))
    model.fail()
    for keys in ((1,), (2, 3), (1, 9)):
        assert run.turn(*keys).rows == [(key, None) for key in keys]
        assert len(model.begun) == 3
    assert figures(run.last(), "failed_keys", "lookups", "rows") == (2, 0, 0)


def test_null_matches_nothing_in_every_join_type(spark: SparkSession, model: Model) -> None:
    model.fail()
    cache = Incremental(max_rows=9, on_error="null", retries=0)
    stream = spark.range(1, 4).toDF("k")
    results = {how: bsjoin.join(stream, model, "k", how=how, cache=cache) for how in HOWS}
    assert {how: found.column(0).to_pylist() for how, found in rows_of_all(results).items()} == {
        "inner": [], "left": [1, 2, 3], "semi": [], "anti": [1, 2, 3]
    }  # fmt: skip


@pytest.mark.long
def test_stale_uses_outdated_rows_and_fails_for_keys_it_never_saw(feed: Feed, model: Model) -> None:
    options = {"on_error": "stale", "ttl": 0.2, "retries": 0, "failure_cooldown": "1 ms"}
    run = Run(feed, joined(feed, model, **options))
    first = run.turn(1, 9)
    until(lambda: time.monotonic() > first.end_s + 0.2, "the ttl")
    model.fail()
    for _ in range(2):
        assert run.turn(1, 1, 9).rows == [(1, "v1"), (1, "v1"), (9, None)]
        assert figures(run.last(), "misses", "stale_rows", "failed_keys") == (3, 2, 0)
    model.put(planes([1, 9], 2))
    model.heal()
    turns(run, 1, 9, last=[(1, "v2"), (9, "v2")])
    model.fail()
    feed.add(1, 3, 4)
    fails(
        run.query,
        "LookupFailedError",
        "does not answer, and 2 of the requested keys were never in the cache",
        'on_error="null" would treat them as not found',
    )
    model.heal()
    run = Run(feed, joined(feed, model, **options))
    run.query.processAllAvailable()
    assert feed.results[feed.added - 1] == [(1, "v2"), (3, None), (4, None)]


def test_a_warm_up_that_fails_is_repeated_and_then_left_out(
    spark: SparkSession, model: Model
) -> None:
    stream = spark.sql("SELECT explode(array(1L, 3L)) AS k").coalesce(1)
    for warm_up, faults, begun in (("[1, 3]", 2, 4), ([1, 3], 3, 4)):
        cache = Incremental(max_rows=9, warm_up=warm_up, retries=2, backoff=faults / 1000)
        model.fail(faults)
        before = len(model.begun)
        assert rows(bsjoin.join(stream, model, "k", cache=cache)) == [(1, "v1"), (3, "v1")]
        assert len(model.begun) == before + begun


def test_a_wrong_answer_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.range(3).toDF("k").coalesce(1)
    cache = Incremental(max_rows=10)
    source = Model(tmp_path / "model", planes([1, 2, 2]), unique=True)
    with pytest.raises(PySparkException, match="DuplicateKeyError") as error:
        bsjoin.join(stream, source, "k", cache=cache).collect()
    assert "2 rows of the key {'k': 2}" in str(error.value)
    assert "unique=False" in str(error.value)
    assert len(source.asked) == 1
    found = rows(bsjoin.join(stream, source, "k", how="semi", cache=cache))
    assert found == [(1,), (2,)]  # which needs no single row
    with pytest.raises(PySparkException, match="2 rows of the key"):
        bsjoin.join(stream, source, "k", select=[], cache=cache).collect()  # this does
    for column in ("k", "v"):
        wrong = Wrong(tmp_path / column, planes([1, 2]))
        wrong.drops = column
        with pytest.raises(PySparkException, match="SourceError") as error:
            bsjoin.join(stream, wrong, "k", cache=cache).collect()
        assert f"returned no column '{column}', which is in its schema" in str(error.value)


def test_a_permanent_error_is_not_retried(spark: SparkSession, tmp_path: Path) -> None:
    source = Wrong(tmp_path / "model", planes([1, 2]))
    source.refuses = True
    stream = spark.range(3).toDF("k").coalesce(1)
    for on_error in ("null", "stale"):
        cache = Incremental(max_rows=10, retries=5, backoff="1 ms", on_error=on_error)
        begun = len(source.begun)
        with pytest.raises(PySparkException, match="SourceError: no such table"):
            bsjoin.join(stream, source, "k", cache=cache).collect()
        assert len(source.begun) == begun + 1


def fill(server: PostgreSQL, name: str) -> str:
    """A table of a hundred planes in PostgreSQL; its name."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} (k bigint PRIMARY KEY, v text)")
        numbers = "generate_series(0, 99) AS i"
        connection.execute(f"INSERT INTO {name} SELECT i, 'plane ' || i FROM {numbers}")
        connection.execute("CHECKPOINT")
    return name


@pytest.mark.long
def test_a_database_killed_in_the_middle_of_a_stream_loses_and_doubles_nothing(
    feed: Feed, sink: Sink, postgresql: PostgreSQL
) -> None:
    source = sources.sql(postgresql.url, table=fill(postgresql, "killed"), connect_timeout=2)
    cache = Incremental(max_rows=30, retries=1, backoff="10 ms")
    joined = bsjoin.join(feed.stream, source, "k", how="left", cache=cache)
    query = sink.start(joined)
    feed.turn(query, *range(0, 40), 1000, None)
    postgresql.kill()
    try:
        feed.add(*range(30, 60), 2000, None)
        fails(query, "LookupFailedError", "did not answer a look-up of")
        feed.add(*range(50, 70))
        fails(sink.start(joined), "LookupFailedError")  # and again, while the database is down
        with pytest.raises(SourceError):
            bsjoin.join(feed.stream, source, "k", cache=cache)
    finally:
        postgresql.start()
    query = sink.start(bsjoin.join(feed.stream, source, "k", how="left", cache=cache))
    query.processAllAvailable()
    feed.turn(query, *range(65, 105))
    keys = [*range(0, 40), *range(30, 60), *range(50, 70), *range(65, 105), 1000, 2000]
    wanted = [(key, f"plane {key}" if key < 100 else None) for key in sorted(keys)]
    assert sink.rows == [(None, None), (None, None), *wanted]


@pytest.mark.long
def test_a_call_waits_for_a_database_that_comes_back(
    feed: Feed, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    source = sources.sql(postgresql.url, table=fill(postgresql, "asked"), connect_timeout=2)
    batch = feed.spark.sql("SELECT id AS k FROM range(98, 102)")
    postgresql.kill()
    back = threading.Timer(0.1, postgresql.start)
    try:
        with pytest.raises(SourceError) as error:
            bsjoin.join(batch, source, "k", cache=Incremental(max_rows=9, retries=0))
        assert error.value.is_transient
        back.start()
        caplog.set_level(logging.INFO, logger="bsjoin")
        cache = Incremental(max_rows=1000, retries=200, backoff="10 ms")
        joined = bsjoin.join(batch, source, "k", how="left", cache=cache)
    finally:
        back.join() if back.ident else postgresql.start()
    assert "retrying" in caplog.text
    wanted = [(98, "plane 98"), (99, "plane 99"), (100, None), (101, None)]
    assert rows(joined) == wanted
    with pytest.raises(SourceError, match="no table") as lasting:
        bsjoin.join(batch, sources.sql(postgresql.url, table="nowhere"), "k", cache=cache)
    assert not lasting.value.is_transient


def test_a_password_appears_nowhere(
    feed: Feed,
    postgresql: PostgreSQL,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not in a plan, a repr, an error, a log, or a file; neither plain nor encoded."""
    texts = []
    caplog.set_level(logging.DEBUG)
    source = sources.sql(postgresql.url, table=fill(postgresql, "secret"), connect_timeout=2)
    cache = Incremental(
        max_rows=100, retries=1, backoff="1 ms", folder=tmp_path / "cache",
        invalidation_log=tmp_path / "invalidation_log", warm_up="SELECT k FROM secret WHERE k < 3",
    )  # fmt: skip
    joined = bsjoin.join(feed.stream, source, "k", how="left", cache=cache)
    joined.explain("extended")
    texts += [repr(source), str(source), repr(joined), repr(cache), str(joined.schema)]
    query = feed.run(joined, 1, 50)
    source.invalidate([50])
    feed.turn(query, 1, 50)
    texts += [str(query.lastProgress), repr(cycles(query))]
    query.explain(True)
    postgresql.kill()
    try:
        feed.add(60)
        texts.append(fails(query, "LookupFailedError"))
        texts.append(str(query.exception()))
    finally:
        postgresql.start()
    wrong = postgresql.url.replace("s3cret", "s3cret-wrong")
    broken = sources.sql(wrong, table="secret", schema=source.schema, unique=True)
    stream = feed.spark.range(3).toDF("k")
    with pytest.raises((PySparkException, SourceError)) as error:
        bsjoin.join(stream, broken, "k", cache=Incremental(max_rows=9, retries=0)).collect()
    texts.append(str(error.value))
    written = [
        f for place in ("cache", "invalidation_log", "checkpoint") for f in files(tmp_path / place)
    ]
    assert {path.relative_to(tmp_path).parts[0] for path in written} == {
        "cache", "invalidation_log", "checkpoint",
    }  # fmt: skip
    texts += [path.read_bytes().decode("latin-1") for path in written]
    texts += [*capfd.readouterr(), caplog.text]
    assert PASSWORD.startswith("s3cret")
    assert any("bsjoin_join" in text for text in texts)
    for text in texts:
        place = text.find("s3cret")
        assert place < 0, text[max(0, place - 200) : place + 100]
