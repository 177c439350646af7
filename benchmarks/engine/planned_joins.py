"""Plain joins that Spark's planner answers from an index, in micro-batches and all rows at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

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
    check,
    check_answered,
    columns_of,
    joined,
    measure,
    shown,
)
from benchmarks.engine.full_cache import JVM, NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import configured, in_runtime
from benchmarks.harness.timing import ratio

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
_NOTE = (
    "Medians of micro-batches of 10,000 rows in two Parquet files, after {warm} of warm-up. Keys "
    "are far apart: they are found by their hash. The ways take turns. After few micro-batches the "
    "JVM has compiled little: only full sizes tell what a long stream has."
)


def run(context: Context) -> Outcome:
    """Micro-batches, planning, and bulk; quick: few micro-batches and rows."""
    chains = {rows: Chain.of(context, rows, STEP) for rows in (_MANY, _SMALL)}
    shapes = {label: Shape(chains[rows], *of) for label, (rows, *of) in _SHAPES.items()}
    streams, counted = _streams(context, shapes), _counted(context, shapes[_COUNTED])
    call = _call(context, chains[_MANY])
    figures, table, seconds = planned_bulk(context, chains[_MANY])
    figures = [*_stream_figures(context, streams), _of_figures(context, counted), *call, *figures]
    note = _NOTE.format(warm=context.pick(2, 40))
    tables = [shown("Plain joins in micro-batches", streams, note), table]
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
        compared = ways | shape.ways(CHOSEN)
        check(context, compared, sample, columns_of(shape.count), _SETTINGS)
        measured[label] = shape, ways
    plan = context.pick([(2, 3)], [(40, 20), (20, 20), (20, 20)])
    return measure(context, measured, plan, _SETTINGS, (PLAIN, JVM))


def _counted(context: Context, shape: Shape) -> dict[str, list[list[float]]]:
    """``addBatch`` in milliseconds with figures and without, by turn: many short ones."""
    turns, warm, batches = context.pick((2, 2, 5), (12, 10, 20))
    ways, files = shape.ways(PLAIN, QUIET), shape.chain.files(warm + batches + 4)
    found: dict[str, list[list[float]]] = {PLAIN: [], QUIET: []}
    columns = columns_of(shape.count)
    check(context, ways, shape.sample(files), columns, _SETTINGS)
    for turn in range(turns):
        for name in (PLAIN, QUIET) if turn % 2 else (QUIET, PLAIN):
            with configured(context.spark, _SETTINGS.get(name, {})):
                ms = shape.chain.run(name, ways[name], files, warm, batches)["addBatch"]
            found[name].append(ms)
            context.say(f"  {_COUNTED:<28} {name:<24} addBatch {_middle(ms):6.2f}")
    return found


def _of_figures(context: Context, counted: dict[str, list[list[float]]]) -> Figure:
    """What figures cost, of the turns: a median would be as coarse as Spark's milliseconds."""
    on, off = ([_middle(ms) for ms in counted[name]] for name in (PLAIN, QUIET))
    label = f"addBatch, figures on / off, {_COUNTED}"
    return ratio(label, on, off, context.pick(None, 1.03), at_most=True, by_round=True)


def _middle(ms: list[float]) -> float:
    """The mean of the middle half."""
    cut = len(ms) // 4
    return statistics.mean(sorted(ms)[cut : len(ms) - cut])


def _stream_figures(context: Context, streams: Streams) -> list[Figure]:
    found = []
    for shape, by in streams.items():
        bound = context.pick(None, _BOUNDS.get(shape))
        for what, most in (("addBatch", bound), ("trigger", bound and 1.15)):
            found.append(
                ratio(f"{what}, {PLAIN} / {NO_JOIN}, {shape}", by[PLAIN][what], by[NO_JOIN][what],
                      most, at_most=True)
            )  # fmt: skip
        for name, least in ((CHOSEN, _OVER_SPARK.get(shape)), (SCAN, None), (JVM, None)):
            if name in by:
                label = f"addBatch, {name} / {PLAIN}, {shape}"
                times = by[name]["addBatch"], by[PLAIN]["addBatch"]
                found.append(ratio(label, *times, context.pick(None, least)))
        ms = statistics.median(by[PLAIN]["planning"])
        most = context.pick(None, 12.0 if bound else None)
        found.append(Figure(f"queryPlanning, {shape}", ms, most, at_most=True, unit="ms"))
    return found


def _call(context: Context, chain: Chain) -> list[Figure]:
    """Milliseconds to write down six joins; and beside those with tables that Spark has read."""
    keys = [F.col("id").alias(f"k{i}") for i in range(MOST)]
    stream = context.spark.range(10).select("id", *keys)
    known = [one.to_df(context.spark) for one in chain.indexed[:MOST]]
    ways: dict[str, Callable[[], object]] = {
        "call": partial(chain.plain, MOST, False, stream),
        "of Spark": partial(joined, known, False, stream),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(context.pick(5, 25)):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            spent[name].append(1e3 * (time.perf_counter() - begun))
    bound = context.pick(None, 60.0)
    ms = statistics.median(spent["call"])
    return [
        Figure("call of six joins", ms, bound, at_most=True, unit="ms"),
        ratio("call of six joins / of them without the tables", spent["call"], spent["of Spark"]),
    ]
