"""Joins one after the other, in every way, and the times of their micro-batches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import kept, parquet, write_stream
from benchmarks.data.tables import row_of, scattered
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import (
    JVM,
    PYTHON,
    Join,
    configured,
    file_stream,
    in_memory,
    in_runtime,
    run_stream,
    with_settings,
)
from benchmarks.harness.timing import Times, check_joins, outcome, ratio, rotated

CHOSEN, MERGE, SHUFFLED = "Spark, as it chooses", "Spark, sort-merge", "Spark, shuffled hash"
BROADCAST, PERSISTED = "Spark, broadcast", "Spark, persisted broadcast"
PLAIN = "plain join"
APART = "bsjoin, Python, a stage each"  # by default joins in Python workers share one
_HINTS = {
    CHOSEN: "", MERGE: "merge", SHUFFLED: "shuffle_hash", BROADCAST: "broadcast",
    PERSISTED: "broadcast",
}  # fmt: skip
_PLANNED: dict[str, Callable[[Join], Join]] = {
    JVM: partial(in_runtime, "jvm"),
    PYTHON: partial(in_runtime, "python"),
    APART: partial(with_settings, {"runtime": "python", "python.transfer": "keys"}),
}

_COMPARED = (
    ("addBatch", JVM, NO_JOIN, 1.8, True),
    ("trigger", JVM, NO_JOIN, 1.2, True),
    ("addBatch", CHOSEN, JVM, 8.0, False),
    ("trigger", CHOSEN, JVM, None, False),
    ("addBatch", PERSISTED, JVM, None, False),
    ("addBatch", MERGE, JVM, None, False),
    ("addBatch", PYTHON, JVM, None, False),
    ("addBatch", APART, PYTHON, None, False),
    ("addBatch", CHOSEN, PYTHON, 5.0, False),
)
"""Of six joins: the duration, numerator, denominator, bound of full runs, whether an upper one."""

BATCH, FILES, MOST = 10_000, 2, 6
STEP = 1_000_003  # from key to key of tables whose keys are far apart
_DURATIONS = {"addBatch": "addBatch", "trigger": "triggerExecution", "planning": "queryPlanning"}

Streams = dict[str, dict[str, Times]]
"""By shape, way, and duration the milliseconds of micro-batches."""


@dataclass(frozen=True)
class Joins:
    """Joins of a stream with tables, one after the other, and the ``columns`` of the result.

    Each table has a unique key ``k``, and is joined by the column in ``keys``: of the stream, or of
    a table before.
    """

    frames: Sequence[DataFrame]
    indexed: Sequence[bsjoin.BatchTable]
    keys: Sequence[str]
    columns: Sequence[str]

    def ways(self, *names: str) -> dict[str, Join]:
        """Ways by their names: by :func:`bsjoin.join`, as plain joins, or Spark's of the files."""
        found: dict[str, Join] = {}
        for name in names:
            if name in _PLANNED:
                found[name] = _PLANNED[name](self._ours)
            elif name in _HINTS:
                found[name] = partial(self._theirs, _HINTS[name])
            else:
                found[name] = self.plain
        return found

    def plain(self, stream: DataFrame) -> DataFrame:
        """Plain joins with the stored tables."""
        return self.joined([one.to_df(stream.sparkSession) for one in self.indexed], stream)

    def joined(self, tables: Iterable[DataFrame], stream: DataFrame) -> DataFrame:
        """Spark's joins of a stream with tables."""
        for key, table in zip(self.keys, tables, strict=True):
            other = table.withColumnRenamed("k", "_k")
            stream = stream.join(other, F.col(key) == F.col("_k")).drop("_k")
        return stream

    def _ours(self, stream: DataFrame) -> DataFrame:
        for key, one in zip(self.keys, self.indexed, strict=True):
            stream = one.join(stream, on={key: "k"})
        return stream

    def _theirs(self, hint: str, stream: DataFrame) -> DataFrame:
        return self.joined((df.hint(hint) if hint else df for df in self.frames), stream)


@dataclass(frozen=True)
class Chain:
    """Tables of so many rows that can be joined one after the other.

    Table ``i`` has a unique key ``k``, a number ``a<i>``, which is a key of the next, and a text.
    ``step`` is from key to key: more than a few for tables that are found by the hash.
    """

    context: Context
    rows: int
    frames: Sequence[DataFrame]
    indexed: Sequence[bsjoin.BatchTable]
    step: int = 1

    @staticmethod
    def of(context: Context, rows: int, step: int = 1) -> Chain:
        """The tables of a size."""
        ids, far = context.spark.range(0, rows, 1, 2), f"-by-{step}" if step > 1 else ""
        key, frames = F.col("id"), []
        for i in range(MOST):
            number = (scattered(key, rows, i) * step).alias(f"a{i}")
            made = ids.select((key * step).alias("k"), number, row_of(key)[1].alias(f"t{i}"))
            frames.append(parquet(context.data / f"chain-{rows}-{i}{far}", made))
        tables = [bsjoin.BatchTable.build(df, on="k", unique=True) for df in frames]
        return Chain(context, rows, frames, tables, step)

    def joins(self, count: int, dependent: bool = False) -> Joins:
        """Joins with so many tables, whose keys may come from the table before."""
        keys = [f"a{i - 1}" if dependent and i else f"k{i}" for i in range(count)]
        columns = [f"k{i}" for i in range(MOST)] + [f"{x}{i}" for i in range(count) for x in "at"]
        return Joins(self.frames[:count], self.indexed[:count], keys, ["id", *columns])

    def files(self, batches: int) -> Path:
        """Files of a stream: ``id`` and a key for each table."""
        seed = self.context.seed

        def rows(number: int) -> pa.Table:
            random = np.random.default_rng([seed, number])
            drawn = random.integers(0, self.rows, (MOST, BATCH)) * self.step
            ids = np.arange(number * BATCH, (number + 1) * BATCH)
            return pa.table({"id": ids} | {f"k{i}": keys for i, keys in enumerate(drawn)})

        path = self.context.data / f"chain-stream-{self.rows}-{self.step}-{batches}-{seed}"
        return kept(path, lambda place: write_stream(place, map(rows, range(batches)), FILES))

    def sample(self) -> DataFrame:
        """The first rows of a stream."""
        return self.context.spark.read.parquet(str(self.files(1) / "0000-0.parquet"))

    def run(self, name: str, way: Join, files: Path, warm: int, batches: int) -> Times:
        """A stream through one way: the durations of its last micro-batches."""
        schema = ", ".join(["id long", *(f"k{i} long" for i in range(MOST))])
        # For this run only: every other way would find the rows in memory, too.
        with in_memory(*(self.frames if name == PERSISTED else ())):
            stream = file_stream(self.context.spark, schema, files, FILES)
            query = run_stream(way(stream), warm + batches)
        done = [p.durationMs for p in query.recentProgress if p.numInputRows][warm:][:batches]
        return {name: [one[of] for one in done] for name, of in _DURATIONS.items()}


