"""What kinds of conditions and keys cost: joins with them and without, which answer the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data.kept import parquet
from benchmarks.data.tables import scattered, table, versions, with_points
from benchmarks.engine.chain import STEP
from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import Join, fingerprint, in_memory, in_runtime
from benchmarks.harness.timing import Times, ratio
from bsjoin import BatchTable, Within

_TAKES = ("latest_start", "earliest_end", "shortest", "first")
_BOUNDS = {"where": 1.1, "indicator": 1.05} | dict.fromkeys(_TAKES, 1.1)
_ROWS, _ROUNDS = {"jvm": 12_000_000, "python": 5_000_000}, 5
"""Of a stream in full runs: beside seconds, a call and the plan of a join are short."""
_VERSIONS, _LENGTH = 50, 100
_PASSES = "v >= 0 AND id >= 0"
_INSIDE = Within("p", "a", "b")
_TAKEN = {take: Within("p", "a", "b", take=take, order_by="v") for take in _TAKES}  # type: ignore[arg-type]

Kind = tuple[str, Callable[[DataFrame], DataFrame], dict[str, Join]]
"""A kind of join, the stream of some numbers ``id``, and ways, of which the first is divided by."""


def run(context: Context) -> Outcome:
    """Quick: less than a twentieth of the rows."""
    times: dict[str, Times] = {}
    for kind, stream_of, ways in (*_by_key(context), _within(context)):
        for runtime, rows in _ROWS.items():
            label = f"{kind}, {runtime}"
            joins = {name: in_runtime(runtime, way) for name, way in ways.items()}
            ids = context.spark.range(context.pick(100_000, rows), numPartitions=2)
            with in_memory(stream_of(ids)) as (stream,):
                columns, rounds = [*stream.columns, "v"], context.pick(1, _ROUNDS)
                times[label] = timing.compare_joins(context, label, joins, stream, columns, rounds)[
                    1
                ]
    figures = timing.over_first(times, _BOUNDS, by_round=True)
    joined = timing.outcome("Kinds of conditions and keys", times, figures)
    return Outcome.of({"joins": joined, "builds": _builds(context)})


def _by_key(context: Context) -> Iterator[Kind]:
    """By one key, which is never null, of a table whose rows all pass."""
    size = context.pick(50_000, 1_000_000)
    rows = table(context.spark, size, context.data).withColumnRenamed("amount", "v")
    rows = rows.withColumn("k", F.col("k") * STEP)

    def stream_of(ids: DataFrame) -> DataFrame:
        return ids.select((scattered(F.col("id"), size, context.seed) * STEP).alias("k"), "id")

    build = partial(BatchTable.build, rows, on="k", unique=True)
    join = build().join
    more: dict[str, dict[str, Any]] = {
        "without": {}, "where": {"where": _PASSES}, "indicator": {"indicator": "found"},
    }  # fmt: skip
    inner = {name: partial(join, **given) for name, given in more.items()} | {
        "null-safe": partial(build(nulls_equal=True).join, nulls_equal=True),
        "expression": partial(join, on=[(F.col("k") + 0, "k")]),
    }
    yield "inner", stream_of, inner
    yield "left", stream_of, {name: partial(join, how="left", **more[name]) for name in more}


def _history(context: Context) -> tuple[int, DataFrame]:
    """How many keys, and the versions of each."""
    keys = context.pick(2_000, 20_000)
    return keys, versions(context.spark, keys, _VERSIONS, _LENGTH)


def _within(context: Context) -> Kind:
    """Each row has one match, which is the one to take."""
    keys, made = _history(context)
    history = parquet(context.data / f"history-{keys}", made.coalesce(1))
    join = BatchTable.build(history, on="k", when=_TAKEN["first"]).join

    def stream_of(ids: DataFrame) -> DataFrame:
        return with_points(ids, keys, _VERSIONS * _LENGTH, context.seed)

    taken = {take: partial(join, when=when) for take, when in _TAKEN.items()}
    where = partial(join, when=_INSIDE, where=_PASSES)
    return "within", stream_of, {"all": partial(join, when=_INSIDE), "where": where, **taken}


def _builds(context: Context) -> Outcome:
    """Builds that keep the latest row of each key, of all rows, and of those of a window."""
    with in_memory(_history(context)[1]) as (history,):
        order = Window.partitionBy("k").orderBy(F.desc("a"))
        last = history.withColumn("place", F.row_number().over(order)).where("place = 1")
        build = partial(BatchTable.build, on="k")
        ways = {
            "latest_by": partial(build, history, latest_by="a"),
            "all rows": partial(build, history),
            "Spark's window": partial(build, last.drop("place")),
        }
        right = {
            name: partial(fingerprint, way().to_df(context.spark), ["k", "v", "a", "b"])
            for name, way in ways.items()
            if name != "all rows"
        }
        _, times = timing.compare(context, "build", right, ways, context.pick(1, 5))
    ours = times["latest_by"]
    figures = [ratio(f"build: {name} / latest_by", times[name], ours, bound)
               for name, bound in (("all rows", None), ("Spark's window", 1.0))]  # fmt: skip
    return timing.outcome("Builds that keep the latest rows", {"build": times}, figures)
