"""The incremental cache over PostgreSQL: Zipf streams, and one query per micro-batch without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import bsjoin
from benchmarks.data.tables import UNIFORM, postgresql, row_of, stream_files
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import Join, file_stream, run_stream
from benchmarks.harness.timing import Times, check_joins, median_of, outcome, ratio, rotated
from benchmarks.jobs.jobs import Job, Step, arrow_schema
from benchmarks.jobs.ways import connection, load

OURS, BATCH = "bsjoin, all fits", "one query per micro-batch"
ASKED = "keys asked / distinct keys"
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
_LOOK_UP = Job("look-up", "k long, id long", (_STEP,), _table, lambda *_: pa.table({}))


def run(context: Context) -> Outcome:
    """Measure; quick: 10^5 keys and one exponent beside uniform keys, instead of 10^6 and four."""
    measured = _measure(context, context.pick(100_000, 1_000_000))
    asked = {_label(z): rates.pop(ASKED) for z, rates in measured.items()}
    figures = [median_of(f"{ASKED}, {label}", each, 1.05) for label, each in asked.items()]
    figures += [
        ratio(f"rows/s, bsjoin / one query per micro-batch, {_label(z)}", rates[OURS], rates[BATCH],
              1.2, by_round=True)
        for z, rates in measured.items()
    ]  # fmt: skip
    for (z, name), rate in {} if context.quick else FLINK.items():
        rates = measured[z][name]
        what = f"rows/s, {name} / Flink as measured before, {_label(z)}"
        figure = ratio(what, rates, [float(rate)] * len(rates), 2.0, by_round=True)
        figures.append(replace(figure, unit="times"))  # a rate of this machine, in effect
    shown = {_label(z): rates for z, rates in measured.items()}
    found = outcome("Keys of a table in PostgreSQL", shown, figures, _NOTE, "rows/s")
    return replace(found, measured={"rows/s": shown, ASKED: asked})


def _measure(context: Context, keys: int) -> dict[float, Times]:
    """Rows per second of both ways, by exponent (1.04 first) and for uniform keys, alternately.

    With them is how often bsjoin asks for a key: more than once if some are forgotten. Every run
    begins with an empty cache; a second query then reads the same rows.
    """
    spark, found = context.spark, dict[float, Times]()
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
            answers = {
                "all fits": partial(cached(keys), few),
                "few fit": partial(cached(keys // 1_000), few),
                BATCH: partial(_per_batch(url), few),
                "arithmetic": partial(few.select, "k", "id", *row_of(F.col("k"))),
            }
            check_joins(answers, _LOOK_UP.columns)
            distinct = spark.read.parquet(str(files)).select("k").distinct().count()
            ways: dict[str, Callable[[], dict[str, float]]] = {
                OURS: lambda stream=stream, distinct=distinct: _run_twice(  # type: ignore[misc]
                    stream, cached(keys), distinct
                ),
                BATCH: lambda stream=stream: {  # type: ignore[misc]
                    BATCH: _rates(_query(stream, _per_batch(url)))[0]
                },
            }
            for way in list(ways.values()) * (0 if found else warm_ups):
                way()  # the JVM compiles; not counted
            found[z] = {}
            for turn in range(rounds if z == 1.04 else 1):
                for name in rotated(ways, turn):
                    for what, rate in ways[name]().items():
                        found[z].setdefault(what, []).append(rate)
                        context.say(f"  {_label(z):<8} {what:<30} {rate:>12,.3f}")
    return found


def _per_batch(url: str) -> Join:
    """For every task and micro-batch one query for its distinct keys; nothing is kept."""
    query = "SELECT t.k, amount, name FROM unnest($1::bigint[]) AS q(k) JOIN t ON t.k = q.k"
    given, schema = _LOOK_UP.arrow, arrow_schema(_LOOK_UP.schema)

    def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(batches), given)
        if not table.num_rows:
            return
        keys = table["k"].unique()
        wanted = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys)
        with connection("adbc_driver_postgresql.dbapi", url).cursor() as cursor:
            cursor.execute(query, pa.record_batch([wanted], names=["k"]))
            found = cursor.fetch_arrow_table().replace_schema_metadata(None)
        joined = table.join(found, "k", join_type="inner").select(schema.names).cast(schema)
        yield from joined.combine_chunks().to_batches(max_chunksize=10_000)

    return lambda stream: stream.mapInArrow(answer, _LOOK_UP.schema)


def _label(z: float) -> str:
    return "uniform" if z == UNIFORM else f"z {z}"


def _query(stream: Callable[[], DataFrame], join: Join) -> StreamingQuery:
    return run_stream(join(stream()))


def _rates(query: StreamingQuery) -> tuple[float, float]:
    """Rows per second (Spark's ``addBatch``) of a query, and of the second half of it."""
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["addBatch"] / 1e3 for p in done]
    rows, half = [p.numInputRows for p in done], len(done) // 2
    return sum(rows) / sum(seconds), sum(rows[half:]) / sum(seconds[half:])


def _asked(query: StreamingQuery) -> int:
    """How many keys a query asked the database for."""
    return sum(one.cache.keys_queried for one in bsjoin.progress(query) if one.cache)


def _run_twice(stream: Callable[[], DataFrame], join: Join, distinct: int) -> dict[str, float]:
    """The rates of a query, and of a second one, which must find each key in the cache."""
    first, second = _query(stream, join), _query(stream, join)
    asked, again = _asked(first), _asked(second)
    if again or not asked:
        raise AssertionError(
            f"the first query asked for {asked:,} keys, the second for {again:,} more: "
            "it was to find all of them in the cache"
        )
    (rate, warm), (cached, _) = _rates(first), _rates(second)
    return {OURS: rate, WARM: warm, CACHED: cached, ASKED: asked / distinct}
