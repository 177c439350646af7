"""Refreshes that fail: seen in the figures, and the end of queries that ask for fresh rows."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cachetools import LRUCache
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, cycles, rows, table_of

import bsjoin
import bsjoin.metrics.refreshes
import bsjoin.table
from bsjoin import BatchTable, Full
from bsjoin.errors import StaleTableError
from bsjoin.metrics.refreshes import error_text, follow, of_table, recorded, url_of

pytestmark = [
    pytest.mark.usefixtures("runtime", "soon_active", "slow_builds"),
    pytest.mark.in_turns("runtime"),
]

SECRET = "s3cr3t"


LIMIT = "1 hour"


@dataclass
class Refreshes:
    """What the timers would call, and where their tables are."""

    begun: list[tuple[Callable[[], Any], Path]] = field(default_factory=list)

    def __call__(self) -> None:
        for again, _ in self.begun:
            again()

    def fail(self) -> None:
        for again, _ in self.begun:
            with pytest.raises(Exception, match="is down"):
                again()

    def make_old(self) -> None:
        for _, path in self.begun:
            make_old(path)


def make_old(table: Path) -> None:
    """A table whose builds took two hours is two hours old, unless it is confirmed."""
    shutil.rmtree(table / "fresh", ignore_errors=True)


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> Refreshes:
    found = Refreshes()

    def start(_: object, again: Callable[[], Any], __: float, path: str) -> threading.Event:
        found.begun.append((again, Path(path)))
        return threading.Event()

    monkeypatch.setattr(bsjoin.table, "start_refreshing", start)
    return found


class Source:
    """A table that can be made to fail."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.file = folder / "source" / "0.json"
        self.file.parent.mkdir()
        self.write(1)
        fails = f"if(v < 0, raise_error('jdbc:x://me:{SECRET}@host/db is down'), v) AS v"
        self.df = spark.read.schema("k long, v int").json(str(self.file.parent))
        self.df = self.df.selectExpr("k", fails)

    def write(self, value: int) -> None:
        self.file.write_text(f'{{"k": 1, "v": {value}}}')


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def test_a_query_ends_instead_of_using_rows_that_are_too_old(
    feed: Feed, source: Source, refreshes: Refreshes
) -> None:
    cache = Full(refresh="1 minute", max_staleness=LIMIT)
    joined = bsjoin.join(feed.stream, source.df, "k", cache=cache)
    refreshes()  # the same rows: they are fresh
    query = feed.run(joined, 1)
    source.write(-1)
    refreshes.fail()
    refreshes.make_old()
    feed.add(1)
    with pytest.raises(Exception, match=r"StaleTableError: version 1 .* max_staleness is 3600"):
        query.processAllAvailable()
    assert sorted(feed.results) == [0]
    # After refreshes that succeed the micro-batch runs: with the rows of these.
    source.write(2)
    refreshes()
    refreshes()
    query = feed.run(joined)
    assert feed.results[1] == [(1, 2)]
    query.stop()
    # And the same again in a replay, whatever has come since.
    source.write(3)
    refreshes()
    number = feed.forget_last_commit()
    feed.results.clear()
    query = feed.run(joined)
    assert feed.results == {number: [(1, 2)]}


