"""An incremental join in a stream: its rows, its figures, its choice of a cache, a replay."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cache_runs import COUNTS, ROOMY, Run, database_of_planes, figures, joined, planes, turns
from cache_samples import Model, Readable
from oracle import HOWS, expected, together
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_samples import Feed, cycles, rows

import bsjoin
import bsjoin.planner.automatic
from bsjoin import BatchTable, Full, Incremental, sources

pytestmark = pytest.mark.usefixtures("interpreted")


def test_every_micro_batch_has_the_rows_of_sparks_join(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """All join types in one query, each with a cache too small for it."""
    generator = np.random.default_rng(11)
    stored = [int(k) for k in generator.integers(0, 40, 60)] + [None]
    source = Model(tmp_path / "model", planes(stored), max_keys=9)
    batch = spark.createDataFrame(planes(stored))
    drawn = [[int(k) for k in generator.zipf(1.5, 80) % 60] for _ in range(3)]
    micro_batches: list[list[int | None]] = [[*keys, None] for keys in drawn]
    for keys in micro_batches:
        feed.add(*keys)

    cache = Incremental(max_rows=15)
    ours = {how: bsjoin.join(feed.stream, source, how=how, cache=cache) for how in HOWS}
    query = feed.run(together(ours))
    numbered = [(n, key) for n, keys in enumerate(micro_batches) for key in keys]
    stream = spark.createDataFrame(numbered, "n int, k long").coalesce(1)
    theirs = together({how: expected(stream, batch, "k", how) for how in HOWS})
    found = [(n, which, *row) for n, made in feed.results.items() for which, *row in made]
    assert Counter(found) == Counter((n, which, *row) for which, n, *row in rows(theirs))
    assert sum(cycle.cache.evictions for cycle in cycles(query) if cycle.cache) > 0
    for cycle in cycles(query):
        assert cycle.mode == "incremental"
        assert cycle.table_version is None
        assert cycle.cache.rows <= 15
        assert cycle.cache.hits + cycle.cache.negative_hits + cycle.cache.misses == 80


def test_the_figures_of_a_cache_are_exact(feed: Feed, model: Model) -> None:
    run = Run(feed, joined(feed, model))
    empty = run.turn(None, None)
    assert empty.rows == [(None, None)] * 2
    assert figures(run.last(), *COUNTS) == (0, 0, 0, 0, 0, 0, 0, 0)
    assert run.last().hit_rate == run.last().keys_per_lookup == 0

    run.turn(1, 1, 2, 99, None)
    first = run.last()
    assert figures(first, *COUNTS) == (0, 0, 4, 1, 3, 0, 4, 0)
    assert first.keys_per_lookup == 3
    assert 0 < first.load_ms_p50 == first.load_ms_p95 == first.load_ms_p99
    assert first.bytes > 4 * 64

    run.turn(1, 99, 99, 3, 2)
    second = run.last()
    assert figures(second, *COUNTS) == (2, 2, 1, 1, 1, 0, 5, 0)
    assert second.hit_rate == 4 / 5
    assert second.bytes > first.bytes

    run.turn(3, 2, 1, 99)
    third = run.last()
    assert figures(third, *COUNTS) == (3, 1, 0, 0, 0, 0, 5, 0)
    assert (third.hit_rate, third.load_ms_p99, third.bytes) == (1, 0, second.bytes)
    assert (third.failed_keys, third.stale_rows) == (0, 0)

    last = cycles(run.query)[-1]
    assert (last.rows_in, last.rows_out, last.hits, last.misses, last.matches) == (4, 5, 3, 1, 4)
    assert (last.mode, last.on, last.lookup_ms > 0) == ("incremental", ("k",), True)
    assert model.times == {1: 1, 2: 1, 3: 1, 99: 1}


@pytest.mark.long
def test_evictions_pieces_and_retries_are_counted(feed: Feed, tmp_path: Path) -> None:
    model = Model(tmp_path / "model", planes(range(100)), max_keys=4)
    run = Run(feed, joined(feed, model, max_rows=5, backoff="1 ms"))
    model.fail(2)
    run.turn(*range(5))
    assert figures(run.last(), *COUNTS) == (0, 0, 5, 2, 5, 0, 5, 2)
    run.turn(5, 6)  # 0 and 1 go
    assert figures(run.last(), *COUNTS) == (0, 0, 2, 1, 2, 2, 5, 0)
    run.turn(2, 3)
    assert figures(run.last(), *COUNTS) == (2, 0, 0, 0, 0, 0, 5, 0)
    run.turn(200, 4)  # 4 is used, and 5 goes
    assert figures(run.last(), *COUNTS) == (1, 0, 1, 1, 1, 1, 5, 0)
    run.turn(5, 6)
    assert figures(run.last(), *COUNTS)[:3] == (1, 0, 1)
    assert model.times[5] == 2
    assert model.times[6] == 1


def test_the_hottest_key_is_found(feed: Feed, tmp_path: Path) -> None:
    """Half of the rows have one key, a tenth another, the rest are all different."""
    keys = [7] * 5_000 + [-5] * 1_000 + [None] * 100 + list(range(10_000, 14_000))
    np.random.default_rng(5).shuffle(keys)  # type: ignore[arg-type]
    run = Run(feed, joined(feed, Model(tmp_path / "model", planes([7])), max_rows=100_000))
    run.turn(*keys)
    run.turn(*keys)
    for cycle in cycles(run.query):
        (first, share), (second, other_share), *rest = cycle.cache.hottest
        assert (first, second) == ("7", "-5")
        assert share == pytest.approx(0.5, abs=0.15)
        assert other_share == pytest.approx(0.1, abs=0.09)
        assert len(rest) <= 8
        assert all(0 < few < 0.05 for _, few in rest)


def test_two_sources_are_joined_in_one_query(feed: Feed, model: Model, tmp_path: Path) -> None:
    """And one of them twice, by two columns, with a cache each; every join has its figures."""
    other = Model(tmp_path / "other", pa.table({"id": ["v1", "v2"], "n": [1, 2]}), unique=True)
    once = bsjoin.join(feed.stream, model, "k", how="left", cache=ROOMY)
    twice = bsjoin.join(once, other, {"v": "id"}, how="left", cache=ROOMY)
    thrice = bsjoin.join(twice, model, {"n": "k"}, cache=Incremental(max_rows=77), suffix="_n")
    run = Run(feed, thrice)
    assert run.turn(1, 2, 4).rows == [(1, "v1", 1, "v1"), (2, "v1", 1, "v1"), (2, "v1", 1, "v1")]
    run.turn(3, 3)
    found = [(c.batch_id, c.on) for c in cycles(run.query)]
    assert found == [(n, (key,)) for n in range(2) for key in ("k", "v", "n")]
    counts = [figures(c.cache, *COUNTS[:5]) for c in cycles(run.query) if c.cache]
    assert counts == [
        (0, 0, 3, 1, 3), (0, 0, 3, 1, 1), (0, 0, 3, 1, 1),
        (0, 0, 2, 1, 1), (2, 0, 0, 0, 0), (2, 0, 0, 0, 0),
    ]  # fmt: skip


def test_a_replayed_micro_batch_has_every_row_once_and_uses_the_cache(
    feed: Feed, model: Model
) -> None:
    stream = joined(feed, model)
    run = Run(feed, stream)
    first = [run.turn(1, 2), run.turn(3, 3, 9)]
    run.query.stop()
    assert feed.forget_last_commit() == 1
    feed.results.clear()
    query: StreamingQuery = feed.start(stream)
    query.processAllAvailable()
    assert feed.results == {1: first[1].rows}
    cache = cycles(query)[-1].cache
    assert cache is not None
    assert figures(cache, *COUNTS[:4]) == (2, 1, 0, 0)
    query.stop()

    # An application that starts anew begins with an empty cache, and sees the table as it is.
    feed.forget_last_commit()
    feed.results.clear()
    model.put(planes([3, 9], 2))
    anew = Model(model.folder, planes([3, 9], 2))
    query = feed.run(joined(feed, anew))
    assert feed.results == {1: [(3, "v2"), (3, "v2"), (9, "v2")]}
    assert model.times == {1: 1, 2: 1, 3: 2, 9: 2}


def test_auto_scans_a_small_table_and_queries_a_large_one(
    feed: Feed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = Readable(tmp_path / "small", planes([1]))
    large = Readable(tmp_path / "large", planes([1]))
    (tmp_path / "large" / "size").write_text("1000001")
    closed = Model(tmp_path / "closed", planes([1]))
    sqlite = sources.sql(database_of_planes(tmp_path), table="planes")
    with caplog.at_level(logging.INFO, "bsjoin"):
        df = feed.stream
        for number, source in enumerate((small, large, closed)):
            df = bsjoin.join(df, source, "k", suffix=f"_{number}")
        df = bsjoin.join(df, sqlite, {"k": "id"})
    messages = [record.getMessage() for record in caplog.records]
    chosen = [
        message for message in messages if message.startswith(("bsjoin: full", "bsjoin: inc"))
    ]
    modes = [message.split()[1] for message in chosen]
    assert modes == ["full", "incremental", "incremental", "full"]
    assert "again every 10 minutes" in chosen[0]
    assert "again every 10 minutes" in chosen[3]
    assert "about 1000001 rows" in chosen[1]
    assert "cannot be read whole" in chosen[2]
    run = Run(feed, df)
    assert run.turn(1, 2).rows == [(1, "v1", "v1", "v1", "plane 1", True)]
    found = [(c.mode, c.table_version, c.cache is None) for c in cycles(run.query)]
    full, incremental = ("full", 1, True), ("incremental", None, False)
    assert found == [full, incremental, incremental, full]
    assert not small.asked
    assert len(large.asked) == len(closed.asked) == 1


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BatchTable]]:
    """The tables that are refreshed, until the test ends."""
    tables: list[BatchTable] = []
    start = BatchTable._refresh_every

    def started(table: BatchTable, *arguments: Any) -> None:
        tables.append(table)
        start(table, *arguments)

    monkeypatch.setattr(BatchTable, "_refresh_every", started)
    yield tables
    for table in tables:
        table.stop_refreshing()


@pytest.mark.long
def test_auto_follows_a_source_that_changes(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refreshed: list[BatchTable]
) -> None:
    automatic = bsjoin.planner.automatic._AUTOMATIC_FULL
    assert automatic == Full(refresh="10 minutes")
    monkeypatch.setattr(
        "bsjoin.planner.automatic._AUTOMATIC_FULL", replace(automatic, refresh="100 ms")
    )
    source = Readable(tmp_path / "source", planes([1]))
    run = Run(feed, bsjoin.join(feed.stream, source, "k"))
    assert run.turn(1).rows == [(1, "v1")]
    source.put(planes([1], 2))
    turns(run, 1, last=[(1, "v2")])
    assert len(refreshed) == 1


@pytest.mark.long
def test_auto_reads_a_source_once_for_a_batch_result(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    refreshed: list[BatchTable],
) -> None:
    source = Readable(tmp_path / "source", planes([1]))
    stream = spark.createDataFrame([(1,)], "k long")
    with caplog.at_level(logging.INFO, "bsjoin"):
        joined = bsjoin.join(stream, source, "k")
    assert rows(joined) == [(1, "v1")]
    assert "read once" in caplog.text
    assert not refreshed


def test_the_cycles_of_a_join_choose_their_cache_once(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    refreshed: list[BatchTable],
) -> None:
    source = Readable(tmp_path / "source", planes([1]))
    found: list[list[tuple[object, ...]]] = []
    steered = bsjoin.cycles(source, "k", sink=lambda batch, _: found.append(rows(batch)))
    stream = spark.createDataFrame([(1,)], "k long")
    with caplog.at_level(logging.INFO, "bsjoin"):
        for number in range(3):
            steered(stream, number)
            (source.folder / "size").write_text("1000001")
    assert found == [[(1, "v1")]] * 3
    assert caplog.text.count("bsjoin: full cache for") == 1
    assert {cycle.mode for cycle in bsjoin.progress(steered)} == {"full"}
    assert len(refreshed) == 1
