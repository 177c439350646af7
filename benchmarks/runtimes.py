"""Joins in Spark's generated code, in Python workers, and Spark's own: chains, and many rows."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import kept, write_stream
from benchmarks.data.tables import scattered, table
from benchmarks.full_cache import COLUMNS, IDENTITY, JVM, NO_JOIN, PYTHON, with_identity_row
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import (
    Join,
    file_stream,
    in_runtime,
    persisted,
    run_stream,
    with_settings,
)
from benchmarks.harness.timing import check_joins, ratio, time_joins

CHOSEN, MERGE = "Spark, as it chooses", "Spark, sort-merge"
BROADCAST, PERSISTED = "Spark, broadcast", "Spark, persisted broadcast"
SHUFFLED = "Spark, shuffled hash"
QUIET = "bsjoin, JVM, without figures"
APART, SILENT = "bsjoin, Python, a stage each", "bsjoin, Python, without figures"
"""Joins in Python workers by default share a stage: :data:`PYTHON`."""

_APART = {"runtime": "python", "python.transfer": "keys"}

LENGTHS = (1, 2, 4, 6)
BATCH, FILES = 10_000, 2
STEP = 1_000_003  # from key to key of tables whose keys are far apart
_MOST = LENGTHS[-1]
_DURATIONS = {"addBatch": "addBatch", "trigger": "triggerExecution", "planning": "queryPlanning"}
_HOW = (
    f"Medians of micro-batches of {BATCH:,} rows in {FILES} Parquet files, after {{warm}} of "
    "warm-up. The ways take turns. Planning is Spark's queryPlanning, a part of the trigger. After "
    "few micro-batches the JVM has compiled little: only full sizes tell what a long stream has."
)

_COMPILED_ONCE = (JVM, QUIET, PYTHON, SILENT)

Times = dict[str, list[float]]
"""Milliseconds of micro-batches, by duration."""


@dataclass(frozen=True)
class Chain:
    """Tables that are joined one after the other.

    Table ``i`` has a unique key ``k``, a number ``a<i>``, which is a key of the next, and a text.

    Args:
        context: of the benchmark.
        rows: of each table.
        frames: Spark's DataFrames.
        indexed: bsjoin's tables.
        step: from key to key; more than a few for tables that are found by the hash.
    """

    context: Context
    rows: int
    frames: Sequence[DataFrame]
    indexed: Sequence[bsjoin.BatchTable]
    step: int = 1

    @staticmethod
    def of(context: Context, rows: int, step: int = 1) -> Chain:
        """The tables of a size."""
        spark, key, frames = context.spark, F.col("id"), []
        for i in range(_MOST):
            path = context.data / f"chain-{rows}-{i}{_far(step)}"
            if not (path / "_SUCCESS").exists():
                text = F.concat(F.lit("name-"), F.lpad(key.cast("string"), 7, "0"))
                columns = ((scattered(key, rows, i) * step).alias(f"a{i}"), text.alias(f"t{i}"))
                made = spark.range(0, rows, 1, 2).select((key * step).alias("k"), *columns)
                made.write.mode("overwrite").parquet(str(path))
            frames.append(spark.read.parquet(str(path)))
        tables = [bsjoin.BatchTable.build(df, on="k", unique=True) for df in frames]
        return Chain(context, rows, frames, tables, step)

    def files(self, batches: int) -> Path:
        """Files of a stream: ``id`` and a key for each table."""
        seed = self.context.seed

        def rows(number: int) -> pa.Table:
            random = np.random.default_rng([seed, number])
            drawn = random.integers(0, self.rows, (_MOST, BATCH)) * self.step
            ids = np.arange(number * BATCH, (number + 1) * BATCH)
            return pa.table({"id": ids} | {f"k{i}": keys for i, keys in enumerate(drawn)})

        path = self.context.data / f"chain-stream-{self.rows}-{batches}-{seed}{_far(self.step)}"
        return kept(path, lambda place: write_stream(place, map(rows, range(batches)), FILES))

    def ours(self, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The joins by bsjoin."""
        for i, indexed in enumerate(self.indexed[:count]):
            stream = indexed.join(stream, on={key_of(i, dependent): "k"})
        return stream

    def quiet(self, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The same without the figures that bsjoin.progress shows."""
        with patch("bsjoin.planner.planned_join.is_reported", lambda stream: False):
            return self.ours(count, dependent, stream)

    def theirs(self, hint: str, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The joins by Spark."""
        for i, df in enumerate(self.frames[:count]):
            other = df.withColumnRenamed("k", "_k")
            other = other.hint(hint) if hint else other
            stream = stream.join(other, F.col(key_of(i, dependent)) == F.col("_k")).drop("_k")
        return stream

    def ways(self, count: int, dependent: bool) -> dict[str, Join]:
        """All ways to carry out the first joins."""
        ours = partial(self.ours, count, dependent)
        quiet = partial(self.quiet, count, dependent)
        without = {QUIET: in_runtime("jvm", quiet), SILENT: in_runtime("python", quiet)}
        return {
            JVM: in_runtime("jvm", ours),
            PYTHON: in_runtime("python", ours),
            APART: with_settings(_APART, ours),
            **(without if count == _MOST else {}),
            **{
                name: partial(self.theirs, hint, count, dependent)
                for name, hint in ((CHOSEN, ""), (PERSISTED, "broadcast"), (MERGE, "merge"))
            },
        }

    def run(self, name: str, way: Join, files: Path, warm: int, batches: int) -> Times:
        """A stream through one way: the durations of its last micro-batches."""
        with ExitStack() as stack:
            for df in self.frames if name == PERSISTED else ():
                # For this run only: every other way would find the rows in memory, too.
                stack.callback(persisted(df).unpersist, True)
            stream = file_stream(self.context.spark, _schema(), files, FILES)
            query = run_stream(way(stream), warm + batches)
        done = [p.durationMs for p in query.recentProgress if p.numInputRows][warm:][:batches]
        return {name: [one[of] for one in done] for name, of in _DURATIONS.items()}


def key_of(number: int, dependent: bool) -> str:
    """The key of a join of a chain."""
    return f"a{number - 1}" if dependent and number else f"k{number}"


def _far(step: int) -> str:
    return f"-by-{step}" if step > 1 else ""


def _schema() -> str:
    return ", ".join(["id long", *(f"k{i} long" for i in range(_MOST))])


def chains(context: Context) -> Outcome:
    """Micro-batches through chains; quick: six joins with keys of the stream, few micro-batches.

    Only the ways that are compiled once and take milliseconds need a long warm-up.
    """
    lengths, plan = context.pick(((_MOST,), [(2, 3)]), (LENGTHS, [(40, 10), (10, 10)]))
    needed = max(map(sum, plan)) + 4  # some run before the query is stopped
    measured: dict[str, dict[int, dict[str, Times]]] = {}
    for rows in context.pick((100_000,), (1_000, 100_000)):
        chain = Chain.of(context, rows)
        files = chain.files(needed)
        sample = context.spark.read.parquet(str(files / "0000-0.parquet"))
        shapes = {
            f"{rows:,} rows, keys of {'the join before' if dependent else 'the stream'}": dependent
            for dependent in (False, True)
        }
        for shape, dependent in shapes.items():
            columns = [*sample.columns, *(f"{x}{i}" for i in range(_MOST) for x in "at")]
            answers = chain.ways(_MOST, dependent)
            check_joins({n: partial(way, sample) for n, way in answers.items()}, columns)
            if not (context.quick and dependent):  # there the answers are checked, but not timed
                measured[shape] = {n: {} for n in (lengths[-1:] if dependent else lengths)}
        for warm, batches in plan:
            turn = {"none": chain.run(NO_JOIN, lambda stream: stream, files, warm, batches)}
            for shape, dependent in shapes.items():
                for count, of in measured.get(shape, {}).items():
                    _add(of, NO_JOIN, turn["none"])
                    for name, way in chain.ways(count, dependent).items():
                        short = warm if name in _COMPILED_ONCE else min(warm, 5)
                        ran = chain.run(name, way, files, short, batches)
                        _add(of, name, ran)
                        ms = "  ".join(f"{k} {statistics.median(v):6.1f}" for k, v in ran.items())
                        context.say(f"  {shape:<34} {count} joins  {name:<28} {ms}")
    note = _HOW.format(warm=plan[0][0])
    return Outcome(_chain_figures(context, measured), _chain_tables(measured, note), [], measured)


def _add(ways: dict[str, Times], name: str, times: Times) -> None:
    for what, ms in times.items():
        ways.setdefault(name, {}).setdefault(what, []).extend(ms)


def _chain_figures(
    context: Context, measured: Mapping[str, Mapping[int, Mapping[str, Times]]]
) -> list[Figure]:
    """Ratios of six joins; their bounds hold for the sizes and warm-up of full runs."""
    found = []
    for shape, by in measured.items():
        for what, above, below, bound, at_most in (
            ("addBatch", JVM, NO_JOIN, 1.8, True),
            ("trigger", JVM, NO_JOIN, 1.2, True),
            ("addBatch", JVM, QUIET, 1.1, True),
            ("trigger", JVM, QUIET, 1.1, True),
            ("addBatch", CHOSEN, JVM, 8.0, False),
            ("trigger", CHOSEN, JVM, None, False),
            ("addBatch", PERSISTED, JVM, None, False),
            ("addBatch", MERGE, JVM, None, False),
            ("addBatch", PYTHON, JVM, None, False),
            ("addBatch", PYTHON, SILENT, 1.1, True),
            ("addBatch", APART, PYTHON, None, False),
            ("addBatch", CHOSEN, PYTHON, 5.0, False),
        ):
            name = f"{what}, {_MOST} joins, {above} / {below}, {shape}"
            times = (by[_MOST][way][what] for way in (above, below))
            found.append(ratio(name, *times, context.pick(None, bound), at_most=at_most))
        if 1 in by:
            name = f"addBatch, {_MOST} joins / one, {PYTHON}, {shape}"
            times = (by[count][PYTHON]["addBatch"] for count in (_MOST, 1))
            found.append(ratio(name, *times, context.pick(None, 1.6), at_most=True))
    return found


def _chain_tables(
    measured: Mapping[str, Mapping[int, Mapping[str, Times]]], note: str
) -> list[Table]:
    found = []
    for shape, by in measured.items():
        rows: list[dict[str, Any]] = [
            {"joins": count, "way": name}
            | {f"{what}, ms": statistics.median(ms) for what, ms in times.items()}
            for count, ways in by.items()
            for name, times in ways.items()
        ]
        shown = Table.of(f"Chains of joins, tables of {shape}", rows, note)
        for what in ("addBatch, ms", "trigger, ms"):
            head, axis = f"{what}: tables of {shape}", {"xlabel": "joins", "yscale": "log"}
            if len(by) > 1:
                shown = shown.drawn("lines", "joins", what, by="way", title=head, **axis)
            else:
                shown = shown.drawn("ranked bars", "way", what, title=f"{head}, {_MOST} joins")
        found.append(shown)
    return found


def bulk(context: Context) -> Outcome:
    """Rows per second, all at once; quick: a twentieth of all rows, one table with dense keys."""
    spark, part = context.spark, context.pick(20, 1)
    rows, times, figures = 10_000_000 // part, {}, []  # type: int, dict[str, Any], list[Figure]
    sizes = (1_000_000 // part, 10_000_000 // part)
    for size, step in context.pick([(sizes[0], 1)], [*itertools.product(sizes, (1, STEP))]):
        df = table(spark, size, context.data).withColumn("k", F.col("k") * step)
        indexed = bsjoin.BatchTable.build(df, on="k", unique=True)
        key = scattered(F.col("id"), size, context.seed) * step
        stream = spark.range(rows).select(key.alias("k"), "id")

        def ours(some: DataFrame, indexed: bsjoin.BatchTable = indexed) -> DataFrame:
            return indexed.join(some, "k")

        def theirs(hint: str, some: DataFrame, df: DataFrame = df) -> DataFrame:
            return some.join(df.hint(hint) if hint else df, "k")

        what = f"{rows:,} x {size:,}{', keys far apart' if step > 1 else ''}"
        most = size > 1_000_000  # a broadcast of more rows does not fit
        floor = {IDENTITY: lambda some: with_identity_row(some).select(*COLUMNS)}
        ways = floor | _bulk_ways(ours, theirs, () if most else (BROADCAST,))
        times[what] = _time_bulk(context, what, ways, stream, COLUMNS)
        bounds = (None, 2.0) if most else (1.5, None)
        figures += _bulk_figures(what, times[what], *context.pick((None, None), bounds))
        found = times[what]
        name = f"rows/s, {PYTHON} / {IDENTITY}, {what}"
        figures.append(ratio(name, found[IDENTITY], found[PYTHON], 0.85, by_round=True))
    chain, rows = Chain.of(context, 100_000), 3_000_000 // part
    keys = [scattered(F.col("id"), 100_000, i).alias(f"k{i}") for i in range(_MOST)]
    columns = ["id", *(f"{x}{i}" for x in "kat" for i in range(_MOST))]
    ways = _bulk_ways(
        partial(chain.ours, _MOST, False),
        lambda hint, some: chain.theirs(hint, _MOST, False, some),
        (BROADCAST,),
    )
    what = f"{rows:,} x six tables of 100,000"
    times[what] = _time_bulk(context, what, ways, spark.range(rows).select("id", *keys), columns)
    figures += _bulk_figures(what, times[what], None, context.pick(None, 1.3))
    lines = [
        {"joined": what, "way": name, "million rows/s": int(what.split()[0].replace(",", ""))
         / statistics.median(seconds) / 1e6}
        for what, by in times.items()
        for name, seconds in by.items()
    ]  # fmt: skip
    note = "Spark's joins build what they need in every run, broadcasts included."
    shown = Table.of("Many rows at once", lines, note)
    shown = shown.drawn("bars", "joined", "million rows/s", by="way", ylabel="million rows/s")
    return Outcome(figures, [shown], [], times)


def _bulk_ways(ours: Join, theirs: Any, more: Sequence[str]) -> dict[str, Join]:
    hints = {CHOSEN: "", MERGE: "merge", SHUFFLED: "shuffle_hash"} | dict.fromkeys(
        more, "broadcast"
    )
    spark = {name: partial(theirs, hint) for name, hint in hints.items()}
    return {JVM: in_runtime("jvm", ours), PYTHON: in_runtime("python", ours), **spark}


def _time_bulk(
    context: Context, label: str, ways: Mapping[str, Join], rows: DataFrame, columns: list[str]
) -> dict[str, list[float]]:
    stream = persisted(rows)
    check_joins({n: partial(way, stream) for n, way in ways.items() if n != IDENTITY}, columns)
    times = time_joins(context, label, ways, stream, context.pick(2, 3))
    stream.unpersist(blocking=True)
    return times


def _bulk_figures(
    what: str,
    times: Mapping[str, list[float]],
    over_broadcast: float | None,
    over_best: float | None,
) -> list[Figure]:
    """Rows a second of both runtimes over Spark's; only the JVM's have bounds."""
    spark = [name for name in times if name.startswith("Spark")]
    best, found = min(spark, key=lambda name: statistics.median(times[name])), []
    for ours, promised in ((JVM, True), (PYTHON, False)):
        if BROADCAST in times:
            name, bound = (
                f"rows/s, {ours} / {BROADCAST}, {what}",
                over_broadcast if promised else None,
            )
            found.append(ratio(name, times[BROADCAST], times[ours], bound, by_round=True))
        name, bound = f"rows/s, {ours} / Spark's best, {what}", over_best if promised else None
        found.append(ratio(name, times[best], times[ours], bound, by_round=True))
    return found
