"""The jobs of the live experiment: Wordcount and Fixwindow, bsjoin's join, and a skewed one.

A job makes of the rows of a micro-batch one row, its answer: a number and a sum of hashes. All
micro-batches have the same rows, so every cycle under every policy has the same answer. The work
is hashing, in Spark's generated code: its CPU time is known for every task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.spark import fingerprint
from bsjoin import BatchTable
from scheduling.spark import Loop, Placement, PlacementResult

Place = Callable[[str, DataFrame], DataFrame]
"""Rows whose partitions become the tasks of an operator, placed."""
Answer = tuple[int, int]

STORM = (0.11, 0.21, 0.45, 0.55, 0.70, 0.88)
"""St-Stream, Figs. 10 and 12: the load of six of its seven nodes under round robin."""
_KEYS = 50_000
_HASHES = 4


@dataclass(frozen=True)
class Job:
    """A job: the number of tasks of each operator, in the order of its stages.

    ``make`` gives the result's rows, of the rows of a micro-batch; None for the join.
    """

    name: str
    stages: Mapping[str, int]
    make: Callable[[DataFrame, Place], DataFrame] | None

    @property
    def first(self) -> int:
        """The number of partitions of the stream."""
        return next(iter(self.stages.values()))


def _worked(column: Column, times: int) -> Column:
    """Hashes of hashes of a column: work for a CPU."""
    for _ in range(times):
        column = F.sha2(column.cast("string"), 512)
    return column


def _wordcount(rows: DataFrame, place: Place) -> DataFrame:
    """Five words of each row, of which some are frequent; split, sent by word, counted."""
    rows = place("split", rows)
    draw = [F.pmod(F.xxhash64("value", F.lit(-k - 1)), F.lit(900)) + 1 for k in range(5)]
    words = [F.pmod(F.xxhash64("value", F.lit(k)), one) for k, one in enumerate(draw)]
    listed = F.array(*[F.concat(F.lit("w"), word.cast("string")) for word in words])
    split = rows.select(F.explode(listed).alias("word"))
    split = split.where(F.length(_worked(F.col("word"), 1)) > 3)
    counted = place("count", split.repartition(6, "word")).groupBy("word")
    return counted.agg(F.count(F.lit(1)).alias("n"), F.max(_worked(F.col("word"), 1)).alias("h"))


def _fixwindow(rows: DataFrame, place: Place) -> DataFrame:
    """Rows of a hundred keys, counted in windows of a second."""
    rows = place("map", rows).select(
        F.timestamp_seconds(F.pmod("value", F.lit(3))).alias("time"),
        F.pmod("value", F.lit(100)).alias("key"),
        "value",
    )
    rows = rows.where(F.length(_worked(F.col("value"), _HASHES // 2)) > 3)
    rows = place("window", rows.repartition(6, "key"))
    windows = rows.groupBy(F.window("time", "1 second"), "key")
    return windows.agg(
        F.count(F.lit(1)).alias("n"), F.max(_worked(F.col("value"), _HASHES // 2)).alias("h")
    ).select(F.col("window.start").alias("start"), "key", "n", "h")


def _skewed(rows: DataFrame, place: Place) -> DataFrame:
    """Twelve partitions that work as much as St-Stream's nodes do, two of each.

    The source has every twelfth row in the same partition.
    """
    rows = place("count", rows)
    kept = F.element_at(
        F.array(*[F.lit(round(1000 * one / max(STORM))) for one in STORM * 2]),
        F.pmod("value", F.lit(2 * len(STORM))).cast("int") + 1,
    )
    rows = rows.where(F.pmod(F.xxhash64("value"), F.lit(1000)) < kept)
    return rows.select("value", _worked(F.col("value"), _HASHES).alias("h"))


WORDCOUNT = Job("Wordcount", {"split": 8, "count": 6}, _wordcount)
FIXWINDOW = Job("Fixwindow", {"map": 8, "window": 6}, _fixwindow)
JOIN = Job("join", {"join": 12}, None)
SKEWED = Job("skewed", {"count": 12}, _skewed)


def answer(rows: DataFrame) -> Answer:
    """How many rows, and the sum of their hashes; one action."""
    return fingerprint(rows, rows.columns)


def plain(job: Job, rows: DataFrame) -> Answer:
    """The answer without any placement; of the join, by Spark's own."""
    if job.make is None:
        return answer(_joined(_keyed(rows).join(_names(rows.sparkSession), "k", "left")))
    return answer(job.make(rows, lambda _, df: df))


def _keyed(rows: DataFrame) -> DataFrame:
    """With keys of which one in eleven has no match."""
    return rows.select("value", F.pmod("value", F.lit(_KEYS * 11 // 10)).alias("k"))


def _names(spark: SparkSession) -> DataFrame:
    return spark.range(_KEYS).select(
        F.col("id").alias("k"), F.concat(F.lit("n"), F.col("id").cast("string")).alias("name")
    )


def _joined(rows: DataFrame) -> DataFrame:
    worked = _worked(F.concat_ws("-", "name", F.col("value").cast("string")), _HASHES)
    return rows.select("value", "k", "name", worked.alias("h"))


Running = Callable[[DataFrame, int], tuple[Answer, Sequence[PlacementResult]]]
"""Runs a micro-batch, by its number: its answer, and what each operator's loop saw."""


def start(job: Job, placement: Placement, table: BatchTable | None = None) -> Running:
    """Begin to run a job under a placement, without any history; ``table``: of the join."""
    return _looped(job, placement) if table is None or job.make else _cycles(table, placement)


def stored(spark: SparkSession) -> BatchTable:
    """The table of the join."""
    return BatchTable.build(_names(spark), on="k")


def _looped(job: Job, placement: Placement) -> Running:
    """A job with a loop for each operator: their stages run one after the other."""
    loops: dict[str, Loop] = {}

    def run(rows: DataFrame, number: int) -> tuple[Answer, list[PlacementResult]]:
        for name, tasks in job.stages.items():
            if name not in loops:
                options: dict[str, Any] = {"operator": name, "partitions": tasks}
                loops[name] = Loop(rows.sparkSession, placement, **options)
        assert job.make is not None
        with ExitStack() as stack:
            running = {name: stack.enter_context(loop.cycle()) for name, loop in loops.items()}
            found = answer(job.make(rows, lambda operator, df: running[operator].place(df)))
        return found, [loop.last for loop in loops.values() if loop.last is not None]

    return run


def _cycles(table: BatchTable, placement: Placement) -> Running:
    """The join through :func:`bsjoin.cycles`."""
    found: list[Answer] = []
    cycles = bsjoin.cycles(
        table, "k", how="left", placement=placement,
        sink=lambda rows, _: found.append(answer(_joined(rows))),
    )  # fmt: skip

    def run(rows: DataFrame, number: int) -> tuple[Answer, list[PlacementResult]]:
        found.clear()
        cycles(_keyed(rows), number)
        last = cycles._placing.loop.last
        return found[0], [] if last is None else [last]

    return run
