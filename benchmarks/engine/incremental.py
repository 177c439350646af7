"""The incremental cache over PostgreSQL: Zipf streams, and one query per micro-batch without it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.tables import UNIFORM, postgresql, row_of, stream_files
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, cache_totals, file_stream, run_stream
from benchmarks.harness.timing import check_joins, median_of, ratio, rotated
from benchmarks.jobs.database import load, per_batch
from benchmarks.jobs.job import Job, Step

OURS, BATCH = "bsjoin, all fits", "one query per micro-batch"
WARM, CACHED = "bsjoin, all fits, warm", "bsjoin, all cached"

# Rows per second of Flink 2.3 SQL's look-up join with 10^6 keys on a machine with two cores
# (design page, section 3): measured earlier, and shown with full sizes only.
FLINK = {(1.04, WARM): 750_000, (1.04, CACHED): 750_000, (UNIFORM, CACHED): 365_000}
_NOTE = (
    f"{WARM}: the second half of the micro-batches of {OURS}; {CACHED}: a second query over the "
    "same rows."
)


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
    measured = _measure(context, context.pick(100_000, 1_000_000))
    rows = [
        {"keys": _label(z)}
        | {
            name: statistics.median(_rates(measured, z, name)) / 1e3
            for name in (OURS, WARM, CACHED, BATCH)
        }
        for z in sorted(measured)
    ]
    shown = Table.of("Thousand rows per second, by keys", rows, _NOTE)
    shown = shown.drawn("bars", "keys", "bsjoin", "one query", yscale="log")
    return Outcome(_figures(measured, flink=not context.quick), [shown], measured=measured)


def _measure(context: Context, keys: int) -> Measured:
    """Rows per second of both ways, by exponent (1.04 first) and for uniform keys, alternately.

    Every run begins with an empty cache; a second query then reads the same rows.
    """
    spark, found, cold = context.spark, Measured(), True
    batches, rounds, warm_ups = context.pick((4, 1, 1), (10, 2, 3))
    with postgresql() as url:
        load(url, _LOOK_UP, _LOOK_UP.tables(context.data, keys))

        def cached(max_rows: int) -> Join:
            source = bsjoin.sources.sql(url, table="t")  # a new one has an empty cache
            cache = bsjoin.Incremental(max_rows=max_rows)
            return lambda stream: bsjoin.join(stream, source, "k", cache=cache)

        for z in context.pick((1.04, UNIFORM), (1.04, 0.98, 1.10, 1.16, UNIFORM)):
            files = stream_files(context.data, z, keys, keys, batches, context.seed)
            stream = partial(file_stream, spark, _LOOK_UP.stream, files)
            rows = spark.read.schema(_LOOK_UP.stream).parquet(str(files / "0000-0.parquet"))
            few = rows.limit(2_000).localCheckpoint()
            _check(few, [cached(keys), cached(keys // 1_000), per_batch(_LOOK_UP, url)])
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                OURS: lambda stream=stream: _run_twice(stream, cached(keys)),  # type: ignore[misc]
                BATCH: partial(_run, stream, per_batch(_LOOK_UP, url)),
            }
            for way in list(ways.values()) * (warm_ups if cold else 0):
                way()  # the JVM compiles; not counted
            cold = False
            distinct = spark.read.parquet(str(files)).select("k").distinct().count()
            found[z] = {"distinct": distinct, "ways": {name: [] for name in ways}}
            for turn in range(rounds if z == 1.04 else 1):
                for name in rotated(ways, turn):
                    one = ways[name]()
                    found[z]["ways"][name].append(one)
                    hits = f"   hit rate {one['hit_rate']:.1%}" if "hit_rate" in one else ""
                    context.say(f"  {_label(z):<8} {name:<30} {one['rate']:>10,.0f} rows/s{hits}")
    return found


def _label(z: float) -> str:
    return "uniform" if z == UNIFORM else f"z {z}"


def _run(stream: Callable[[], DataFrame], join: Join) -> dict[str, Any]:
    """Let a stream run through all files.

    Returns:
        Rows per second (Spark's ``addBatch``) of all micro-batches, ``rate``, and of the second
        half, ``warm``; and what the cache reports.
    """
    query = run_stream(join(stream()))
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["addBatch"] / 1e3 for p in done]
    rows, half = [p.numInputRows for p in done], len(done) // 2
    rates = {"rate": sum(rows) / sum(seconds), "warm": sum(rows[half:]) / sum(seconds[half:])}
    return {**rates, "batch_s": seconds, **cache_totals(query)}


def _run_twice(stream: Callable[[], DataFrame], join: Join) -> dict[str, Any]:
    """The same with the rate of a second query, ``cached``: it finds each key in the cache."""
    first, second = _run(stream, join), _run(stream, join)
    if second["asked"]:
        raise AssertionError(f"the second query asked for {second['asked']} keys")
    return first | {"cached": second["rate"]}


def _check(rows: DataFrame, joins: list[Join]) -> None:
    """All ways answer the same, before any is timed."""
    answers: dict[str, Callable[[], DataFrame]] = {
        f"way {number}": partial(join, rows) for number, join in enumerate(joins)
    }
    answers["arithmetic"] = partial(rows.select, "k", "id", *row_of(F.col("k")))
    check_joins(answers, _LOOK_UP.columns)


def _rates(measured: Measured, z: float, name: str) -> list[float]:
    which = {WARM: "warm", CACHED: "cached"}.get(name, "rate")
    runs = measured[z]["ways"][name if which == "rate" else OURS]
    return [one[which] for one in runs]


def _figures(measured: Measured, *, flink: bool) -> list[Figure]:
    """The promised ratios."""
    found, rates = [], partial(_rates, measured)
    for z, one in measured.items():
        asked = [run["asked"] / one["distinct"] for run in one["ways"][OURS]]
        found.append(median_of(f"keys asked / distinct keys, {_label(z)}", asked, 1.05))
        name = f"rows/s, bsjoin / one query per micro-batch, {_label(z)}"
        found.append(ratio(name, rates(z, OURS), rates(z, BATCH), 1.2, by_round=True))
    for (z, name), rate in FLINK.items() if flink else ():
        ours = rates(z, name)
        what = f"rows/s, {name} / Flink as measured before, {_label(z)}"
        figure = ratio(what, ours, [float(rate)] * len(ours), 2.0, by_round=True)
        found.append(replace(figure, unit="times"))  # a rate of this machine, in effect
    return found
