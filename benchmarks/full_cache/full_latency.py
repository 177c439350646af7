"""The time of a micro-batch of 10,000 rows by the size of the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.functions import arrow_udf

import bsjoin
from benchmarks import charts
from benchmarks.data.tables import micro_batches, scattered, table
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import AQE, Join, fingerprint, persisted, time_batches
from benchmarks.harness.timing import check_equal

NO_JOIN, IDENTITY, OURS = "no join", "identity arrow_udf", "bsjoin"
AQE_ON, AQE_OFF, BROADCAST = "Spark, AQE on", "Spark, AQE off", "Spark, persisted broadcast"

ROWS = 10_000
_BROADCAST_ROWS = 2_000_000  # a larger table takes seconds and gigabytes in every micro-batch
_FLAT = "times per 10,000 rows stay flat while the table grows, Fig. 9(b)"

Times = dict[str, dict[int, list[list[float]]]]
"""Milliseconds of micro-batches, by way, rows of the table, and round."""


def identity(keys: pa.Array) -> pa.Array:
    """The keys."""
    return keys


def with_identity(stream: DataFrame) -> DataFrame:
    """The stream with a column ``i``: its keys, through Python."""
    return stream.withColumn("i", arrow_udf(identity, "long")("k"))


def run(context: Context) -> Outcome:
    """Measure; quick: tables of 100,000 and 500,000 rows, few micro-batches."""
    sizes = context.pick([100_000, 500_000], [100_000, 1_000_000, 10_000_000])
    times = _measure(context, sizes)
    medians = {
        way: {size: _median(rounds) for size, rounds in by_size.items()}
        for way, by_size in times.items()
    }
    rows = [
        {"way": way} | {f"ms, table of {size:,}": by.get(size) for size in sizes}
        for way, by in medians.items()
    ]
    title = f"Micro-batches of {ROWS:,} rows: median addBatch by rows of the table"
    picture = context.out / "full-latency.svg"
    _draw(medians, sizes, picture)
    return Outcome(_figures(times), [Table.of(title, rows)], [picture], times)


def _measure(context: Context, sizes: list[int]) -> Times:
    """All ways in each round, for every size of the table; then Spark's broadcast alone."""
    spark, rounds = context.spark, 2
    batches, warm_up = context.pick((4, 3), (15, 8))
    tables = {size: table(spark, size, context.data) for size in sizes}
    indexed = {size: bsjoin.BatchTable.build(df, on="k") for size, df in tables.items()}
    ways: dict[str, Callable[[int], Join]] = {
        NO_JOIN: lambda _: lambda stream: stream,
        IDENTITY: lambda _: with_identity,
        OURS: lambda size: lambda stream: indexed[size].join(stream, "k"),
        AQE_ON: lambda size: lambda stream: stream.join(tables[size], "k"),
        AQE_OFF: lambda size: lambda stream: stream.join(tables[size], "k"),
    }
    for size in sizes:
        sample = spark.range(50_000).select(
            scattered(F.col("id"), size * 2, context.seed).alias("k"), "id"
        )
        columns = ["k", "id", "amount", "name"]
        check_equal({n: fingerprint(ways[n](size)(sample), columns) for n in (OURS, AQE_ON)})

    def timed(join: Join, size: int, few: int, warm: int) -> list[float]:
        return time_batches(join(micro_batches(spark, ROWS, size, context.seed)), few, warm)

    times: Times = {name: {} for name in (*ways, BROADCAST)}
    fewer = max(3, batches // 3)
    for number in range(rounds):
        for size in sizes:
            for name, way in ways.items():
                if name in (NO_JOIN, IDENTITY) and size != sizes[-1]:
                    continue  # they never see the table
                spark.conf.set(AQE, name != AQE_OFF)
                few = fewer if name.startswith("Spark") else batches
                spent = timed(way(size), size, few, warm_up if not number else warm_up // 3)
                spark.conf.set(AQE, True)
                times[name].setdefault(size, []).append(spent)
                _say(context, size, f"{name}, round {number + 1}", spent)
    # Alone, since it fills the memory that others need.
    for size, df in tables.items():
        if size > _BROADCAST_ROWS:
            continue
        kept = persisted(df)
        try:
            spent = timed(lambda s, k=kept: s.join(F.broadcast(k), "k"), size, fewer, 2)  # type: ignore[misc]
            times[BROADCAST][size] = [spent]
            _say(context, size, BROADCAST, spent)
        except RuntimeError as error:
            context.say(f"  {size:>10,} rows  {BROADCAST}: {str(error).splitlines()[0][:60]}")
        finally:
            kept.unpersist(blocking=True)
    return times


def _say(context: Context, size: int, name: str, spent: list[float]) -> None:
    context.say(f"  {size:>10,} rows  {name:<28} {statistics.median(spent):8.1f} ms")


def _figures(times: Times) -> list[Figure]:
    """The promised ratios; that to Spark's join is 5 from 10^7 rows on."""
    sizes = sorted(times[OURS])
    small, large = sizes[0], sizes[-1]
    large_bound = 5.0 if large >= 10_000_000 else 1.0

    def ratio(
        above: tuple[str, int], below: tuple[str, int], what: str, bound: float, paper: str = ""
    ) -> Figure:
        """The ratio of all micro-batches' medians; its spread is that of the rounds' ratios."""
        a, b = (times[way][size] for way, size in (above, below))
        rounds = [statistics.median(x) / statistics.median(y) for x, y in zip(a, b, strict=True)]
        spread = (min(rounds), max(rounds))
        at_most = above[0] == OURS
        return Figure(what, _median(a) / _median(b), bound, at_most, spread, paper)

    ours, spark = (OURS, large), (AQE_ON, large)
    return [
        ratio(ours, (IDENTITY, large), f"addBatch, {OURS} / {IDENTITY}, {large:,} rows", 1.25),
        ratio(ours, (OURS, small), f"addBatch, {OURS} {large:,} / {small:,} rows", 1.15, _FLAT),
        ratio(spark, ours, f"addBatch, {AQE_ON} / {OURS}, {large:,} rows", large_bound),
        ratio((AQE_ON, small), (OURS, small), f"addBatch, {AQE_ON} / {OURS}, {small:,} rows", 1.0),
    ]


def _median(rounds: list[list[float]]) -> float:
    return statistics.median(ms for one in rounds for ms in one)


def _draw(medians: dict[str, dict[int, float]], sizes: list[int], file: Path) -> None:
    with charts.panels(file, (8, 4.8)) as (axes,):
        for way, by_size in medians.items():
            if way in (NO_JOIN, IDENTITY):  # they never see the table
                by_size = dict.fromkeys(sizes, by_size[sizes[-1]])
            color = charts.GREEN if way == BROADCAST else charts.color_of(way)
            dashed = way in (NO_JOIN, IDENTITY, AQE_OFF)
            width = 2.6 if way == OURS else 1.6
            charts.lines(
                axes,
                {way: by_size},
                color=lambda _, c=color: c,
                ls="--" if dashed else "-",
                lw=width,
            )  # type: ignore[misc]
        charts.finish(
            axes,
            "A micro-batch of 10,000 rows: its time does not depend on the table's size",
            xscale="log",
            yscale="log",
            xlabel="rows in the table",
            ylabel="addBatch, ms (median)",
        )
        charts.log_ticks(axes, "y")
