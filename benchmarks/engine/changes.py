"""Tables that change: applying, look-ups through layers, opening the next version, and lag."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import parquet
from benchmarks.data.tables import row_of, scattered, table
from benchmarks.engine.full_cache import COLUMNS
from benchmarks.harness.machine import anonymous_bytes, cpu_s
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, consume, fingerprint, in_runtime, rate_stream, running
from benchmarks.harness.timing import (
    Times,
    alternate,
    check_equal,
    compare,
    median_of,
    outcome,
    ratio,
    seconds_of,
)
from bsjoin.storage import StorageLocation, versions
from bsjoin.storage.open_table import OpenTable

_BOUNDS = {"jvm": (1.10, 1.15), "python": (1.20, 1.20)}  # one layer, a tenth of it ten times
_FEW = 100  # rows
_RETAIN = "1 second"
# Each 64th call removes old versions: until then there are so many, and those of the last second.
_CALLS_UNTIL_VACUUM = 64
_MOST_FILES = 400  # of data: five or so of each version, and the base
_PATIENCE_S = 300  # a table that is read whole rests for some time
_OPS = "CASE WHEN place % 10 = 0 THEN 'delete' ELSE 'upsert' END"
_NOTE = (
    "Of the changes eight in ten are updates, one is a delete and one an insert. CPU is that of "
    "the driver, its JVM and all workers. A publication waits 40 ms until its version is active."
)


def run(context: Context) -> Outcome:
    """All parts; quick: 200,000 rows, not 5 million."""
    rows = context.pick(200_000, 5_000_000)
    parts = {"apply": _applied, "few": _few, "join": _looked_up, "open": _opened, "lag": _lag}
    return Outcome.of({name: part(context, rows) for name, part in parts.items()})


def changed(spark: SparkSession, rows: int, many: int, seed: int) -> DataFrame:
    """Changes of a table of :func:`benchmarks.data.tables.table`, each row once."""
    place = F.col("id")
    # Steps over the whole table; new keys stand between the last old one and twice as many.
    old = F.pmod(place * (rows // many) + seed, F.lit(rows))
    key = F.when(place % 10 == 1, rows + old).otherwise(old)
    made = spark.range(0, many, 1, 2).select(key.alias("k"), place.alias("place"))
    _, name = row_of(F.col("k"))
    return made.select("k", (F.col("k") + seed).alias("amount"), name, F.expr(_OPS).alias("op"))


def after(before: DataFrame, changes: DataFrame) -> DataFrame:
    """The rows that there are after some changes, as Spark makes them."""
    kept = before.join(changes, "k", "left_anti").select("k", "amount", "name")
    return kept.union(changes.where("op <> 'delete'").select("k", "amount", "name"))


@contextmanager
def _built(context: Context, rows: int) -> Iterator[bsjoin.BatchTable]:
    """A table, below a folder that is removed afterwards."""
    df = table(context.spark, rows, context.data)
    with tempfile.TemporaryDirectory() as out:
        yield bsjoin.BatchTable.build(df, on="k", unique=True, path=f"{out}/table")


def _applied(context: Context, rows: int) -> Outcome:
    """1 % of the rows, first and again, beside a build, and that beside Spark's own writing."""
    spark, rounds, many = context.spark, context.pick(1, 3), rows // 100
    sorting = "Spark sort and Parquet"
    df = table(spark, rows, context.data)
    sets = []
    for seed in (1, 2):
        path = str(context.data / f"changes-{rows}-{seed}")
        changed(spark, rows, many, seed).write.mode("overwrite").parquet(path)
        sets.append(spark.read.parquet(path))
    right = fingerprint(after(after(df, sets[0]), sets[1]), ["k", "amount", "name"])
    times: dict[str, list[tuple[float, float]]] = {}

    def timed(name: str, call: Callable[[], object]) -> None:
        began = cpu_s()
        seconds = seconds_of(call)
        times.setdefault(name, []).append((seconds, cpu_s() - began))

    for number in range(rounds + 1):  # the first one warms up
        if number == 1:
            times.clear()
        with tempfile.TemporaryDirectory() as out:
            sort = df.sort("k").write
            timed(sorting, partial(sort.parquet, f"{out}/sorted"))
            build = partial(bsjoin.BatchTable.build, df, on="k", unique=True, path=f"{out}/table")
            timed("build", build)
            built = bsjoin.BatchTable.open(f"{out}/table")
            for name, changes in zip(("apply 1 %", "apply 1 % again"), sets, strict=True):
                timed(name, partial(built.apply, changes))
            if not number:
                found = fingerprint(built.to_df(spark), ["k", "amount", "name"])
                check_equal({"a build": right, "apply": found})
            timed("compact", built.compact)
    by_kind = {
        kind: {name: [one[at] for one in found] for name, found in times.items()}
        for at, kind in enumerate(("wall", "CPU"))
    }
    # A small table's build is the start of a Spark job, and so is the least that apply costs.
    figures = [
        ratio(f"{kind}, {shown} / {other}, {rows:,} rows", by[name], by[below], bound, at_most=True)
        for name, shown, below, other, bound in (
            ("apply 1 %", "apply 1 %", "build", "build", 0.10),
            ("apply 1 % again", "apply 1 % again", "build", "build", 0.10),
            ("compact", "compact", "build", "build", None),
            ("build", "build of the first version", sorting, "Spark's sort and Parquet", 1.0),
        )
        for kind, by in by_kind.items()
    ]
    return outcome(f"Changes of 1 % of {rows:,} rows", by_kind, figures, _NOTE)


