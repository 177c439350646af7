"""What the flights example measures: beside Spark's own join, under skew, with new versions."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import _support
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import bsjoin

Join = Callable[[DataFrame], DataFrame]
Read = Callable[[], DataFrame]

_WARM_UP, _PARTITIONS = 2, 4
_BUILT_BEFORE, _BY_STEP = (1995, 2003, None), 3  # the planes of each version, and its micro-batches
_DAY = ["tailnum", "month", "day"]


def write_logbook(spark: SparkSession, planes: DataFrame, folder: Path) -> DataFrame:
    """A large table: for each plane and day of the year the hours that it has flown (made up)."""
    days = spark.sql("SELECT explode(sequence(date'2013-01-01', date'2013-12-31')) AS date")
    planes.select("tailnum").crossJoin(days).select(
        "tailnum",
        F.month("date").cast("long").alias("month"),
        F.day("date").cast("long").alias("day"),
        F.pmod(F.xxhash64("tailnum", "date"), F.lit(90_000)).alias("hours_flown"),
    ).write.parquet(str(folder))
    return spark.read.parquet(str(folder))


def ways(
    names: Join, tables: dict[str, DataFrame], logbook: DataFrame
) -> dict[str, dict[str, Join]]:
    """By kind of table: the same join by bsjoin, by Spark, and none.

    Args:
        names: joins flights with airlines, planes and airports by bsjoin.
        tables: these three.
        logbook: the large table.
    """
    indexed = bsjoin.BatchTable.build(logbook, on=_DAY)
    return {
        "Three small tables": {
            "Spark's own join": lambda flights: spark_names(flights, tables),
            "bsjoin": names,
            "no join": lambda flights: flights,
        },
        f"One table of {logbook.count():,} rows": {
            "Spark's own join": lambda flights: flights.join(logbook, _DAY, "left"),
            "bsjoin": lambda flights: indexed.join(flights, how="left"),
            "no join": lambda flights: flights,
        },
    }


def spark_names(flights: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """The three joins by equality as Spark carries them out, with the same columns."""
    planes = tables["planes"].select(
        "tailnum", F.col("year").alias("year_built"), "manufacturer", "model", "seats"
    )
    airports = tables["airports"].select(
        F.col("faa").alias("dest"), F.col("name").alias("name_dest"), "lat", "lon"
    )
    named = flights.join(tables["airlines"], "carrier")
    return named.join(planes, "tailnum", "left").join(airports, "dest", "left")


def costs(found: dict[str, dict[str, Join]], read: Read) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each micro-batch with and without each join; prints their medians."""
    measured: dict[str, dict[str, list[float]]] = {}
    for table, joins in found.items():
        measured[table] = {
            name: _support.trigger_ms(_support.discard(join(read())))
            for name, join in joins.items()
        }
    print("\nWhat a micro-batch costs, median:")
    for table, by_way in measured.items():
        told = ", ".join(
            f"{way} {statistics.median(ms[_WARM_UP:] or ms):,.0f} ms" for way, ms in by_way.items()
        )
        print(f"  {table}: {told}")
    return measured


def same_rows(found: dict[str, dict[str, Join]], flights: DataFrame) -> bool:
    """Whether bsjoin and Spark return the same rows, each counted and hashed."""
    figures = {}
    for table, joins in found.items():
        spark, ours = (_fingerprint(joins[way](flights)) for way in ("Spark's own join", "bsjoin"))
        figures |= {f"{table}: rows": (spark[0], ours[0]), f"{table}: hashes": (spark[1], ours[1])}
    return _support.checks(figures, by="Spark's own join")


def _fingerprint(rows: DataFrame) -> tuple[int, int]:
    """How many rows there are, and a hash that does not depend on the order of rows or columns."""
    hashed = F.xxhash64(*sorted(rows.columns)).cast("decimal(38,0)")
    first = rows.agg(F.count(F.lit(1)), F.sum(hashed)).first()
    assert first is not None
    return int(first[0]), int(first[1] or 0) % 10**9


def skew(
    stream: DataFrame, airlines: DataFrame
) -> tuple[bsjoin.PartitionProgress, bsjoin.PartitionProgress]:
    """Join with evenly loaded partitions; the first micro-batch's partitions and the last's."""
    partition = bsjoin.HotSpot(partitions=_PARTITIONS)
    joined = bsjoin.join(stream, airlines, on="carrier", partition=partition)
    query = _support.discard(joined)
    layouts = [
        cycle.partition for cycle in bsjoin.progress(query) if cycle.rows_in and cycle.partition
    ]
    before, after = layouts[0], layouts[-1]
    print(
        f"\nSkew of {_PARTITIONS} partitions by carrier, DS: {before.skew or 0:.2f} by hash, "
        f"{after.skew or 0:.2f} by the rule of the last micro-batch."
    )
    return before, after


def versions(
    planes: DataFrame, read: Callable[[Path], DataFrame], files: list[Path], out: Path
) -> list[bsjoin.CycleProgress]:
    """Refresh a table twice while a stream is joined with it; the figures of each micro-batch.

    Args:
        planes: the whole table; its first versions have only planes that are older.
        read: makes a stream of the files of a folder, one a micro-batch.
        files: of flights, in their order.
        out: where the table and the files that have arrived go.
    """
    arrived = out / "arrived"
    arrived.mkdir()
    states = [planes.where(f"year < {year}") if year else planes for year in _BUILT_BEFORE]
    steps = [files[i : i + _BY_STEP] for i in range(0, _BY_STEP * len(states), _BY_STEP)]
    deliver(steps[0], arrived)
    table = bsjoin.BatchTable.build(states[0], on="tailnum", path=str(out / "planes"))
    joined = table.join(read(arrived), how="left", select=["manufacturer"])
    query = joined.writeStream.format("noop").start()
    try:
        query.processAllAvailable()
        for state, step in zip(states[1:], steps[1:], strict=True):
            table.refresh(state)
            deliver(step, arrived)
            query.processAllAvailable()
        cycles = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
    finally:
        query.stop()
    used = ", ".join(f"{cycle.batch_id}: {cycle.table_version}" for cycle in cycles)
    print(f"\nMicro-batch: version of the table of planes that it used: {used}")
    return cycles


def expected_hits(flights: pd.DataFrame, micro_batches: int) -> list[int]:
    """How many flights of each micro-batch of :func:`versions` have a plane, by pandas."""
    found: list[int] = []
    planes = _support.flown("planes")
    for number in range(micro_batches):
        year = _BUILT_BEFORE[number // _BY_STEP]
        known = planes[planes.year < year] if year else planes
        rows = flights.iloc[number * 10_000 : (number + 1) * 10_000]
        found.append(int(rows.tailnum.isin(known.tailnum).sum()))
    return found


def deliver(files: list[Path], folder: Path) -> None:
    """Let files arrive in a folder, with their times."""
    for file in files:
        shutil.copy2(file, folder / f".{file.name}")
        (folder / f".{file.name}").rename(folder / file.name)
