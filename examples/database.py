"""The flights of 2013 as a stream, joined with planes that stay in a database.

Nothing is loaded beforehand: SQLite is queried only for the planes in the stream, once each, and
the results stay in memory that all workers share. Watch the hit rate climb.

    python examples/database.py [--out FOLDER] [--limit FLIGHTS] [--planes ROWS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from pathlib import Path

import _support
import flights as demo
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

import bsjoin


def main() -> None:
    """Put the planes into SQLite, replay the flights, join them, show the hit rate."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    flights = _support.write_data(out, (), options.limit)
    url = fill_database(out / "planes.db")
    print(f"{len(flights):,} flights are in {out}, the planes in {url}. Starting Spark …")
    spark = demo.start_spark()
    try:
        stream = demo.read_stream(spark, out / "flights")
        query = _support.run(join(stream, url, options.planes), out)
        watch(query)
        summary(query)
        result = spark.read.parquet(str(out / "result"))
        right = check(flights, result)
    finally:
        _support.stop(spark)
    print(f"\nResult: {out / 'result'}")
    sys.exit(0 if right else 1)


def join(stream: DataFrame, url: str, max_rows: int) -> DataFrame:
    """Join the flights with their planes; this is all there is to it.

    For another database only the URL changes: `postgresql://user:password@host/database`.
    """
    planes = bsjoin.sources.sql(url, table="planes")
    return bsjoin.join(
        stream,
        planes,
        on="tailnum",
        how="left",
        select=["year", "manufacturer", "model", "seats"],
        suffix="_built",
        cache=bsjoin.Incremental(max_rows=max_rows, ttl="10 minutes"),
    )


def fill_database(file: Path) -> str:
    """Write the planes into a SQLite file; its URL."""
    planes = _support.flown("planes").convert_dtypes()
    columns = ["tailnum", "year", "manufacturer", "model", "seats"]
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE planes (tailnum TEXT PRIMARY KEY, year INTEGER, manufacturer TEXT, "
            "model TEXT, seats INTEGER)"
        )
        rows = planes[columns].astype(object).where(planes[columns].notna(), None)
        connection.executemany("INSERT INTO planes VALUES (?, ?, ?, ?, ?)", rows.to_numpy())
    connection.close()
    return f"sqlite:///{file.as_posix()}"


def watch(query: StreamingQuery) -> None:
    """Print a line per micro-batch until the query has ended."""
    print(
        f"\n{'micro-batch':>11}{'flights':>10}{'hit rate':>10}  {'':20}{'queried':>8}"
        f"{'look-ups':>10}{'median':>10}{'cached':>9}"
    )
    shown, ended = -1, False
    while not ended:
        ended = query.awaitTermination(1) or False
        for cycle in bsjoin.progress(query):
            cache = cycle.cache
            if cache is None or cycle.batch_id <= shown or not cycle.rows_in:
                continue
            shown = cycle.batch_id
            bar = "█" * round(20 * cache.hit_rate)
            print(
                f"{shown:>11}{cycle.rows_in:>10,}{cache.hit_rate:>10.1%}  {bar:<20}"
                f"{cache.keys_queried:>8,}{cache.lookups:>10}{cache.load_ms_p50:>7.1f} ms"
                f"{cache.rows:>9,}"
            )


def summary(query: StreamingQuery) -> None:
    """Print what the database was spared."""
    cycles = [c for c in bsjoin.progress(query) if c.cache is not None]
    caches = [c.cache for c in cycles if c.cache is not None]
    rows, queried = sum(c.rows_in for c in cycles), sum(c.keys_queried for c in caches)
    lookups, evicted = sum(c.lookups for c in caches), sum(c.evictions for c in caches)
    print(
        f"\n{rows:,} flights needed {queried:,} keys in {lookups} look-ups; {evicted:,} keys "
        "were evicted."
    )
    _support.speed(query)


def check(flights: pd.DataFrame, result: DataFrame) -> bool:
    """Hold the result against what pandas says it must be."""
    planes = _support.flown("planes")
    merged = flights.merge(planes, on="tailnum", how="left", suffixes=("", "_built"))
    return _support.checks(
        {
            "rows of the result": (len(merged), result.count()),
            "flights whose plane was found": (
                int(merged.model.notna().sum()),
                result.where("model is not null").count(),
            ),
            "seats of all flights": (
                int(merged.seats.sum()),
                int(result.agg({"seats": "sum"}).first()[0]),  # type: ignore[index]
            ),
        }
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/database"), metavar="FOLDER")
    parser.add_argument("--limit", type=_support.positive, metavar="FLIGHTS")
    parser.add_argument(
        "--planes",
        type=_support.positive,
        default=10_000,
        metavar="ROWS",
        help="how many rows the cache may hold (%(default)s); there are 3,322 planes",
    )
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
