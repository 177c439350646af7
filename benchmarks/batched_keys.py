"""Keys found one by one, as Spark's generated code does, and in batches; and what that could gain.

While a row waits for memory, a CPU works on the next ones only as far as it looks ahead. Keys of a
batch, found in stages, wait together. What all waiting costs in a query is what its keys cost more
than a few keys whose rows the CPU's caches keep: no order of reading gains more.

``python -m benchmarks.batched_keys FOLDER`` measures, 15 minutes; with ``--quick`` small
tables. It is not in the catalogue, for it backs a decision and no figure that was promised.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.tables import row_of, scattered, table
from benchmarks.full_cache import COLUMNS
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join
from benchmarks.harness.text import figure_lines, table_lines
from benchmarks.harness.timing import check_joins, ratio, time_joins
from benchmarks.planned_bulk import checked
from benchmarks.runtimes import STEP
from bsjoin.runtimes.jvm.jar import jar

_ONE, _BATCH = "one by one", "in stages, 1000"
_COLUMNS = "in stages with columns, 1000"
_HOT = 256
_ONE_HOT = f"{_ONE}, {_HOT} hot keys"
_RANDOM, _FEW, _NONE = "join, random keys", f"join, {_HOT} hot keys", "no join"
_OPENED = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.nio", "java.util", "sun.nio.ch", "sun.util.calendar")
]
_NOTE = (
    "Nanoseconds a key, medians, of keys that are far apart, drawn at random. A found row is "
    "written as one of Spark's rows with four columns, a text among them. In a loop: all keys of "
    "a batch, then all rows. In stages: all places in the index, then what it has there, then the "
    "keys; with columns: then each column. Read ahead: so, and then again one by one."
)

Times = Mapping[str, list[float]]
"""By way and round."""


def run(context: Context) -> Outcome:
    """Keys alone and in a query; quick: one small table, which caches keep."""
    sizes, rows = context.pick(
        ([500_000], 500_000), ([1_000_000, 10_000_000, 30_000_000], 10_000_000)
    )
    tables = {size: _indexed(context, size) for size in sizes}
    of_rows = {size: _by_row(context, one) for size, one in tables.items()}
    in_query = {
        size: _in_query(context, rows, size, tables[size]) for size in sizes if size <= rows
    }
    figures = [figure for size, times in of_rows.items() for figure in _row_figures(size, times)]
    for size, times in in_query.items():
        figures += _query_figures(f"{rows:,} x {size:,} rows", times)
    measured = [_by_size(of_rows), _by_size(in_query)]
    return Outcome(figures, [_table(of_rows)], [], measured)


def _by_size(times: Mapping[int, Times]) -> dict[str, Times]:
    return {f"{size:,}": by for size, by in times.items()}


def _indexed(context: Context, size: int) -> bsjoin.BatchTable:
    df = table(context.spark, size, context.data).withColumn("k", F.col("k") * STEP)
    return bsjoin.BatchTable.build(
        df, on="k", unique=True, path=context.data / f"keys-{size}-by-{STEP}"
    )


# -- a row after the other -------------------------------------------------------------------------


def _by_row(context: Context, indexed: bsjoin.BatchTable) -> Times:
    """Nanoseconds a key, in a JVM of its own."""
    keys, rounds = context.pick((200_000, 3), (2_000_000, 5))
    classes = context.data / "classes"
    classes.mkdir(exist_ok=True)
    path = f"{Path(pyspark.__file__).parent}/jars/*:{jar()}"
    source = Path(__file__).with_name("BatchedKeys.java")
    subprocess.run(
        ["javac", "-nowarn", "-proc:none", "-cp", path, "-d", classes, source], check=True
    )
    program = ["java", "-Xmx1g", *_OPENED, "-cp", f"{classes}:{path}", "bsjoin.jvm.BatchedKeys"]
    words = [indexed.path, str(keys), str(rounds), str(STEP)]
    done = subprocess.run([*program, *words], check=True, stdout=subprocess.PIPE, text=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    found = {name: [float(one) for one in times.split()] for name, times in lines}
    for name, times in found.items():
        context.say(f"  {name:<32} {statistics.median(times):7.1f} ns a key")
    return found


def _row_figures(size: int, times: Times) -> list[Figure]:
    rows = f"{size:,} rows"
    pairs = [(_ONE, _BATCH), (_ONE, _COLUMNS), (_ONE, _ONE_HOT)]
    pairs.append(("keys alone, in a loop", "keys alone, in stages"))
    return [ratio(f"ns a key, {a} / {b}, {rows}", times[a], times[b]) for a, b in pairs]


def _table(found: Mapping[int, Times]) -> Table:
    names = next(iter(found.values()))
    lines = [
        {"way": name}
        | {f"{size:,} rows": statistics.median(by[name]) for size, by in found.items()}
        for name in names
    ]
    return Table.of("Keys and their rows, by the size of the table", lines, _NOTE)


# -- in a query ------------------------------------------------------------------------------------


def _in_query(context: Context, rows: int, size: int, indexed: bsjoin.BatchTable) -> Times:
    """Seconds of a plain join of Parquet files: with random keys, and with a few hot ones."""
    stream = _stream(context, rows, size)
    ways: dict[str, Join] = {
        _RANDOM: partial(_joined, indexed, "random"),
        _FEW: partial(_joined, indexed, "few"),
        _NONE: lambda some: some.select("id", "random"),
    }
    for key, name in (("random", _RANDOM), ("few", _FEW)):
        checked(1, ways[name](stream))
        k = F.col(key)
        computed = stream.select(k.alias("k"), "id", *row_of((k / STEP).cast("long")))
        check_joins(
            {name: partial(ways[name], stream), "computed": partial(computed.select, "*")}, COLUMNS
        )
    return time_joins(context, f"{rows:,} x {size:,}", ways, stream, context.pick(2, 5))


def _stream(context: Context, rows: int, size: int) -> DataFrame:
    path, key = context.data / f"keys-stream-{rows}-{size}-{context.seed}", F.col("id")
    if not (path / "_SUCCESS").exists():
        keys = [
            (scattered(key, distinct, context.seed) * STEP).alias(name)
            for name, distinct in (("random", size), ("few", _HOT))
        ]
        made = context.spark.range(rows).select("id", *keys)
        made.write.mode("overwrite").parquet(str(path))
    return context.spark.read.parquet(str(path))


def _joined(indexed: bsjoin.BatchTable, key: str, stream: DataFrame) -> DataFrame:
    other = indexed.to_df(stream.sparkSession)
    return stream.join(other, F.col(key) == F.col("k")).select(*COLUMNS)


def _query_figures(label: str, times: Times) -> list[Figure]:
    found = [ratio(f"seconds, {_RANDOM} / {_FEW}, {label}", times[_RANDOM], times[_FEW])]
    return [*found, ratio(f"seconds, {_RANDOM} / {_NONE}, {label}", times[_RANDOM], times[_NONE])]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    measured = run(Context("--quick" in sys.argv, place, place))
    for shown in measured.tables:
        print("\n".join(table_lines(shown)))
    print("\n".join(figure_lines(measured.figures)))
