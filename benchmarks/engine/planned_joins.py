"""Plain joins that Spark's planner answers from an index, in micro-batches and all rows at once."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.engine.bulk import planned_bulk
from benchmarks.engine.chain import (
    CHOSEN,
    MOST,
    PLAIN,
    STEP,
    Chain,
    Shape,
    Streams,
    check_answered,
    columns_of,
    joined,
    keys_of,
    measure,
    shown,
)
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import JVM, Join, configured, in_runtime
from benchmarks.harness.timing import (
    Times,
    alternate,
    check_joins,
    ratio,
    rotated,
    seconds_of,
)

SCAN, QUIET = f"{PLAIN}, planner off", f"{PLAIN}, figures off"

_SETTINGS = {SCAN: {"spark.bsjoin.planner": "off"}, QUIET: {"spark.bsjoin.metrics": "off"}}
"""Of the session that plans a query's micro-batches: as it was when the query was started."""

_SMALL, _MANY = 3_000, 100_000
_SHAPES = {
    "one join": (_MANY, 1, False),
    "six joins": (_MANY, MOST, False),
    "chain of six": (_MANY, MOST, True),
    f"four tables of {_SMALL:,} rows": (_SMALL, 4, False),
}
"""Rows of each table, the number of joins, and whether a key comes from the table before."""
_BOUNDS = {"one join": 1.3, "six joins": 2.2, "chain of six": 2.2}
_COUNTED = "six joins"  # with figures and without
_OVER_SPARK = {"six joins": 12.0, f"four tables of {_SMALL:,} rows": 3.0}


def run(context: Context) -> Outcome:
    """Micro-batches, planning, and bulk; quick: few micro-batches and rows."""
    chains = {rows: Chain.of(context, rows, STEP) for rows in (_MANY, _SMALL)}
    shapes = {label: Shape(chains[rows], *of) for label, (rows, *of) in _SHAPES.items()}
    streams, counted = _streams(context, shapes), _counted(context, shapes[_COUNTED])
    call = _call(context, chains[_MANY])
    figures, table, seconds = planned_bulk(context, chains[_MANY])
    # A median would be as coarse as Spark's milliseconds.
    label = f"addBatch, figures on / off, {_COUNTED}"
    quiet = ratio(label, counted[PLAIN], counted[QUIET], 1.03, at_most=True, by_round=True)
    figures = [*_stream_figures(streams), quiet, *call, *figures]
    title = "Plain joins in micro-batches, keys far apart"
    tables = [shown(title, streams, context.pick(2, 40)), table]
    return Outcome(figures, tables, [], [streams, seconds, counted])


def _streams(context: Context, shapes: dict[str, Shape]) -> Streams:
    """All shapes; quick: plain joins, and Spark's where a figure needs them."""
    measured = {}
    for label, shape in shapes.items():
        needed = (PLAIN, CHOSEN) if label in _OVER_SPARK else (PLAIN,)
        ways = shape.ways(*context.pick(needed, (PLAIN, JVM, SCAN, CHOSEN)))
        ways = {name: in_runtime("jvm", way) if name == JVM else way for name, way in ways.items()}
        sample = shape.sample(shape.chain.files(1))
        check_answered(shape.count, ways[PLAIN](sample))
        _check(context, shape, ways | shape.ways(CHOSEN), sample)
        measured[label] = shape, ways
    plan = context.pick([(2, 3)], [(40, 20), (20, 20), (20, 20)])
    return measure(context, measured, plan, _SETTINGS, (PLAIN, JVM))


def _check(context: Context, shape: Shape, ways: Mapping[str, Join], sample: DataFrame) -> None:
    """See that all ways find the same rows, each with its settings of the session."""

    def answer(name: str) -> DataFrame:
        with configured(context.spark, _SETTINGS.get(name, {})):
            return ways[name](sample).localCheckpoint()

    check_joins({name: partial(answer, name) for name in ways}, columns_of(shape.count))


def _counted(context: Context, shape: Shape) -> Times:
    """``addBatch`` in milliseconds with figures and without, by turn: many short ones.

    Of a turn it is the mean of the middle half.
    """
    turns, warm, batches = context.pick((2, 2, 5), (12, 10, 20))
    ways, files = shape.ways(PLAIN, QUIET), shape.chain.files(warm + batches + 4)
    found: Times = {PLAIN: [], QUIET: []}
    _check(context, shape, ways, shape.sample(files))
    for turn in range(turns):
        for name in rotated(ways, turn):
            with configured(context.spark, _SETTINGS.get(name, {})):
                ms = sorted(shape.chain.run(name, ways[name], files, warm, batches)["addBatch"])
            cut = len(ms) // 4
            found[name].append(statistics.mean(ms[cut : len(ms) - cut]))
            context.say(f"  {_COUNTED:<28} {name:<24} addBatch {found[name][-1]:6.2f}")
    return found


def _stream_figures(streams: Streams) -> list[Figure]:
    found = []
    for shape, by in streams.items():
        bound, plain = _BOUNDS.get(shape), by[PLAIN]
        for what, most in (("addBatch", bound), ("trigger", bound and 1.15)):
            name = f"{what}, {PLAIN} / {NO_JOIN}, {shape}"
            found.append(ratio(name, plain[what], by[NO_JOIN][what], most, at_most=True))
        for way, least in ((CHOSEN, _OVER_SPARK.get(shape)), (SCAN, None), (JVM, None)):
            if way in by:
                name = f"addBatch, {way} / {PLAIN}, {shape}"
                found.append(ratio(name, by[way]["addBatch"], plain["addBatch"], least))
        ms, most = statistics.median(plain["planning"]), 12.0 if bound else None
        found.append(Figure(f"queryPlanning, {shape}", ms, most, at_most=True, unit="ms"))
    return found


def _call(context: Context, chain: Chain) -> list[Figure]:
    """Milliseconds to write down six joins; and beside those with tables that Spark has read."""
    keys = [F.col("id").alias(f"k{i}") for i in range(MOST)]
    stream = context.spark.range(10).select("id", *keys)
    known = [one.to_df(context.spark) for one in chain.indexed[:MOST]]
    calls = {
        "call": partial(seconds_of, chain.plain, MOST, False, stream),
        "of Spark": partial(seconds_of, joined, keys_of(MOST, False), known, stream),
    }
    spent = alternate(calls, context.pick(5, 25))
    ms = 1e3 * statistics.median(spent["call"])
    return [
        Figure("call of six joins", ms, 60.0, at_most=True, unit="ms"),
        ratio("call of six joins / of them without the tables", spent["call"], spent["of Spark"]),
    ]
