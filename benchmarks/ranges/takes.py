"""One of several intervals, and the n nearest rows, where there is one: what choosing costs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import in_memory, in_runtime
from benchmarks.harness.timing import compare_joins, ratio
from bsjoin import AsOf, Within

_VERSIONS, _LENGTH = 50, 100
_TAKES = ("latest_start", "earliest_end", "shortest", "first")
_COLUMNS = ["id", "k", "p", "v", "a", "b"]


def run(context: Context) -> Outcome:
    """A history without overlaps: every ``take`` has one candidate and the answer of "all".

    Of the two last rows before a point the tolerance leaves one.
    """
    keys, spark = context.pick(4_000, 20_000), context.spark
    versions = spark.range(keys * _VERSIONS).selectExpr(
        "id AS v", f"id DIV {_VERSIONS} AS k", f"{_LENGTH} * (id % {_VERSIONS}) AS a"
    )
    history = versions.selectExpr("*", f"a + {_LENGTH} AS b")
    points = f"pmod(xxhash64(id, {context.seed}), {_VERSIONS * _LENGTH})"
    rows = spark.range(context.pick(200_000, 2_000_000), numPartitions=2)
    rows = rows.selectExpr("id", f"pmod(xxhash64(id), {keys}) AS k", f"{points} AS p")
    takes = {"all": Within("p", "a", "b")}
    takes |= {take: Within("p", "a", "b", take=take, order_by="v") for take in _TAKES}  # type: ignore[arg-type]
    nearest = {f"n={n}": AsOf("p", "a", tolerance=_LENGTH - 1, n=n) for n in (1, 2)}
    with in_memory(rows) as (stream,):
        return Outcome(
            [
                *_compared(context, "within", stream, history, takes["first"], takes, 1.1),
                *_compared(context, "as-of", stream, history, AsOf("p", "a"), nearest, None),
            ]
        )


def _compared(
    context: Context, what: str, stream: DataFrame, history: DataFrame, built: AsOf | Within,
    ways: Mapping[str, AsOf | Within], bound: float | None,
) -> list[Figure]:  # fmt: skip
    """Each way over the first, in both runtimes; ``built``: the condition of the index."""
    table = bsjoin.BatchTable.build(history, on="k", when=built)
    first, *others = ways
    figures = []
    for runtime in ("jvm", "python"):
        joins = {
            name: in_runtime(runtime, partial(table.join, when=one)) for name, one in ways.items()
        }
        label, rounds = f"{what}, {runtime}", context.pick(5, 9)
        warm_ups = context.pick(1, 5)
        _, times = compare_joins(context, label, joins, stream, _COLUMNS, rounds, warm_ups)
        figures += [
            ratio(f"{label}: {name} / {first}", times[name], times[first], bound, at_most=True)
            for name in others
        ]
    return figures
