"""The incremental cache over PostgreSQL: Zipf streams, and the alternatives without a cache."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.tables import UNIFORM, postgresql, row_of, stream_files
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import (
    JDBC_DRIVER,
    Join,
    cache_totals,
    consume,
    file_stream,
    persisted,
    run_stream,
)
from benchmarks.harness.timing import check_joins, ratio, seconds_of
from benchmarks.jobs.database import load, per_batch, per_record
from benchmarks.jobs.job import Job, Step

RECORD, BATCH, JDBC = "one query per record", "one query per micro-batch", "Spark's JDBC read"
LARGE, SMALL = "bsjoin, all fits", "bsjoin, a tenth fits"
WARM, CACHED = "bsjoin, all fits, warm", "bsjoin, all cached"

# Rows per second of Flink 2.3 SQL's look-up join with 10^6 keys on a machine with two cores
# (design page, section 3): measured earlier, and shown with full sizes only.
FLINK = {
    (1.04, SMALL): 328_000,
    (UNIFORM, SMALL): 56_000,
    (1.04, WARM): 750_000,
    (UNIFORM, WARM): 365_000,
    (1.04, CACHED): 750_000,
    (UNIFORM, CACHED): 365_000,
}


def _table(_: Path, keys: float) -> dict[str, pa.Table]:
    numbers = range(int(keys))
    names = [f"name-{key:07d}" for key in numbers]
    return {"t": pa.table({"k": numbers, "amount": [7 * key for key in numbers], "name": names})}


_STEP = Step("t", "k", "amount long, name string")
_LOOK_UP = Job("look-up", "k long, id long", (_STEP,), _table, lambda *_: pa.table({}), "keys")

Measured = dict[float, Any]
"""By exponent: the ``distinct`` keys of the stream, and ``ways``: by name a list of runs."""


def run(context: Context) -> Outcome:
    """Measure; quick: 10^5 keys and one exponent beside uniform keys, instead of 10^6 and four."""
    keys = context.pick(100_000, 1_000_000)
    measured = _measure(context, keys)
    drawn = _rates_table(measured).drawn(
        "bars", "keys", "bsjoin", "one query", "Spark", yscale="log"
    )
    return Outcome(_figures(measured, quick=context.quick), [drawn], measured=measured)


def _measure(context: Context, keys: int) -> Measured:
    """Rows per second of every way, by exponent (1.04 first) and for uniform keys, alternately.

    Every run begins with an empty cache; where all fits, a second query then reads the same rows.
    """
    spark, found = context.spark, {}  # type: SparkSession, Measured
    batches, rounds = context.pick((4, 1), (10, 2))
    exponents = context.pick((1.04, UNIFORM), (1.04, 0.98, 1.10, 1.16, UNIFORM))
    with postgresql() as url:
        load(url, _LOOK_UP, _LOOK_UP.tables(context.data, keys))

        def source_join(max_rows: int) -> Join:
            source = bsjoin.sources.sql(url, table="t")  # a new one has an empty cache
            cache = bsjoin.Incremental(max_rows=max_rows)
            return lambda stream: bsjoin.join(stream, source, "k", cache=cache)

        def cached(max_rows: int, stream: DataFrame) -> DataFrame:
            return source_join(max_rows)(stream)

        joins: dict[str, Join] = {
            LARGE: partial(cached, keys),
            SMALL: partial(cached, keys // 10),
            BATCH: per_batch(_LOOK_UP, url),
            RECORD: per_record(_LOOK_UP, url),
        }
        if JDBC_DRIVER.exists():
            joins[JDBC] = _jdbc_join(spark, url)
        else:
            context.say(f"  {JDBC}: not measured, there is no {JDBC_DRIVER}")
        for z in exponents:
            files = stream_files(context.data, z, keys, keys, batches, context.seed)
            first = spark.read.schema(_LOOK_UP.stream).parquet(str(files / "0000-0.parquet"))
            _check(first.limit(2_000), joins | {SMALL: partial(cached, keys // 1000)})
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                name: partial(_run, spark, files, join)
                for name, join in joins.items()
                if z == 1.04 or name in (LARGE, SMALL, BATCH)
            }
            ways[LARGE] = lambda files=files: _run_twice(spark, files, source_join(keys))
            if RECORD in ways:
                some = first.limit(context.pick(2_000, 20_000)).repartition(2)
                ways[RECORD] = partial(_run_records, some, joins[RECORD])
            if z == 1.04:
                for name in (JDBC, RECORD, *(LARGE, BATCH) * context.pick(1, 3)):
                    if name in ways:  # the JVM compiles; not counted
                        ways[name]()
            distinct = spark.read.parquet(str(files)).select("k").distinct().count()
            found[z] = {"distinct": distinct, "ways": {name: [] for name in ways}}
            for _ in range(rounds if z == 1.04 else 1):
                for name, way in ways.items():
                    one = way()
                    found[z]["ways"][name].append(one)
                    hits = f"   hit rate {one['hit_rate']:.1%}" if "hit_rate" in one else ""
                    context.say(f"  {_label(z):<8} {name:<30} {one['rate']:>10,.0f} rows/s{hits}")
    return found


def _label(z: float) -> str:
    return "uniform" if z == UNIFORM else f"z {z}"


def _jdbc_join(spark: SparkSession, url: str) -> Join:
    """Spark's own JDBC source: the table is read whole in every micro-batch."""
    parts = urlsplit(url)
    place = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    options = {"user": parts.username or "", "password": unquote(parts.password or "")}
    options |= {"driver": "org.postgresql.Driver", "fetchsize": "10000"}
    table = spark.read.jdbc(place, "t", properties=options)
    return lambda stream: stream.join(table, "k").select("k", "id", "amount", "name")