def check_answered(joins: Joins, stream: DataFrame) -> None:
    """See that the index answers all plain joins."""
    plan = joins.plain(stream)._jdf.queryExecution().executedPlan().toString()
    if plan.count("BsjoinLookup") < len(joins.keys):
        raise AssertionError(f"of {len(joins.keys)} joins some are not answered:\n{plan}")


def measure(
    context: Context,
    shapes: Mapping[str, tuple[Chain, Mapping[str, Join]]],
    plan: Sequence[tuple[int, int]],
    settings: Mapping[str, Mapping[str, str]],
    compiled: Collection[str],
) -> Streams:
    """The times of every shape and way, turn by turn, beside those without a join.

    ``plan`` has the micro-batches of warm-up of each turn, and those that are counted; ``settings``
    of the session are by way; those ``compiled`` once take milliseconds, and need all the warm-up.
    """
    needed, found = max(map(sum, plan)) + 4, Streams()  # some run before the query is stopped
    chains = {id(chain): chain for chain, _ in shapes.values()}
    files = {key: chain.files(needed) for key, chain in chains.items()}
    for turn, (warm, batches) in enumerate(plan):
        none = {
            key: chain.run(NO_JOIN, lambda df: df, files[key], warm, batches)
            for key, chain in chains.items()
        }
        for label, (chain, ways) in shapes.items():
            ran = {NO_JOIN: none[id(chain)]}
            for name in rotated(ways, turn):
                short = warm if name in compiled else min(warm, 5)
                with configured(context.spark, settings.get(name, {})):
                    ran[name] = chain.run(name, ways[name], files[id(chain)], short, batches)
            for name, times in ran.items():
                for what, ms in times.items():
                    found.setdefault(label, {}).setdefault(name, {}).setdefault(what, []).extend(ms)
                told = "  ".join(f"{k} {statistics.median(v):6.1f}" for k, v in times.items())
                context.say(f"  {label:<42} {name:<28} {told}")
    return found


def shown(title: str, streams: Streams, figures: list[Figure]) -> Outcome:
    """Figures, and the medians of every shape and way."""
    times = {
        f"{shape}, {what}": {way: by[what] for way, by in ways.items()}
        for shape, ways in streams.items()
        for what in _DURATIONS
    }
    note = (
        f"Micro-batches of {BATCH:,} rows in {FILES} Parquet files. The ways take turns. Planning "
        "is Spark's queryPlanning, a part of the trigger. After few micro-batches the JVM has "
        "compiled little: only full sizes tell what a long stream has."
    )
    return outcome(title, times, figures, note, "ms")


def chains(context: Context) -> Outcome:
    """Micro-batches through chains; quick: six joins with keys of the stream, few micro-batches."""
    plan = context.pick([(2, 3)], [(40, 10), (10, 10)])
    shapes = {}
    for rows in context.pick((100_000,), (1_000, 100_000)):
        chain = Chain.of(context, rows)
        for whose, dependent in (("the stream", False), ("the join before", True)):
            label = f"joins, {rows:,} rows, keys of {whose}"
            joins, sample = chain.joins(MOST, dependent), chain.sample()
            ways = joins.ways(JVM, PYTHON, APART, CHOSEN, PERSISTED, MERGE)
            answers = {name: partial(way, sample) for name, way in ways.items()}
            check_joins(answers, joins.columns)
            if context.quick and dependent:  # its answers are checked, but not timed
                continue
            shapes[f"{MOST} {label}"] = chain, ways
            if not (context.quick or dependent):
                shapes[f"1 {label}"] = chain, chain.joins(1).ways(PYTHON)
    streams = measure(context, shapes, plan, {}, (JVM, PYTHON))
    return shown("Chains of joins", streams, _figures(streams))


def _figures(streams: Streams) -> list[Figure]:
    """Ratios of six joins, and of six to one."""
    found = []
    for label, by in streams.items():
        count, _, tables = label.partition(" joins, ")
        if count == "1":
            name = f"addBatch, {MOST} joins / one, {PYTHON}, {tables}"
            both = (streams[f"{MOST} joins, {tables}"], by)
            times = (each[PYTHON]["addBatch"] for each in both)
            found.append(ratio(name, *times, 1.6, at_most=True))
            continue
        for what, above, below, bound, at_most in _COMPARED:
            name = f"{what}, {MOST} joins, {above} / {below}, {tables}"
            times = (by[way][what] for way in (above, below))
            found.append(ratio(name, *times, bound, at_most=at_most))
    return found
