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
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.engine.chain import CHOSEN, MOST, PLAIN, Chain, check_answered
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import JVM, Join
from benchmarks.harness.timing import Times, check_joins, outcome, ratio, rotated
from tests.real_time_queries import Source

_ROWS = 100_000
_ONE, _SIX = f"{JVM}, one join", f"{JVM}, six joins"
_PLAIN = "plain joins, six"
_REFRESHED = f"{_PLAIN}, a refresh"
_PAUSES_S, _TIMEOUT_S = (0.001, 0.006), 60.0

_COMPARED = (
    ("p50", _SIX, NO_JOIN, 1.1),
    ("p99", _SIX, NO_JOIN, None),
    ("p50", _ONE, NO_JOIN, None),
    ("p50", _PLAIN, NO_JOIN, 1.1),
    ("p99", _PLAIN, NO_JOIN, None),
    ("p50", _REFRESHED, _PLAIN, None),
    ("p99", _REFRESHED, _PLAIN, None),
)
_NOTE = (
    f"Of each turn, a row after {1_000 * _PAUSES_S[0]:g} to {1_000 * _PAUSES_S[1]:g} ms, tables of "
    f"{_ROWS:,} rows, one batch of real-time mode. From the call that adds a row to the source "
    "until a ForeachWriter has it; up to 10 ms of it are the source's, which looks so often."
)


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
    one, six = chain.joins(1), chain.joins(MOST)
    answers = {name: partial(way, sample) for name, way in six.ways(JVM, PLAIN, CHOSEN).items()}
    check_joins(answers, ["key", *(f"{x}{i}" for x in "at" for i in range(MOST))])
    check_answered(six, sample)
    _load_sink(spark, context.data / "classes")
    ours = {_ONE: one.ways(JVM)[JVM], _SIX: six.ways(JVM)[JVM], _PLAIN: six.plain}
    ways: dict[str, Join] = {NO_JOIN: lambda df: df, **ours, _REFRESHED: six.plain}
    found: dict[str, Times] = {f"p{100 * q:g}": {name: [] for name in ways} for q in (0.5, 0.99)}
    for turn in range(turns):
        for name in rotated(ways, turn):
            refresh = partial(chain.indexed[0].refresh, chain.frames[0])
            meanwhile = refresh if name == _REFRESHED else lambda: None
            ms = _latencies(_Rows(spark), ways[name], warm_s, counted_s, meanwhile)
            for quantile, by in found.items():
                by[name].append(float(np.percentile(ms, float(quantile[1:]))))
            told = ", ".join(f"{what} {by[name][-1]:6.2f} ms" for what, by in found.items())
            context.say(f"  {name:<34} {told}")
    figures = [
        ratio(f"latency {what}, {above} / {below}", found[what][above], found[what][below], bound,
              at_most=True, by_round=True)
        for what, above, below, bound in _COMPARED
    ]  # fmt: skip
    return outcome("Real-time mode: latency of a row", found, figures, _NOTE, "ms")


def with_keys(df: DataFrame) -> DataFrame:
    """The rows with a key for each table."""
    keys = [F.pmod(F.col("key") * (7_919 + i), F.lit(_ROWS)).alias(f"k{i}") for i in range(MOST)]
    return df.select("*", *keys)


def _latencies(
    rows: _Rows, way: Join, warm_s: float, counted_s: float, meanwhile: Callable[[], Any]
) -> list[float]:
    """Milliseconds of every row that a query passed on, in one batch of real-time mode.

    ``meanwhile`` runs beside the query, from the end of the warm-up on.
    """
    with ThreadPoolExecutor(1) as pool, tempfile.TemporaryDirectory() as checkpoint:
        writer = way(with_keys(rows.df)).writeStream.outputMode("update").trigger(realTime="1 hour")
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer._jwrite.foreach(rows.sink()).start()
        try:
            _send(rows, warm_s)
            until = time.monotonic() + _TIMEOUT_S
            while not rows.taken():  # a query begins slowly
                if query.exception().isDefined() or time.monotonic() > until:
                    raise RuntimeError(f"no row arrives: {query.exception()}")
                _send(rows, 0.5)
            _send(rows, warm_s)
            rows.taken()
            beside = pool.submit(meanwhile)
            sent, found = _send(rows, counted_s), []  # type: int, list[float]
            beside.result()  # its error, if it has failed
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