def _run(spark: SparkSession, files: Path, join: Join) -> dict[str, Any]:
    """Let a stream run through all files.

    Returns:
        Rows per second (Spark's ``addBatch``) of all micro-batches, ``rate``, and of the second
        half, ``warm``; and what the cache reports.
    """
    query = run_stream(join(file_stream(spark, _LOOK_UP.stream, files)))
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["addBatch"] / 1e3 for p in done]
    rows, half = [p.numInputRows for p in done], len(done) // 2
    rates = {"rate": sum(rows) / sum(seconds), "warm": sum(rows[half:]) / sum(seconds[half:])}
    return {**rates, "batch_s": seconds, **cache_totals(query)}


def _run_twice(spark: SparkSession, files: Path, join: Join) -> dict[str, Any]:
    """The same with the rate of a second query, ``cached``: it finds each key in the cache."""
    first, second = _run(spark, files, join), _run(spark, files, join)
    if second["asked"]:
        raise AssertionError(f"the second query asked for {second['asked']} keys")
    return first | {"cached": second["rate"]}


def _run_records(rows: DataFrame, join: Join) -> dict[str, Any]:
    """One query per record, without the costs of a stream."""
    kept = persisted(rows)
    found = {"rate": kept.count() / seconds_of(lambda: consume(join(kept)))}
    kept.unpersist()
    return found


def _check(rows: DataFrame, joins: dict[str, Join]) -> None:
    """All ways answer the same, before any is timed."""
    part = rows.localCheckpoint()
    answers = {name: partial(join, part) for name, join in joins.items()}
    answers["arithmetic"] = partial(part.select, "k", "id", *row_of(F.col("k")))
    check_joins(answers, _LOOK_UP.columns)


def _rates(measured: Measured, z: float, name: str) -> list[float]:
    which = {WARM: "warm", CACHED: "cached"}.get(name, "rate")
    runs = measured[z]["ways"].get(name if which == "rate" else LARGE, ())
    return [one[which] for one in runs]


def _rates_table(measured: Measured) -> Table:
    rows: list[dict[str, Any]] = [{"keys": _label(z)} for z in sorted(measured)]
    for z, row in zip(sorted(measured), rows, strict=True):
        for name in (LARGE, WARM, CACHED, SMALL, BATCH, RECORD, JDBC):
            rates = _rates(measured, z, name)
            row[name] = statistics.median(rates) / 1e3 if rates else None
    note = (
        f"{WARM}: the second half of the micro-batches of {LARGE}; {CACHED}: a second query over "
        "the same rows."
    )
    return Table.of("Thousand rows per second, by keys", rows, note)


def _figures(measured: Measured, *, quick: bool) -> list[Figure]:
    """The promised ratios."""
    rates = partial(_rates, measured)
    name = "rows/s, bsjoin / one query per record, z 1.04"
    bound = None if quick else 50.0
    found = [ratio(name, rates(1.04, LARGE), rates(1.04, RECORD), bound, by_round=True)]
    for z, one in measured.items():
        asked = [run["asked"] / one["distinct"] for run in one["ways"][LARGE]]
        name = f"keys asked / distinct keys, {_label(z)}"
        spread = (min(asked), max(asked))
        found.append(Figure(name, statistics.median(asked), 1.05, True, spread))
        name = f"rows/s, bsjoin / one query per micro-batch, {_label(z)}"
        found.append(ratio(name, rates(z, LARGE), rates(z, BATCH), 1.2, by_round=True))
    for (z, name), rate in FLINK.items() if not quick else ():
        ours = rates(z, name)
        what = f"rows/s, {name} / Flink as measured before, {_label(z)}"
        bound = 1.0 if name == SMALL else 2.0
        figure = ratio(what, ours, [float(rate)] * len(ours), bound, by_round=True)
        found.append(replace(figure, unit="times"))  # a rate of this machine, in effect
    return found
