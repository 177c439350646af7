"""What a micro-batch of 10,000 rows costs, against the size of the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks.data.tables import SEED, micro_batches, scattered, table
from benchmarks.full.picture import draw
from benchmarks.harness.frames import fingerprint
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import add_batch_ms

__all__ = ["figures", "measure", "run"]

NO_JOIN, IDENTITY, OURS = "no join", "identity arrow_udf", "bsjoin"
AQE_ON, AQE_OFF, BROADCAST = "Spark, AQE on", "Spark, AQE off", "Spark, persisted broadcast"

ROWS = 10_000
AQE = "spark.sql.adaptive.enabled"
_BROADCAST_ROWS = 2_000_000
_WHY = "it is made anew in every micro-batch, which takes seconds and gigabytes"


Times = dict[str, dict[int, list[list[float]]]]
"""Milliseconds of micro-batches, by way, rows of the table, and round."""


def run(context: Context) -> Outcome:
    """Measure; quick: tables of 100,000 and 500,000 rows, few micro-batches."""
    quick = context.quick
    sizes = [100_000, 500_000] if quick else [100_000, 1_000_000, 10_000_000]
    context.say(f"Micro-batches of {ROWS:,} rows: addBatch")
    times = measure(
        context.spark,
        sizes,
        context.data,
        rounds=2,
        batches=4 if quick else 15,
        warm_up=3 if quick else 8,
        seed=context.seed,
        say=context.say,
    )
    medians = {
        way: {size: _median(rounds) for size, rounds in by_size.items()}
        for way, by_size in times.items()
    }
    picture = context.out / "full-latency.png"
    draw(medians, picture)
    rows = tuple((way, *(by_size.get(size) for size in sizes)) for way, by_size in medians.items())
    columns = ("way", *(f"ms, table of {size:,}" for size in sizes))
    title = f"Micro-batches of {ROWS:,} rows: median addBatch by rows of the table"
    return Outcome(figures(times), [Table(title, columns, rows)], [picture], times)


def measure(
    spark: SparkSession,
    sizes: list[int],
    folder: Path,
    rounds: int,
    batches: int,
    warm_up: int = 8,
    seed: int = SEED,
    say: Callable[[str], None] = print,
) -> Times:
    """Median ``addBatch`` of every way to join, for every size of the table.

    The ways take turns, ``rounds`` times, so that a change of the machine's speed meets all.

    Returns:
        ``{"no join": {size: [[ms, ...], ...]}, ...}``: the times of every round.
    """

    @arrow_udf("long")
    def identity(keys: pa.Array) -> pa.Array:
        return keys

    tables = {size: table(spark, size, folder) for size in sizes}
    indexed = {size: bsjoin.BatchTable.build(df, on="k") for size, df in tables.items()}
    for size in sizes:
        _check(spark, tables[size], indexed[size], size, seed)

    def native(size: int) -> Callable[[DataFrame], DataFrame]:
        return lambda stream: stream.join(tables[size], "k")

    ways: dict[str, tuple[Callable[[int], Callable[[DataFrame], DataFrame]], bool]] = {
        NO_JOIN: (lambda _: lambda stream: stream, True),
        IDENTITY: (
            lambda _: lambda stream: stream.withColumn("i", identity("k")),
            True,
        ),
        OURS: (lambda size: lambda stream: indexed[size].join(stream, "k"), True),
        AQE_ON: (native, True),
        AQE_OFF: (native, False),
    }
    times: Times = {name: {} for name in ways}
    for turn in range(rounds):
        for size in sizes:
            for name, (way, adaptive) in ways.items():
                if name in (NO_JOIN, IDENTITY) and size != sizes[-1]:
                    continue  # they never see the table
                few = max(3, batches // 3) if name.startswith("Spark") else batches
                spark.conf.set(AQE, adaptive)
                spent = add_batch_ms(
                    spark,
                    way(size),
                    lambda size=size: micro_batches(spark, ROWS, size, seed),  # type: ignore[misc]
                    batches=few,
                    warm_up=warm_up if turn == 0 else warm_up // 3,
                )
                spark.conf.set(AQE, True)
                times[name].setdefault(size, []).append(spent)
                median = statistics.median(spent)
                say(f"  round {turn + 1}  {size:>10,} rows  {name:<28} {median:8.1f} ms")
    times[BROADCAST] = _broadcast(spark, tables, batches, seed, say)
    return times


def _broadcast(
    spark: SparkSession,
    tables: dict[int, DataFrame],
    batches: int,
    seed: int,
    say: Callable[[str], None],
) -> dict[int, list[list[float]]]:
    """Spark's broadcast of a persisted table; apart, for it fills the memory that others need."""
    times: dict[int, list[list[float]]] = {}
    for size, df in tables.items():
        if size > _BROADCAST_ROWS:
            say(f"           {size:>10,} rows  {BROADCAST}   left out: {_WHY}")
            continue
        kept = df.persist()
        kept.count()
        try:
            spent = add_batch_ms(
                spark,
                lambda stream, kept=kept: stream.join(F.broadcast(kept), "k"),  # type: ignore[misc]
                lambda size=size: micro_batches(spark, ROWS, size, seed),  # type: ignore[misc]
                batches=max(3, batches // 3),
                warm_up=2,
            )
            times[size] = [spent]
            shown = f"{statistics.median(spent):8.1f} ms"
        except RuntimeError as error:
            shown = str(error).splitlines()[0][:60]
        finally:
            kept.unpersist(blocking=True)
        say(f"           {size:>10,} rows  {BROADCAST}   {shown}")
    return times


def _check(
    spark: SparkSession, df: DataFrame, indexed: bsjoin.BatchTable, size: int, seed: int
) -> None:
    """Both joins answer the same before either is timed."""
    sample = spark.range(50_000).select(scattered(F.col("id"), size * 2, seed).alias("k"), "id")
    columns = ["k", "id", "amount", "name"]
    ours, theirs = (
        fingerprint(j, columns) for j in (indexed.join(sample, "k"), sample.join(df, "k"))
    )
    if ours != theirs:
        raise AssertionError(f"bsjoin and Spark answer differently for a table of {size} rows")


def figures(times: Times) -> list[Figure]:
    """What the full cache has to reach (figures 1 and 2 of the design); 5 from 10^7 rows on."""
    sizes = sorted(times[OURS])
    small, large = sizes[0], sizes[-1]
    far = "times per 10,000 rows stay flat while the table grows, Fig. 9(b)"
    return [
        _ratio(
            f"addBatch, {OURS} / {IDENTITY}, {large:,} rows",
            times[OURS][large],
            times[IDENTITY][large],
            1.25,
            at_most=True,
        ),
        _ratio(
            f"addBatch, {OURS} {large:,} / {small:,} rows",
            times[OURS][large],
            times[OURS][small],
            1.15,
            at_most=True,
            paper=far,
        ),
        _ratio(
            f"addBatch, {AQE_ON} / {OURS}, {large:,} rows",
            times[AQE_ON][large],
            times[OURS][large],
            5.0 if large >= 10_000_000 else 1.0,
        ),
        _ratio(
            f"addBatch, {AQE_ON} / {OURS}, {small:,} rows",
            times[AQE_ON][small],
            times[OURS][small],
            1.0,
        ),
    ]


def _ratio(
    name: str,
    above: list[list[float]],
    below: list[list[float]],
    bound: float,
    *,
    at_most: bool = False,
    paper: str = "",
) -> Figure:
    """The ratio of all micro-batches' medians; its spread is that of the rounds' ratios."""
    rounds = [
        statistics.median(a) / statistics.median(b) for a, b in zip(above, below, strict=True)
    ]
    value = _median(above) / _median(below)
    return Figure(name, value, bound, at_most, (min(rounds), max(rounds)), paper)


def _median(rounds: list[list[float]]) -> float:
    return statistics.median(ms for one in rounds for ms in one)
