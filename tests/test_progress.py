"""The figures of a streaming join are exact, for every join type and every shape of table."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQueryListener
from spark_samples import Feed, cycles, soon

import bsjoin
from bsjoin import Band, BatchTable

pytestmark = pytest.mark.usefixtures("runtime")

MICRO_BATCHES: list[list[int | None]] = [[1, 1, 2, 3, None, 99], [99, None]]


class Listener(StreamingQueryListener):
    """Keeps what bsjoin reads from every event."""

    def __init__(self) -> None:
        self.seen: list[bsjoin.CycleProgress] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.seen += [cycle for cycle in bsjoin.progress(event.progress) if cycle.rows_in]

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def wait_for(self, figures: Sequence[bsjoin.CycleProgress]) -> None:
        """Events come a moment after the progress."""
        soon(lambda: len(self.seen) >= len(figures), True)


def table_of(spark: SparkSession, counts: dict[int, int]) -> DataFrame:
    """So many rows of each key."""
    keys = ", ".join(f"({key}, {count})" for key, count in counts.items())
    return spark.sql(
        f"SELECT bigint(key) AS k, v FROM VALUES {keys} AS t(key, n) "
        "LATERAL VIEW explode(sequence(1, n)) AS v"
    )


# What a worker answers differs: a row, a list of rows, or where many rows lie.
SHAPES = {
    "one row a key": {1: 1, 2: 1, 5: 1},
    "a few rows": {1: 3, 2: 1, 5: 2},
    "many rows": {1: 200, 2: 65, 5: 1},
    "in a band": {1: 3, 2: 1, 3: 1, 5: 2},
}
HOWS: dict[str, list[Any]] = {
    "one row a key": ["inner", "semi"],
    "a few rows": ["left", "anti"],
    "many rows": ["inner", "left"],
    "in a band": ["left", "semi"],
}
WHENS = {"in a band": Band("k", "v", before=1, after=1)}
# So many rows of a key match: of 1 and 2 and 3, of 1, and not of 1, nor of 1 and 2.
MATCHING = SHAPES | {"in a band": {1: 2, 2: 1}}


@pytest.mark.in_turns("runtime", others="long")
def test_figures_are_exact_for_every_join_type(
    spark: SparkSession, runtime: str, tmp_path: Path
) -> None:
    feed, joins = Feed(spark, tmp_path), []
    for keys in MICRO_BATCHES:
        feed.add(*keys)
    for shape, counts in SHAPES.items():
        unique = shape == "one row a key"
        when = WHENS.get(shape)
        table = BatchTable.build(table_of(spark, counts), on="k", unique=unique, when=when)
        for how in HOWS[shape]:
            joined = table.join(feed.stream, how=how, when=when)
            joins.append(joined.select("k", F.lit(f"{shape} {how}").alias("join")))
    listener = Listener()
    spark.streams.addListener(listener)
    try:
        # The joins of one stream run as one query: less to start, and names to keep apart.
        query = feed.run(reduce(DataFrame.union, joins))
        figures = cycles(query)
        listener.wait_for(figures)
    finally:
        query.stop()
        spark.streams.removeListener(listener)

    assert listener.seen == figures
    assert len({cycle.join for cycle in figures}) == len(joins)
    for number, keys in enumerate(MICRO_BATCHES):
        made = Counter(row[-1] for row in feed.results[number])
        found = [cycle for cycle in figures if cycle.batch_id == number]
        # Joins are listed in the order of their calls.
        pairs_of = [(shape, how) for shape in SHAPES for how in HOWS[shape]]
        for (shape, how), cycle in zip(pairs_of, found, strict=True):
            counts = MATCHING[shape]
            hits = sum(key in counts for key in keys)
            pairs = sum(counts.get(key, 0) for key in keys if key is not None)
            matches = hits if how in ("semi", "anti") else pairs
            got = (cycle.rows_in, cycle.hits, cycle.misses, cycle.matches, cycle.rows_out)
            wanted = (len(keys), hits, len(keys) - hits, matches, made[f"{shape} {how}"])
            assert got == wanted, (shape, how, number)
            on = ("k", "k") if shape in WHENS else ("k",)  # the band's column is the key
            assert (cycle.on, cycle.hit_rate, cycle.table_version) == (on, hits / len(keys), 1)
            assert cycle.runtime == runtime
            assert (cycle.lookup_ms is None) == (runtime == "jvm")
            reason = "" if runtime == "jvm" else "spark.bsjoin.runtime is python"
            assert cycle.runtime_reason == reason


@pytest.mark.in_turns("runtime", others="long")
def test_a_sink_that_runs_no_action_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsjoin.metrics.observing._WAIT_S", 1e6)
    table = BatchTable.build(table_of(spark, {1: 2}), on="k", path=tmp_path / "table")
    used: list[int] = []

    def sink(df: DataFrame, number: int) -> None:
        used.append(df.count() if number == 2 else -1)

    cycle = bsjoin.cycles(table, "k", sink=sink)
    rows = spark.sql("SELECT explode(array(1L, 9L)) AS k")
    cycle(rows, 0)
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for number in (1, 2, 3):
        cycle(rows, number)
    # What earlier tests have left may go meanwhile.
    assert threading.active_count() <= before[0]
    assert len(os.listdir("/proc/self/fd")) <= before[1]
    assert used == [-1, -1, 2, -1]
    assert [(one.batch_id, one.rows_in, one.matches) for one in cycles(cycle)] == [(2, 2, 2)]
