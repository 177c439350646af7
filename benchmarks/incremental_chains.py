"""Chains of incremental joins over PostgreSQL: one stage, a stage each, and without a cache."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import bsjoin
from benchmarks.data.tables import keys_drawn, postgresql
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import (
    JDBC_DRIVER,
    Join,
    cache_totals,
    consume,
    file_stream,
    persisted,
    run_stream,
    with_settings,
)
from benchmarks.harness.timing import check_joins, ratio, seconds_of
from benchmarks.incremental import BATCH, JDBC, RECORD, jdbc_table
from benchmarks.jobs.database import load, per_batch, per_record
from benchmarks.jobs.job import Job, Step

STAGE, APART = "bsjoin, one stage", "bsjoin, a stage each"
WARM, CACHED = "bsjoin, one stage, warm", "bsjoin, one stage, all cached"
LENGTHS = (1, 2, 3, 6)
_EXPONENT = 1.04
_COMPARED = 3
"""The joins of the figure that is promised."""

_Measured = Mapping[int, Mapping[str, Sequence[Mapping[str, Any]]]]
"""The rounds of each way, by the number of joins."""


def _tables(_: Path, size: float) -> Mapping[str, pa.Table]:
    """Tables of a size; each brings a key of the next."""
    rows = int(size)
    keys = np.arange(rows)
    return {
        f"t{i}": pa.table(
            {
                f"k{i}": keys,
                f"k{i + 1}": np.random.default_rng(i).permutation(rows),
                f"v{i}": [f"name-{i}-{key:07d}" for key in keys.tolist()],
            }
        )
        for i in range(LENGTHS[-1])
    }


def _events(size: float, rows: int, cycle: int, kind: str, seed: int) -> pa.Table:
    keys = keys_drawn(int(size), _EXPONENT, rows, seed + cycle)
    return pa.table({"id": np.arange(rows) + cycle * rows, "k0": keys})


JOB = Job(
    name="incremental-chain",
    stream="id long, k0 long",
    steps=tuple(Step(f"t{i}", f"k{i}", f"k{i + 1} long, v{i} string") for i in range(LENGTHS[-1])),
    make=_tables,
    events=_events,
    size="keys of each table",
)


def _first(count: int) -> Job:
    """The job with its first joins only."""
    return Job(**{**vars(JOB), "steps": JOB.steps[:count]})


def _source_joins(url: str, count: int) -> Join:
    """Joins whose caches are empty when the first query begins."""
    cache = bsjoin.Incremental(max_rows=10_000_000)
    steps = [
        (bsjoin.sources.sql(url, table=step.table), step.on)  # a new one has an empty cache
        for step in JOB.steps[:count]
    ]

    def joined(stream: DataFrame) -> DataFrame:
        for source, on in steps:
            stream = bsjoin.join(stream, source, on, cache=cache)
        return stream

    return joined


def _cached(url: str, count: int, stream: DataFrame) -> DataFrame:
    return _source_joins(url, count)(stream)


def _by_jdbc(url: str, count: int, stream: DataFrame) -> DataFrame:
    for step in JOB.steps[:count]:
        stream = stream.join(jdbc_table(stream.sparkSession, url, step.table), step.on)
    return stream.select(_first(count).columns)


def _ways(url: str, count: int) -> dict[str, Join]:
    ours, job = partial(_cached, url, count), _first(count)
    apart = {"python.chains": "false", "python.transfer": "keys"}
    ways = {
        STAGE: ours,
        APART: with_settings(apart, ours),
        BATCH: per_batch(job, url),
        RECORD: per_record(job, url),
    }
    return ways | ({JDBC: partial(_by_jdbc, url, count)} if JDBC_DRIVER.exists() else {})


def run(context: Context) -> Outcome:
    """Measure; quick: 10^4 keys, and three joins."""
    size, batch, batches = context.pick((10_000, 5_000, 3), (1_000_000, 100_000, 10))
    lengths = context.pick((_COMPARED,), LENGTHS)
    few, rounds = context.pick((500, 1), (10_000, 3))
    measured: dict[int, dict[str, list[dict[str, Any]]]] = {}
    files = JOB.stream_files(context.data, size, "zipf", [batch] * batches, context.seed)
    more = [batch] * (3 * batches)
    many = JOB.stream_files(context.data, size, "zipf", more, context.seed)
    with postgresql() as url:
        load(url, JOB, JOB.tables(context.data, size))
        first = context.spark.read.schema(JOB.stream).parquet(str(files / "0000-0.parquet"))
        some = persisted(first.limit(few).repartition(2))
        for count in lengths:
            ways, columns = _ways(url, count), _first(count).columns
            check_joins({n: partial(way, some.limit(500)) for n, way in ways.items()}, columns)
            runs = {
                name: partial(_run_way, context, files, some, name, ways[name]) for name in ways
            }
            measured[count] = {name: [] for name in (*runs, WARM, CACHED)}
            for _ in range(rounds if count == _COMPARED else 1):
                found = {name: run_() for name, run_ in runs.items()}
                found |= _run_twice(context, many, _source_joins(url, count))
                for name, one in found.items():
                    measured[count][name].append(one)
                    context.say(f"  {count} joins  {name:<30} {one['rate']:>10,.0f} rows/s")
    return Outcome(_figures(measured, context.quick), [_table(measured)], measured=measured)


def _run_way(
    context: Context, files: Path, some: DataFrame, name: str, join: Join
) -> dict[str, Any]:
    """A stream through all files; one query per record, without the costs of a stream."""
    if name == RECORD:
        return {"rate": some.count() / seconds_of(lambda: consume(join(some)))}
    return _run(context, files, join)


def _run_twice(context: Context, files: Path, join: Join) -> dict[str, dict[str, Any]]:
    """A query that fills the caches, and another one that finds every key in them."""
    first, second = _run(context, files, join), _run(context, files, join)
    if second["asked"]:
        raise AssertionError(f"the second query asked for {second['asked']} keys")
    return {WARM: first | {"rate": first["warm"]}, CACHED: second}


def _run(context: Context, files: Path, join: Join) -> dict[str, Any]:
    """Rows per second of all micro-batches, and of the last third, which are ``warm``."""
    query = run_stream(join(file_stream(context.spark, JOB.stream, files, 2)))
    done = [p for p in query.recentProgress if p.numInputRows]
    rows, seconds = [p.numInputRows for p in done], [p.durationMs["addBatch"] / 1e3 for p in done]
    last = len(done) * 2 // 3
    rates = {"rate": sum(rows) / sum(seconds), "warm": sum(rows[last:]) / sum(seconds[last:])}
    return {**rates, "batch_s": seconds, **cache_totals(query)}


def _rates(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [one["rate"] for one in runs]


def _table(measured: _Measured) -> Table:
    rows: list[dict[str, Any]] = [
        {"joins": count, "way": name, "rows/s": statistics.median(_rates(runs))}
        for count, ways in measured.items()
        for name, runs in ways.items()
    ]
    note = (
        "Each key comes from the table before. Every run begins with empty caches; "
        f"{WARM} is the last third of a run three times as long; {CACHED} a second query over the "
        "same rows."
    )
    return Table.of("Chains of incremental joins over PostgreSQL", rows, note).drawn(
        "lines", "joins", "rows/s", by="way", xlabel="joins", yscale="log"
    )


def _figures(measured: _Measured, quick: bool) -> list[Figure]:
    found = []
    ways = measured[_COMPARED]
    for other, bound in ((RECORD, 100.0), (BATCH, None), (APART, None), (JDBC, None)):
        for ours in (WARM, CACHED) if other in ways else ():
            name = f"rows/s, {ours} / {other}, {_COMPARED} joins"
            rates = _rates(ways[ours]), _rates(ways[other])
            found.append(ratio(name, *rates, None if quick else bound))
    return found
