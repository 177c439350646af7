"""Tables 6 to 8 of the paper: throughput and latency of ways to search, by workers and table size.

:mod:`benchmarks.ranges.searching` has the ways; beside them stands bsjoin's join as a whole. A
micro-batch of so many partitions keeps so many Python workers busy.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.data.ranges import SEED, Case, stored
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.session import add_batch_ms
from benchmarks.ranges.picture import draw_rates
from benchmarks.ranges.searching import (
    DIRECTORY,
    FLAT_MAP,
    JOIN,
    LOOP,
    RANDOM,
    SORTED,
    answering,
    prepare,
)
from benchmarks.ranges.streams import probes

__all__ = ["DIRECTORY", "FLAT_MAP", "JOIN", "LOOP", "RANDOM", "SORTED", "figures", "measure", "run"]

_WAYS = (FLAT_MAP, LOOP, RANDOM, SORTED, DIRECTORY)
_SLOW = (FLAT_MAP, LOOP)

# Tables 6 to 8: thousand rows per second, by rows of the table and TaskManagers.
PAPERS_RATES = {
    FLAT_MAP: {21: (16.32, 72.09, 187.28), 22: (14.59, 69.91, 176.08), 23: (12.43, 58.38, 168.77)},
    RANDOM: {21: (65.71, 186.19, 447.82), 22: (62.00, 173.45, 419.77), 23: (55.66, 161.40, 382.11)},
    SORTED: {21: (87.33, 233.85, 506.02), 22: (81.59, 213.22, 476.40), 23: (74.71, 193.89, 442.76)},
}


def run(context: Context) -> Outcome:
    """Measure; quick: 2^16 rows and two workers instead of 2^21 to 2^23 and one and two."""
    quick = context.quick
    context.say("Ways to search, by workers and table size (Tables 6 to 8)")
    found = measure(
        context.spark,
        [1 << exponent for exponent in ((16,) if quick else (21, 22, 23))],
        [2] if quick else [1, 2],
        context.data,
        batch=10_000 if quick else 50_000,
        small=5_000,
        batches=4 if quick else 6,
        seed=context.seed,
        say=context.say,
    )
    pictures = []
    if len(found[JOIN]) > 1:
        pictures.append(context.out / "range-tables.png")
        draw_rates(found, pictures[0])
    rows = tuple(
        (way, size, many, one["rate"] / 1e3, one["latency_ms"])
        for way, by_size in found.items()
        for size, by_workers in by_size.items()
        for many, one in by_workers.items()
    )
    ours = Table(
        "Ways to search in Spark (as Tables 6 to 8)",
        ("way", "rows", "workers", "thousand rows/s", "ms"),
        rows,
        "Milliseconds of a micro-batch of 5,000 rows; the query per record is asked in the "
        "worker's own process, so no network slows it down as in the paper.",
    )
    return Outcome(figures(found, quick=quick), [ours, _papers()], pictures, found)


def _papers() -> Table:
    rows = tuple(
        (way, f"2^{exponent}", *rates)
        for way, by_size in PAPERS_RATES.items()
        for exponent, rates in by_size.items()
    )
    columns = ("way", "rows", *(f"{many} TaskManagers" for many in (8, 32, 128)))
    return Table("The paper's Tables 6 to 8: thousand rows/s", columns, rows, "Flink, a cluster.")


def measure(
    spark: SparkSession,
    sizes: list[int],
    workers: list[int],
    folder: Path,
    batch: int,
    small: int,
    batches: int,
    seed: int = SEED,
    ways: tuple[str, ...] = (*_WAYS, JOIN),
    say: Callable[[str], None] = print,
) -> dict[str, dict[int, dict[int, Any]]]:
    """Throughput and latency of every way.

    Args:
        spark: the session.
        sizes: rows of the table.
        workers: how many workers share a micro-batch.
        folder: for the data.
        batch: rows of the micro-batches in which throughput is measured.
        small: rows of those in which latency is.
        batches: how many of each.
        seed: of table and stream.
        ways: which are timed; all are checked.
        say: prints one line.

    Returns:
        By way, size and workers: ``rate``, rows per second, and ``latency_ms``, the median
        ``addBatch``; with ``rates`` and ``latencies_ms`` of all micro-batches.
    """
    found: dict[str, dict[int, dict[int, Any]]] = {way: {} for way in ways}
    for size in sizes:
        case = Case(
            name="search", kind="band", rows=size, probes=1_000, keys=1_500, width_s=3_600,
            seed=seed,
        )  # fmt: skip
        place = folder / "ranges" / f"search-{size}-{seed}"
        prepare(case, place)
        table = spark.read.parquet(str(stored(case, folder)[0]))
        joins = {way: answering(way, case, place) for way in _WAYS}
        indexed = bsjoin.BatchTable.build(table, on=case.on, when=case.when)
        joins[JOIN] = lambda stream, case=case, t=indexed: t.join(  # type: ignore[misc]
            stream, case.on, when=case.when, select=["v"]
        ).select("id", "v")
        _check(spark, case, joins)
        for many in workers:
            for way in ways:
                slow = way in _SLOW
                one = _one(spark, case, joins[way], many, batch, small, batches, slow=slow)
                found[way].setdefault(size, {})[many] = one
                say(
                    f"  {size:>10,} rows  {many} worker{'s' if many > 1 else ' '}  {way:<24} "
                    f"{one['rate'] / 1e3:8.1f} K rows/s   {one['latency_ms']:7.1f} ms"
                )
    return found


def _one(
    spark: SparkSession,
    case: Case,
    join: Callable[[DataFrame], DataFrame],
    workers: int,
    batch: int,
    small: int,
    batches: int,
    *,
    slow: bool,
) -> dict[str, Any]:
    def timed(rows: int, many: int, warm_up: int) -> list[float]:
        return add_batch_ms(
            spark,
            lambda numbers: join(probes(numbers, "value", case)),
            lambda: _numbers(spark, rows, workers),
            batches=many,
            warm_up=warm_up,
        )

    large = timed(batch, max(2, batches // 3) if slow else batches, 1 if slow else 2)
    latencies = timed(small, batches, 3)
    rates = [batch / ms * 1e3 for ms in large]
    return {
        "rate": statistics.median(rates),
        "latency_ms": statistics.median(latencies),
        "rates": rates,
        "latencies_ms": latencies,
    }


def _numbers(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", partitions)
        .load()
    )


def _check(
    spark: SparkSession, case: Case, joins: dict[str, Callable[[DataFrame], DataFrame]]
) -> None:
    """All ways answer the same before any is timed."""
    stream = probes(spark.range(2_000), "id", case)
    answers = {way: sorted(map(tuple, join(stream).collect())) for way, join in joins.items()}
    for way, answer in answers.items():
        if answer != answers[JOIN]:
            raise AssertionError(f"{case.rows} rows: {way} and {JOIN} answer differently")


def figures(measured: dict[str, dict[int, dict[int, Any]]], *, quick: bool) -> list[Figure]:
    """What the paper says of its tables: sorted before random, two times a query per record.

    Nothing is promised for quick sizes: what Spark takes for a micro-batch outweighs the search.
    """
    places = [(size, many) for size, by in measured[SORTED].items() for many in by]

    def ratio(name: str, above: str, below: str, bound: float, paper: str = "") -> Figure:
        ratios = [measured[above][s][m]["rate"] / measured[below][s][m]["rate"] for s, m in places]
        spread = min(ratios), max(ratios)
        if len(ratios) == 1:  # that of micro-batches instead
            ((size, many),) = places
            ours, theirs = (measured[way][size][many]["rates"] for way in (above, below))
            spread = min(ours) / max(theirs), max(ours) / min(theirs)
        value, promised = statistics.median(ratios), None if quick else bound
        return Figure(f"rows/s, {name}", value, promised, False, spread, paper)

    def papers(above: str, below: str) -> str:
        ratios = [
            one / other
            for exponent, rates in PAPERS_RATES[above].items()
            for one, other in zip(rates, PAPERS_RATES[below][exponent], strict=True)
        ]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"

    random, flat = papers(SORTED, RANDOM), papers(SORTED, FLAT_MAP)
    return [
        ratio("sorted / random skip list", SORTED, RANDOM, 1.0, f"{random}, Tables 7 and 8"),
        ratio(
            "sorted skip list / query per record", SORTED, FLAT_MAP, 2.0, f"{flat}, Tables 6 and 8"
        ),
        ratio("bsjoin.join / query per record", JOIN, FLAT_MAP, 2.0),
        ratio("bsjoin's directory / sorted skip list", DIRECTORY, SORTED, 1.0),
    ]