@pytest.mark.long
def test_tables_that_others_refresh_and_those_behind_a_url(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    url = f"local://{tmp_path}/table"
    BatchTable.build(table_of(spark, 1), on="k", path=url).refresh(table_of(spark, 1))
    table = BatchTable.open(url, max_staleness=LIMIT)
    query = feed.run(table.join(feed.stream), 1)
    make_old(tmp_path / "table")
    probes = spark.range(1, 2).withColumnRenamed("id", "k")
    with pytest.raises(StaleTableError, match="Let one succeed"):
        table.join(probes)
    for limit in (LIMIT, None, timedelta.max):
        BatchTable.open(url, max_staleness=limit).register(spark, "guarded")
        named = probes.join(spark.table("bsjoin.guarded"), "k")
        if limit == LIMIT:
            with pytest.raises(Exception, match="StaleTableError"):
                named.collect()
        else:
            assert rows(named) == [(1, 1)]
    for setting in ("table", "maxStalenessUs"):
        spark.conf.unset(f"spark.bsjoin.{setting}.guarded")
    assert rows(BatchTable.open(url).join(probes)) == [(1, 1)]  # of any age
    BatchTable.open(url).refresh(table_of(spark, 1))  # the same rows
    assert rows(table.join(probes)) == [(1, 1)]
    feed.turn(query, 1)
    assert feed.results == {0: [(1, 1)], 1: [(1, 1)]}
    assert [cycle.table_version for cycle in cycles(query)] == [1, 1]
    make_old(tmp_path / "table")
    feed.add(1)
    with pytest.raises(Exception, match="StaleTableError"):
        query.processAllAvailable()


@pytest.mark.long
def test_for_each_batch_and_cycles_end_too(
    feed: Feed, source: Source, refreshes: Refreshes
) -> None:
    cache = Full(refresh="1 minute", max_staleness=LIMIT)
    seen: list[Any] = []
    steered = bsjoin.cycles(source.df, "k", cache=cache, sink=lambda df, _: seen.append(rows(df)))
    problems: list[Exception] = []

    def call(batch: DataFrame, number: int) -> None:
        for one in (
            lambda: seen.append(rows(bsjoin.join(batch, source.df, "k", cache=cache))),
            lambda: steered(batch, number),
        ):
            try:
                one()
            except StaleTableError as error:
                problems.append(error)

    def run() -> tuple[int, int]:
        feed.turn(query, 1)
        return len(seen), len(problems)

    query = feed.call(call)
    assert run() == (0, 2)  # as old as their builds
    refreshes()
    assert run() == (2, 2)
    refreshes.make_old()
    assert run() == (2, 4)
    assert seen == [[(1, 1)]] * 2


@pytest.mark.long
def test_how_refreshes_went_is_a_figure(feed: Feed, source: Source, refreshes: Refreshes) -> None:
    begun = datetime.now(UTC)
    joined = bsjoin.join(feed.stream, source.df, "k", cache=Full(refresh="1 hour"))
    query = feed.run(joined, 1)

    def refresh() -> bsjoin.RefreshProgress:
        return cycles(query)[-1].refresh

    first = refresh()
    assert begun <= first.last_success <= datetime.now(UTC)
    assert (first.last_error, first.last_error_at) == (None, None)
    source.write(-1)
    refreshes.fail()
    failed = refresh()
    assert failed.last_success == first.last_success
    assert "is down" in failed.last_error
    assert SECRET not in failed.last_error
    assert "\n" not in failed.last_error
    source.write(1)
    refreshes()
    after = refresh()
    assert after.last_success > after.last_error_at == failed.last_error_at


def test_texts_of_errors_are_short_and_have_no_credentials() -> None:
    text = error_text(ValueError(f"a\n b postgresql://me:{SECRET}@host " + "x" * 5_000))
    assert text.startswith("ValueError: a b postgresql://me:***@host x")
    assert len(text) == 1_000
    assert SECRET not in error_text(OSError(f"signature {SECRET}"), f"s3://b/t?token={SECRET}")


def test_credentials_with_spaces_are_hidden_too() -> None:
    url = "postgresql://me:my%20%20pass@host/db"
    text = error_text(OSError("no access\nwith my  pass"), url)
    assert text == "OSError: no access with ***"


def test_the_refresh_that_ends_last_says_whether_they_fail() -> None:
    """One that fails while another one runs, however long ago that has begun."""
    with recorded("/table"), contextlib.suppress(ValueError), recorded("/table"):
        raise ValueError("of another thread")
    known = of_table("/table")
    assert known is not None
    assert (known.is_failing, known.last_error) == (False, "ValueError: of another thread")
    with contextlib.suppress(ValueError), recorded("/table"):
        raise ValueError("it fails")
    assert (known := of_table("/table"))
    assert known.is_failing


def test_the_refreshes_of_few_tables_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function for ``foreachBatch`` may build a table in each micro-batch."""
    for known in ("_tables", "_joins"):
        monkeypatch.setattr(bsjoin.metrics.refreshes, known, LRUCache(2))
    for number in range(3):
        with contextlib.suppress(ValueError), recorded(f"/table/{number}"):
            if number == 1:
                raise ValueError("it fails")
    for number in range(3):
        follow("join", f"/table/{number}")
        found = of_table(url_of("join"))
        assert (found is None) == (number == 0), number
    assert len(bsjoin.metrics.refreshes._tables) == 2
