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
    Joins,
    Streams,
    check_answered,
    measure,
    shown,
)
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import JVM, Join, configured
from benchmarks.harness.timing import Times, alternate, check_joins, ratio, rotated, seconds_of

SCAN, QUIET = f"{PLAIN}, planner off", f"{PLAIN}, figures off"

_SETTINGS = {SCAN: {"spark.bsjoin.planner": "off"}, QUIET: {"spark.bsjoin.metrics": "off"}}
"""Of the session that plans a query's micro-batches: as it was when the query was started."""

_SMALL, _MANY = 3_000, 100_000
_SHAPES = {
    "one join": (_MANY, 1, False, 1.3, None),
    "six joins": (_MANY, MOST, False, 2.2, 12.0),
    "chain of six": (_MANY, MOST, True, 2.2, None),
    f"four tables of {_SMALL:,} rows": (_SMALL, 4, False, None, 3.0),
}
"""Rows of each table, the number of joins, whether a key comes from the table before; bounds of
addBatch over that without a join, and of Spark's over it."""


def run(context: Context) -> Outcome:
    """Micro-batches, planning, and bulk; quick: few micro-batches and rows."""
    chains = {rows: Chain.of(context, rows, STEP) for rows in (_MANY, _SMALL)}
    streams = _streams(context, chains)
    figures = [*_stream_figures(streams), *_counted(context, chains[_MANY])]
    figures += _call(context, chains[_MANY])
    parts = {
        "streams": shown("Plain joins in micro-batches, keys far apart", streams, figures),
        "bulk": planned_bulk(context, chains[_MANY]),
    }
    return Outcome.of(parts)


def _streams(context: Context, chains: Mapping[int, Chain]) -> Streams:
    """All shapes; quick: plain joins, and Spark's where a figure needs them."""
    measured = {}
    for label, (rows, count, dependent, _, over_spark) in _SHAPES.items():
        chain, joins = chains[rows], chains[rows].joins(count, dependent)
        needed = (PLAIN, CHOSEN) if over_spark else (PLAIN,)
        ways = joins.ways(*context.pick(needed, (PLAIN, JVM, SCAN, CHOSEN)))
        check_answered(joins, chain.sample())
        _check(context, joins, ways | joins.ways(CHOSEN), chain.sample())
        measured[label] = chain, ways
    plan = context.pick([(2, 3)], [(40, 20), (20, 20), (20, 20)])
    return measure(context, measured, plan, _SETTINGS, (PLAIN, JVM))


def _check(context: Context, joins: Joins, ways: Mapping[str, Join], sample: DataFrame) -> None:
    """See that all ways find the same rows, each with its settings of the session."""

    def answer(name: str) -> DataFrame:
        with configured(context.spark, _SETTINGS.get(name, {})):
            return ways[name](sample).localCheckpoint()

    check_joins({name: partial(answer, name) for name in ways}, joins.columns)


def _counted(context: Context, chain: Chain) -> list[Figure]:
    """``addBatch`` with figures and without, by turn: many short ones.

    Of a turn it is the mean of the middle half: a median would be as coarse as Spark's
    milliseconds.
    """
    turns, warm, batches = context.pick((2, 2, 5), (12, 10, 20))
    joins, files = chain.joins(MOST), chain.files(warm + batches + 4)
    ways = joins.ways(PLAIN, QUIET)
    found: Times = {PLAIN: [], QUIET: []}
    _check(context, joins, ways, chain.sample())
    for turn in range(turns):
        for name in rotated(ways, turn):
            with configured(context.spark, _SETTINGS.get(name, {})):
                ms = sorted(chain.run(name, ways[name], files, warm, batches)["addBatch"])
            cut = len(ms) // 4
            found[name].append(statistics.mean(ms[cut : len(ms) - cut]))
            context.say(f"  six joins {name:<24} addBatch {found[name][-1]:6.2f}")
    label = "addBatch, figures on / off, six joins"
    return [ratio(label, *found.values(), 1.03, at_most=True, by_round=True)]


def _stream_figures(streams: Streams) -> list[Figure]:
    found = []
    for shape, by in streams.items():
        bound, over_spark = _SHAPES[shape][3:]
        plain = by[PLAIN]
        for what, most in (("addBatch", bound), ("trigger", bound and 1.15)):
            name = f"{what}, {PLAIN} / {NO_JOIN}, {shape}"
            found.append(ratio(name, plain[what], by[NO_JOIN][what], most, at_most=True))
        for way, least in ((CHOSEN, over_spark), (SCAN, None), (JVM, None)):
            if way in by:
                name = f"addBatch, {way} / {PLAIN}, {shape}"
                found.append(ratio(name, by[way]["addBatch"], plain["addBatch"], least))
        ms, most = statistics.median(plain["planning"]), 12.0 if bound else None
        found.append(Figure(f"queryPlanning, {shape}", ms, most, at_most=True, unit="ms"))
    return found


def _call(context: Context, chain: Chain) -> list[Figure]:
    """Milliseconds to write down six joins; and beside those with tables that Spark has read."""
    keys = [F.col("id").alias(f"k{i}") for i in range(MOST)]
    stream, joins = context.spark.range(10).select("id", *keys), chain.joins(MOST)
    known = [one.to_df(context.spark) for one in chain.indexed]
    calls = {
        "call": partial(seconds_of, joins.plain, stream),
        "of Spark": partial(seconds_of, joins.joined, known, stream),
    }
    spent = alternate(calls, context.pick(5, 25))
    ms = 1e3 * statistics.median(spent["call"])
    return [
        Figure("call of six joins", ms, 60.0, at_most=True, unit="ms"),
        ratio("call of six joins / of them without the tables", *spent.values()),
    ]
