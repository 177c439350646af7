"""One of several intervals, and the n nearest rows, where there is one: what choosing costs."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import Join, consume, fingerprint, in_runtime, persisted
from benchmarks.harness.timing import check_equal, ratio, time_joins
from bsjoin import AsOf, Within

_VERSIONS, _LENGTH = 50, 100
_TAKES = ("latest_start", "earliest_end", "shortest", "first")
_COLUMNS = ["id", "k", "p", "v", "a", "b"]
_BOUND = 1.1


def run(context: Context) -> Outcome:
    """A history without overlaps: every ``take`` has one candidate and the answer of "all"."""
    keys = context.pick(4_000, 20_000)
    spark = context.spark
    versions = spark.range(keys * _VERSIONS).selectExpr(
        "id AS v", f"id DIV {_VERSIONS} AS k", f"{_LENGTH} * (id % {_VERSIONS}) AS a"
    )
    history = versions.selectExpr("*", f"a + {_LENGTH} AS b")
    points = f"pmod(xxhash64(id, {context.seed}), {_VERSIONS * _LENGTH})"
    rows = spark.range(context.pick(200_000, 2_000_000), numPartitions=2)
    stream = persisted(rows.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", f"{points} AS p"))
    try:
        return Outcome([*_taken(context, stream, history), *_nearest(context, stream, history)])
    finally:
        stream.unpersist(blocking=True)


def _taken(context: Context, stream: DataFrame, history: DataFrame) -> list[Figure]:
    def when(take: str) -> Within:
        return Within("p", "a", "b", take=take, order_by="v" if take != "all" else ())  # type: ignore[arg-type]

    built = bsjoin.BatchTable.build(history, on="k", when=when("first"))
    ways = {take: when(take) for take in ("all", *_TAKES)}
    figures = []
    for runtime in ("jvm", "python"):
        joins = {
            name: in_runtime(runtime, partial(_joined, built, one)) for name, one in ways.items()
        }
        figures += _compared(context, f"within, {runtime}", joins, stream, "all")
    return figures


def _nearest(context: Context, stream: DataFrame, history: DataFrame) -> list[Figure]:
    """The last row before, and the two last of which the tolerance leaves one."""
    built = bsjoin.BatchTable.build(history, on="k", when=AsOf("p", "a"))
    one, two = (AsOf("p", "a", tolerance=_LENGTH - 1, n=n) for n in (1, 2))
    figures = []
    for runtime in ("jvm", "python"):
        joins = {
            name: in_runtime(runtime, partial(_joined, built, when))
            for name, when in (("n=1", one), ("n=2", two))
        }
        figures += _compared(context, f"as-of, {runtime}", joins, stream, "n=1")
    return figures


def _joined(built: bsjoin.BatchTable, when: AsOf | Within, stream: DataFrame) -> DataFrame:
    return built.join(stream, when=when)


def _compared(
    context: Context, label: str, joins: dict[str, Join], stream: DataFrame, plain: str
) -> list[Figure]:
    check_equal({name: fingerprint(join(stream), _COLUMNS) for name, join in joins.items()})
    for join in joins.values():
        for _ in range(context.pick(1, 5)):
            consume(join(stream))
    seconds = time_joins(context, label, joins, stream, context.pick(5, 9))
    bound = _BOUND if label.startswith("within") else None
    return [
        ratio(f"{label}: {name} / {plain}", seconds[name], seconds[plain], bound, at_most=True)
        for name in joins
        if name != plain
    ]
