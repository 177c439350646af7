"""Joins one after the other, in every way, and the times of their micro-batches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import kept, parquet, write_stream
from benchmarks.data.tables import row_of, scattered
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Table
from benchmarks.harness.spark import (
    Join,
    configured,
    file_stream,
    in_memory,
    run_stream,
)
from benchmarks.harness.timing import Times, rotated

CHOSEN, MERGE = "Spark, as it chooses", "Spark, sort-merge"
BROADCAST, PERSISTED = "Spark, broadcast", "Spark, persisted broadcast"
PLAIN = "plain join"

BATCH, FILES, MOST = 10_000, 2, 6
STEP = 1_000_003  # from key to key of tables whose keys are far apart
_DURATIONS = {"addBatch": "addBatch", "trigger": "triggerExecution", "planning": "queryPlanning"}

Streams = dict[str, dict[str, Times]]
"""By shape, way, and duration the milliseconds of micro-batches."""


@dataclass(frozen=True)
class Chain:
    """Tables that are joined one after the other.

    Table ``i`` has a unique key ``k``, a number ``a<i>``, which is a key of the next, and a text.
    ``step`` is from key to key: more than a few for tables that are found by the hash.
    """

    context: Context
    rows: int
    paths: Sequence[Path]
    frames: Sequence[DataFrame]
    indexed: Sequence[bsjoin.BatchTable]
    step: int = 1

    @staticmethod
    def of(context: Context, rows: int, step: int = 1) -> Chain:
        """The tables of a size."""
        ids, far = context.spark.range(0, rows, 1, 2), f"-by-{step}" if step > 1 else ""
        paths = [context.data / f"chain-{rows}-{i}{far}" for i in range(MOST)]
        key, frames = F.col("id"), []
        for i, path in enumerate(paths):
            number = (scattered(key, rows, i) * step).alias(f"a{i}")
            made = ids.select((key * step).alias("k"), number, row_of(key)[1].alias(f"t{i}"))
            frames.append(parquet(path, made))
        tables = [bsjoin.BatchTable.build(df, on="k", unique=True) for df in frames]
        return Chain(context, rows, paths, frames, tables, step)

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

    def ours(self, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The joins by :func:`bsjoin.join`."""
        for key, indexed in zip(keys_of(count, dependent), self.indexed, strict=False):
            stream = indexed.join(stream, on={key: "k"})
        return stream

    def plain(self, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The joins as plain ones with the stored tables."""
        tables = (one.to_df(stream.sparkSession) for one in self.indexed[:count])
        return joined(keys_of(count, dependent), tables, stream)

    def theirs(self, hint: str, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
        """The joins by Spark."""
        frames = (df.hint(hint) if hint else df for df in self.frames[:count])
        return joined(keys_of(count, dependent), frames, stream)

    def run(self, name: str, way: Join, files: Path, warm: int, batches: int) -> Times:
        """A stream through one way: the durations of its last micro-batches."""
        schema = ", ".join(["id long", *(f"k{i} long" for i in range(MOST))])
        # For this run only: every other way would find the rows in memory, too.
        with in_memory(*(self.frames if name == PERSISTED else ())):
            stream = file_stream(self.context.spark, schema, files, FILES)
            query = run_stream(way(stream), warm + batches)
        done = [p.durationMs for p in query.recentProgress if p.numInputRows][warm:][:batches]
        return {name: [one[of] for one in done] for name, of in _DURATIONS.items()}


def keys_of(count: int, dependent: bool) -> list[str]:
    """The keys of the joins of a chain."""
    return [f"a{i - 1}" if dependent and i else f"k{i}" for i in range(count)]


def joined(keys: Sequence[str], tables: Iterable[DataFrame], stream: DataFrame) -> DataFrame:
    """Spark's joins of a stream with tables, each by its key ``k``."""
    for key, table in zip(keys, tables, strict=True):
        other = table.withColumnRenamed("k", "_k")
        stream = stream.join(other, F.col(key) == F.col("_k")).drop("_k")
    return stream


def columns_of(count: int) -> list[str]:
    """The columns of a stream after so many joins."""
    return ["id", *(f"k{i}" for i in range(MOST)), *(f"{x}{i}" for i in range(count) for x in "at")]


def check_answered(count: int, df: DataFrame) -> None:
    """See that the index answers the joins of a query.

    Raises:
        AssertionError: it does not answer all of them.
    """
    plan = df._jdf.queryExecution().executedPlan().toString()
    if plan.count("BsjoinLookup") < count:
        raise AssertionError(f"of {count} joins some are not answered by the index:\n{plan}")


@dataclass(frozen=True)
class Shape:
    """Joins with so many tables of a chain, whose keys may come from the table before."""

    chain: Chain
    count: int
    dependent: bool

    def sample(self, files: Path) -> DataFrame:
        """The first rows of a stream."""
        return self.chain.context.spark.read.parquet(str(files / "0000-0.parquet"))

    def ways(self, *names: str) -> dict[str, Join]:
        """Ways by their names: all joins by bsjoin, plain ones, or Spark's."""
        hints = {CHOSEN: "", PERSISTED: "broadcast", MERGE: "merge"}
        found: dict[str, Join] = {}
        for name in names:
            if name in hints:
                how: Callable[..., DataFrame] = partial(self.chain.theirs, hints[name])
            else:
                how = self.chain.plain if name.startswith(PLAIN) else self.chain.ours
            found[name] = partial(how, self.count, self.dependent)
        return found


def measure(
    context: Context,
    shapes: Mapping[str, tuple[Shape, Mapping[str, Join]]],
    plan: Sequence[tuple[int, int]],
    settings: Mapping[str, Mapping[str, str]],
    compiled: Collection[str],
) -> Streams:
    """The times of every shape and way, turn by turn, beside those without a join.

    Args:
        context: of the benchmark.
        shapes: by name the joins, and the ways to carry them out.
        plan: of each turn the micro-batches of warm-up, and those that are counted.
        settings: of the session, by way.
        compiled: the ways that are compiled once and take milliseconds, so that they need all of
            the warm-up.
    """
    needed, found = max(map(sum, plan)) + 4, Streams()  # some run before the query is stopped
    chains = {id(shape.chain): shape.chain for shape, _ in shapes.values()}
    files = {key: chain.files(needed) for key, chain in chains.items()}
    for turn, (warm, batches) in enumerate(plan):
        none = {
            key: chain.run(NO_JOIN, lambda df: df, files[key], warm, batches)
            for key, chain in chains.items()
        }
        for label, (shape, ways) in shapes.items():
            key = id(shape.chain)
            ran = {NO_JOIN: none[key]}
            for name in rotated(ways, turn):
                short = warm if name in compiled else min(warm, 5)
                with configured(context.spark, settings.get(name, {})):
                    ran[name] = shape.chain.run(name, ways[name], files[key], short, batches)
            for name, times in ran.items():
                for what, ms in times.items():
                    found.setdefault(label, {}).setdefault(name, {}).setdefault(what, []).extend(ms)
                told = "  ".join(f"{k} {statistics.median(v):6.1f}" for k, v in times.items())
                context.say(f"  {label:<42} {name:<28} {told}")
    return found


def shown(title: str, streams: Streams, warm: int) -> Table:
    """The medians of every shape and way, after so many micro-batches of warm-up."""
    rows: list[dict[str, Any]] = [
        {"joins": shape, "way": name}
        | {f"{what}, ms": statistics.median(ms) for what, ms in times.items()}
        for shape, by in streams.items()
        for name, times in by.items()
    ]
    note = (
        f"Medians of micro-batches of {BATCH:,} rows in {FILES} Parquet files, after {warm} of "
        "warm-up. The ways take turns. Planning is Spark's queryPlanning, a part of the trigger. "
        "After few micro-batches the JVM has compiled little: only full sizes tell what a long "
        "stream has."
    )
    table = Table.of(title, rows, note)
    for what in ("addBatch, ms", "trigger, ms"):
        table = table.drawn("bars", "joins", what, by="way", title=what, yscale="log")
    return table
