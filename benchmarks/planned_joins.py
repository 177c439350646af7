"""Plain joins that Spark's planner answers from an index, in micro-batches and all rows at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.full_cache import JVM, NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, configured, fingerprint, in_runtime
from benchmarks.harness.timing import check_equal, ratio
from benchmarks.planned_bulk import PLAIN, bulk, checked
from benchmarks.runtimes import CHOSEN, STEP, Chain, Times, key_of

SCAN, QUIET = f"{PLAIN}, planner off", f"{PLAIN}, figures off"

_SETTINGS = {SCAN: {"spark.bsjoin.planner": "off"}, QUIET: {"spark.bsjoin.metrics": "off"}}
"""Of the session that plans a query's micro-batches: as it was when the query was started."""

_SMALL = 3_000
_MANY, _MOST = 100_000, 6
_SHAPES = {
    "one join": (_MANY, 1, False),
    "six joins": (_MANY, _MOST, False),
    "chain of six": (_MANY, _MOST, True),
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


def joined(chain: Chain, count: int, dependent: bool, stream: DataFrame) -> DataFrame:
    """The first joins of a chain, as plain joins with the stored tables."""
    tables = (one.to_df(stream.sparkSession) for one in chain.indexed[:count])
    return _with(tables, dependent, stream)


def _with(tables: Iterable[DataFrame], dependent: bool, stream: DataFrame) -> DataFrame:
    for i, table in enumerate(tables):
        other = table.withColumnRenamed("k", "_k")
        stream = stream.join(other, F.col(key_of(i, dependent)) == F.col("_k")).drop("_k")
    return stream


def run(context: Context) -> Outcome:
    """Micro-batches, planning, and bulk; quick: few micro-batches and rows."""
    streams, counted = _streams(context), _counted(context)
    figures, shown, seconds = bulk(context)
    figures = [
        *_stream_figures(context, streams),
        _of_figures(context, counted),
        *_call(context),
        *figures,
    ]
    measured = [streams, seconds, counted]
    return Outcome(figures, [_table(context, streams), shown], [], measured)


# -- micro-batches ---------------------------------------------------------------------------------

Streams = dict[str, dict[str, Times]]
"""By shape and way."""


def _ways(context: Context, shape: str, chain: Chain) -> dict[str, Join]:
    """The ways to carry out joins; quick: plain ones, and Spark's where a figure needs them."""
    _, count, dependent = _SHAPES[shape]
    ours = partial(joined, chain, count, dependent)
    spark = {CHOSEN: partial(chain.theirs, "", count, dependent)}
    if context.quick:
        return {PLAIN: ours} | (spark if shape in _OVER_SPARK else {})
    today = {JVM: in_runtime("jvm", partial(chain.ours, count, dependent))}
    return {PLAIN: ours} | today | {SCAN: ours} | spark


def _streams(context: Context) -> Streams:
    plan = context.pick([(2, 3)], [(40, 20), (20, 20), (20, 20)])
    needed, measured = max(map(sum, plan)) + 4, dict[str, dict[str, Times]]()
    chains = {rows: Chain.of(context, rows, STEP) for rows in (_MANY, _SMALL)}
    files = {rows: chain.files(needed) for rows, chain in chains.items()}
    for shape, (rows, count, dependent) in _SHAPES.items():
        sample = context.spark.read.parquet(str(files[rows] / "0000-0.parquet"))
        columns = [*sample.columns, *(f"{x}{i}" for i in range(count) for x in "at")]
        ways = _ways(context, shape, chains[rows])
        checked(count, ways[PLAIN](sample))
        ways[CHOSEN] = partial(chains[rows].theirs, "", count, dependent)
        _check(context, ways, sample, columns)
    for warm, batches in plan:
        none = chains[_MANY].run(NO_JOIN, lambda stream: stream, files[_MANY], warm, batches)
        for shape, (rows, *_) in _SHAPES.items():
            of = measured.setdefault(shape, {})
            _add(context, of, shape, NO_JOIN, none)
            for name, way in _ways(context, shape, chains[rows]).items():
                short = warm if name in (PLAIN, JVM) else min(warm, 5)
                with configured(context.spark, _SETTINGS.get(name, {})):
                    ran = chains[rows].run(name, way, files[rows], short, batches)
                _add(context, of, shape, name, ran)
    return measured


def _check(
    context: Context, ways: Mapping[str, Join], sample: DataFrame, columns: list[str]
) -> None:
    """See that all ways find the same rows, each with its settings."""
    answers = {}
    for name, way in ways.items():
        with configured(context.spark, _SETTINGS.get(name, {})):
            answers[name] = fingerprint(way(sample), columns)
    if not check_equal(answers)[0]:
        raise AssertionError("no way finds rows: the check would be empty")


def _add(context: Context, of: dict[str, Times], shape: str, name: str, times: Times) -> None:
    for what, ms in times.items():
        of.setdefault(name, {}).setdefault(what, []).extend(ms)
    ms = "  ".join(f"{what} {statistics.median(v):6.1f}" for what, v in times.items())
    context.say(f"  {shape:<28} {name:<24} {ms}")


def _counted(context: Context) -> dict[str, list[list[float]]]:
    """``addBatch`` in milliseconds with figures and without, by turn: many short ones."""
    turns, warm, batches = context.pick((2, 2, 5), (12, 10, 20))
    rows, count, dependent = _SHAPES[_COUNTED]
    chain = Chain.of(context, rows, STEP)
    way, files = partial(joined, chain, count, dependent), chain.files(warm + batches + 4)
    sample = context.spark.read.parquet(str(files / "0000-0.parquet"))
    found: dict[str, list[list[float]]] = {PLAIN: [], QUIET: []}
    _check(context, dict.fromkeys(found, way), sample, ["id", f"a{count - 1}", f"t{count - 1}"])
    for turn in range(turns):
        for name in (PLAIN, QUIET) if turn % 2 else (QUIET, PLAIN):
            with configured(context.spark, _SETTINGS.get(name, {})):
                ms = chain.run(name, way, files, warm, batches)["addBatch"]
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


def _call(context: Context) -> list[Figure]:
    """Milliseconds to write down six joins; and beside those with tables that Spark has read."""
    chain = Chain.of(context, _MANY, STEP)
    keys = [F.col("id").alias(f"k{i}") for i in range(_MOST)]
    stream = context.spark.range(10).select("id", *keys)
    known = [one.to_df(context.spark) for one in chain.indexed[:_MOST]]
    ways: dict[str, Callable[[], object]] = {
        "call": lambda: joined(chain, _MOST, False, stream),
        "of Spark": lambda: _with(known, False, stream),
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


def _table(context: Context, streams: Streams) -> Table:
    rows: list[dict[str, Any]] = [
        {"joins": shape, "way": name}
        | {f"{what}, ms": statistics.median(ms) for what, ms in times.items()}
        for shape, by in streams.items()
        for name, times in by.items()
    ]
    shown = Table.of("Plain joins in micro-batches", rows, _NOTE.format(warm=context.pick(2, 40)))
    for what in ("addBatch, ms", "trigger, ms"):
        shown = shown.drawn("bars", "joins", what, by="way", title=what, yscale="log")
    return shown
