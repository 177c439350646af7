"""Real-time mode: how long a row takes from its birth to the sink, without joins and with six.

The source is the memory stream of Spark's own tests, which keeps a row until a task asks for it:
every 10 ms, as long as there is none. So most of a latency is the wait for that, 0 to 10 ms, and a
median is one of all waits only if rows come at all times between two questions. With a pause that
is the same after each row, most of one turn's waits are short, and most of the next one's long.
Pauses are therefore drawn, and shorter than a wait.
The sink is a Java class, compiled here (``javac``): Python's sinks get rows at the end of a batch.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.engine.chain import CHOSEN, MOST, PLAIN, Chain, Shape
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import JVM, in_runtime
from benchmarks.harness.timing import check_joins, quantile, quantiles, rotated
from tests.real_time_queries import Source

_ROWS = 100_000
_ONE, _SIX = f"{JVM}, one join", f"{JVM}, six joins"
_PLAIN = "plain joins, six"
_REFRESHED = f"{_PLAIN}, a refresh"
_PAUSES_S, _TIMEOUT_S = (0.001, 0.006), 60.0

Turns = dict[str, list[list[float]]]
"""Milliseconds of rows, by way and turn."""


class _Rows:
    """A source of rows ``key`` and ``born`` and a sink for them, in one JVM."""

    def __init__(self, spark: SparkSession):
        jvm: Any = spark._jvm
        self._source = Source(spark)
        self._clock, self.sink = jvm.java.lang.System.nanoTime, jvm.bsjoin.benchmarks.Latency
        parts = [
            f"bigint(split_part(value, ',', {i + 1})) AS {x}" for i, x in enumerate(("key", "born"))
        ]
        self.df = self._source.texts.selectExpr(*parts)

    def add(self, key: int) -> None:
        self._source.add(f"{key},{self._clock()}")

    def taken(self) -> list[float]:
        """Milliseconds of the rows that have arrived since the last call."""
        return [int(nanos) / 1e6 for nanos in self.sink.taken().split()]


def run(context: Context) -> Outcome:
    """Latency of single rows; quick: one turn of a few seconds."""
    turns, warm_s, counted_s = context.pick((1, 2.0, 3.0), (3, 15.0, 15.0))
    spark, chain = context.spark, Chain.of(context, _ROWS)
    sample = with_keys(spark.range(5_000).selectExpr("id AS key", "id AS born"))
    answers = Shape(chain, MOST, dependent=False).ways(JVM, PLAIN, CHOSEN)
    columns = ["key", *(f"{x}{i}" for x in "at" for i in range(MOST))]
    ways = {name: partial(in_runtime("jvm", way), sample) for name, way in answers.items()}
    check_joins(ways, columns)
    _load_sink(spark, context.data / "classes")
    joins = {NO_JOIN: 0, _ONE: 1, _SIX: MOST, _PLAIN: MOST, _REFRESHED: MOST}
    found: Turns = {name: [] for name in joins}
    for turn in range(turns):
        for name in rotated(joins, turn):
            count = joins[name]
            by = Chain.plain if name in (_PLAIN, _REFRESHED) else Chain.ours
            way = in_runtime("jvm", partial(by, chain, count, False))
            refresh = partial(chain.indexed[0].refresh, chain.frames[0])
            meanwhile = refresh if name == _REFRESHED else lambda: None
            ms = _latencies(
                _Rows(spark), lambda df, way=way: way(with_keys(df)), warm_s, counted_s, meanwhile
            )  # type: ignore[misc]
            found[name].append(ms)
            p50, p99 = (quantile([ms], share) for share in (0.5, 0.99))
            context.say(f"  {name:<34} p50 {p50:6.2f} ms, p99 {p99:6.2f} ms")
    return Outcome(_figures(found), [_table(found)], measured=found)


def with_keys(df: DataFrame) -> DataFrame:
    """The rows with a key for each table."""
    keys = [F.pmod(F.col("key") * (7_919 + i), F.lit(_ROWS)).alias(f"k{i}") for i in range(MOST)]
    return df.select("*", *keys)


def _latencies(
    rows: _Rows, way: Callable[[DataFrame], DataFrame], warm_s: float, counted_s: float,
    meanwhile: Callable[[], Any],
) -> list[float]:  # fmt: skip
    """Milliseconds of every row that a query passed on, in one batch of real-time mode.

    ``meanwhile`` runs beside the query, from the end of the warm-up on.
    """
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = way(rows.df).writeStream.outputMode("update").trigger(realTime="1 hour")
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer._jwrite.foreach(rows.sink()).start()
        beside = threading.Thread(target=meanwhile)
        try:
            _send(rows, warm_s)
            until = time.monotonic() + _TIMEOUT_S
            while not rows.taken():  # a query begins slowly
                if query.exception().isDefined() or time.monotonic() > until:
                    raise RuntimeError(f"no row arrives: {query.exception()}")
                _send(rows, 0.5)
            _send(rows, warm_s)
            rows.taken()
            beside.start()
            sent, found = _send(rows, counted_s), []  # type: int, list[float]
            beside.join()
            while len(found) < sent:
                if time.monotonic() > until + warm_s + counted_s:
                    raise RuntimeError(f"{len(found)} of {sent} rows arrive: {query.exception()}")
                time.sleep(0.1)
                found += rows.taken()
        finally:
            query.stop()
    return found


def _send(rows: _Rows, seconds: float) -> int:
    """Send rows, with pauses that are drawn; returns how many."""
    pauses, until, sent = random.Random(0), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rows.add(sent * 104_729)
        sent += 1
        time.sleep(pauses.uniform(*_PAUSES_S))
    return sent


def _load_sink(spark: SparkSession, folder: Path) -> None:
    """Compile the sink, and let this session's JVM find it."""
    jvm: Any = spark._jvm
    folder.mkdir(exist_ok=True)
    jars = Path(pyspark.__file__).parent / "jars"
    source = Path(__file__).with_name("Latency.java")
    subprocess.run(
        ["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", folder, source], check=True
    )
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.io.File(str(folder.resolve())).toURI().toURL())


def _figures(found: Turns) -> list[Figure]:
    """Quantiles of all turns, with the spread of the turns' ratios."""
    figures = []
    for share, above, below, bound in (
        (0.5, _SIX, NO_JOIN, 1.1),
        (0.99, _SIX, NO_JOIN, None),
        (0.5, _ONE, NO_JOIN, None),
        (0.5, _PLAIN, NO_JOIN, 1.1),
        (0.99, _PLAIN, NO_JOIN, None),
        (0.5, _REFRESHED, _PLAIN, None),
        (0.99, _REFRESHED, _PLAIN, None),
    ):
        value, spread = quantiles(found[above], found[below], share)
        name = f"latency p{100 * share:g}, {above} / {below}"
        figures.append(Figure(name, value, bound, True, spread))
    return figures


def _table(found: Turns) -> Table:
    rows = [
        {"way": name, "rows": sum(map(len, turns))}
        | {f"p{100 * q:g}, ms": quantile(turns, q) for q in (0.5, 0.95, 0.99)}
        for name, turns in found.items()
    ]
    note = (
        f"A row after {1_000 * _PAUSES_S[0]:g} to {1_000 * _PAUSES_S[1]:g} ms, tables of {_ROWS:,} "
        "rows, one batch of real-time mode. From the call that adds a row to the source until a "
        "ForeachWriter has it; up to 10 ms of it are the source's, which looks so often."
    )
    shown = Table.of("Real-time mode: latency of a row", rows, note)
    return shown.drawn("bars", "way", "p50, ms", "p99, ms", ylabel="ms")