def _few(context: Context, rows: int) -> Outcome:
    """100 rows at a time, many times: seconds, files, and memory of the driver.

    Versions are kept as short as somebody does who applies changes all the time.
    """
    spark, times = context.spark, context.pick(5, 1_000)
    tenth = max(1, times // 10)
    with _built(context, rows) as built:
        draw = np.random.default_rng(context.seed)
        seconds, memory, files = [], [], []
        for number in range(times):
            keys = draw.choice(2 * rows, _FEW, replace=False)
            names = pa.array(["changed"] * _FEW)
            changes = pa.table({"k": keys, "amount": keys + number, "name": names})
            apply = partial(built.apply, retain=_RETAIN)
            seconds.append(seconds_of(apply, spark.createDataFrame(changes)))
            memory.append(anonymous_bytes())
            if number == times - 1 or number % _CALLS_UNTIL_VACUUM == _CALLS_UNTIL_VACUUM - 2:
                data = Path(built.path, "data")
                files.append(sum(path.is_file() for path in data.rglob("*")))
        layers = len(versions.latest(StorageLocation.of(built.path)).layers)
        last = {"k": keys.tolist(), "amount": (keys + number).tolist()}
        found = built.to_df(spark).where(F.col("k").isin(last["k"])).select("k", "amount")
        check_equal({"given": sorted(zip(*last.values(), strict=True)),
                     "found": sorted(tuple(row) for row in found.collect())})  # fmt: skip
    middle, mean, grown = (
        statistics.median(seconds), statistics.fmean(seconds), memory[-1] / memory[tenth - 1]
    )  # fmt: skip
    applies = f"{times:,} applies"
    figures = [
        Figure(name, value, bound, at_most=True, unit=unit)
        for name, value, bound, unit in (
            (f"apply of {_FEW} rows, {rows:,} rows", middle, 0.3, "s"),
            (f"mean of {applies} of {_FEW} rows", mean, 0.3, "s"),
            (f"data files at most, {applies}", max(files), _MOST_FILES, "files"),
            (f"layers after {applies}", layers, None, "layers"),
            (f"driver's memory after {applies} / after {tenth:,}", grown, 1.1, ""),
        )
    ]
    return Outcome(figures, measured={"seconds": seconds, "memory": memory, "files": files})


def _looked_up(context: Context, rows: int) -> Outcome:
    """The base alone, one layer of 1 %, and ten of 0.1 %: all rows of a stream at once.

    The tenths are applied to a copy of the table, and compared with the base of that: copies of a
    file lie in other pages of the machine's memory, and take up to a tenth more or less.
    """
    spark, many, rounds = context.spark, *context.pick((500_000, 2), (20_000_000, 9))
    key = scattered(F.col("id"), rows, context.seed)
    probes = spark.range(0, many, 1, 4).select(key.alias("k"), "id")
    stream = parquet(context.data / f"probes-{rows}-{many}-{context.seed}", probes)
    figures, df = [], table(spark, rows, context.data)
    measured: dict[str, Times] = {}
    with _built(context, rows) as once:
        ten = bsjoin.BatchTable.open(shutil.copytree(once.path, Path(once.path).with_name("ten")))
        tables = {"one layer": once, "ten applies": ten}
        bases, layered = (dict[str, dict[str, DataFrame]]() for _ in range(2))
        for runtime in _BOUNDS:
            bases[runtime] = {
                f"base of {name}": in_runtime(runtime, one.join)(stream)
                for name, one in tables.items()
            }
        changes = changed(spark, rows, rows // 100, 1)
        once.apply(changes)
        for part in range(10):
            ten.apply(changes.where(F.pmod(F.xxhash64("k"), F.lit(10)) == part))
        right = fingerprint(stream.join(after(df, changes), "k"), COLUMNS)
        for runtime, bounds in _BOUNDS.items():
            layered[runtime] = {
                name: in_runtime(runtime, one.join)(stream) for name, one in tables.items()
            }
            answers: dict[str, Callable[[], object]] = {"Spark's join": lambda: right} | {
                name: partial(fingerprint, one, COLUMNS) for name, one in layered[runtime].items()
            }
            runs = {
                name: partial(consume, one)
                for name, one in (bases[runtime] | layered[runtime]).items()
            }
            _, seconds = compare(context, runtime, answers, runs, rounds)
            measured[runtime] = seconds
            for name, bound in zip(tables, bounds, strict=True):
                label = f"join, {runtime}: {name} / base alone, {rows:,} rows"
                base = seconds[f"base of {name}"]
                figures.append(ratio(label, seconds[name], base, bound, at_most=True))
    return Outcome(figures, measured=measured)


def _opened(context: Context, rows: int) -> Outcome:
    """A process opens the next version, 1 % changed, beside the base."""
    with _built(context, rows) as built:
        built.apply(changed(context.spark, rows, rows // 100, 1))
        location = StorageLocation.of(built.path)
        first, second = (versions.load(location, number) for number in (1, 2))
        base = OpenTable(location, first)
        times = alternate(
            {
                "base": partial(seconds_of, OpenTable, location, first),
                "next version": partial(seconds_of, OpenTable, location, second, [base]),
            },
            context.pick(3, 31),  # of some milliseconds
        )
    name = f"opening the next version, 1 % changed / the base, {rows:,} rows"
    figure = ratio(name, times["next version"], times["base"], 0.1, at_most=True)
    return Outcome([figure], measured=times)


def _lag(context: Context, rows: int) -> Outcome:
    """From a commit to a joined row, at a commit a second: a stream asks for one key all the time.

    The time begins before a commit is written. One in Parquet is a folder of files with one row,
    and whoever has written it calls ``apply``. A table of Delta is followed: its writer does
    nothing for it.
    """
    figures, measured = [], dict[str, list[float]]()
    for what, part, commits in (
        ("a commit in Parquet", _in_parquet, context.pick(1, 60)),
        (f"a Delta commit, {rows:,} rows,", _in_delta, context.pick(2, 60)),
    ):
        lags = measured[what] = part(context, rows, commits)
        name, late = f"lag from {what} to a joined row, one a second", np.quantile(lags, 0.95)
        figures += [
            median_of(f"{name}, p50", lags, 2.0, unit="s"),
            Figure(f"{name}, p95", float(late), at_most=True, unit="s"),
        ]
    return Outcome(figures, measured=measured)


def _in_parquet(context: Context, rows: int, commits: int) -> list[float]:
    """The lags of commits in Parquet."""
    spark = context.spark
    with _built(context, rows) as built:
        commits_in = Path(built.path).with_name("commits")

        def commit(number: int) -> None:
            change = spark.range(1).selectExpr("id AS k", f"{number}L AS amount", "'x' AS name")
            change.write.parquet(f"{commits_in}/{number}")
            built.apply(spark.read.parquet(f"{commits_in}/{number}"))

        return _lags(spark, partial(built.join, select=["amount"]), commit, commits)


def _in_delta(context: Context, rows: int, commits: int) -> list[float]:
    """The lags of commits to a table of Delta with a change data feed, written by deltalake."""
    # The writer is to use little of the time: it reads and writes one partition.
    df = table(context.spark, rows, context.data).withColumn("changes", F.expr("k < 100"))
    with tempfile.TemporaryDirectory() as out:
        deltalake.write_deltalake(
            out, df.toArrow(), partition_by="changes",
            configuration={"delta.enableChangeDataFeed": "true"},
        )  # fmt: skip
        written = deltalake.DeltaTable(out)
        source = bsjoin.sources.delta(out, unique=True)
        cache = bsjoin.Full(refresh="on_commit")

        def join(stream: DataFrame) -> DataFrame:
            return bsjoin.join(stream, source, "k", select=["amount"], cache=cache)

        def commit(number: int) -> None:
            written.update(updates={"amount": f"{number}"}, predicate="changes AND k = 0")

        return _lags(context.spark, join, commit, commits)


def _lags(
    spark: SparkSession, join: Join, commit: Callable[[int], None], commits: int
) -> list[float]:
    """Seconds from each commit, one a second, to a row that a stream has joined with it.

    ``join`` returns the column ``amount``; ``commit`` gives the key 0 an amount, which is 0 before.
    """
    committed: dict[int, float] = {}
    seen: dict[int, float] = {}

    def note(batch: DataFrame, _: int) -> None:
        newest = batch.agg(F.max("amount")).first()
        if newest is not None and newest[0] is not None:
            seen.setdefault(int(newest[0]), time.perf_counter())

    stream = rate_stream(spark, 10, 1).select(F.lit(0).cast("long").alias("k"))
    writer = join(stream).writeStream.foreachBatch(note)
    with running(writer.trigger(processingTime="0 seconds")):
        _soon(lambda: 0 in seen)
        for number in range(1, commits + 1):
            committed[number] = begun = time.perf_counter()
            commit(number)
            time.sleep(max(0.0, begun + 1 - time.perf_counter()))
        _soon(lambda: commits in seen)
    # One that another overtook is seen with that.
    return [
        min(at for other, at in seen.items() if other >= number) - at_commit
        for number, at_commit in committed.items()
    ]


def _soon(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > limit:
            raise RuntimeError(f"no such row of the stream came within {_PATIENCE_S} s")
        time.sleep(0.01)
