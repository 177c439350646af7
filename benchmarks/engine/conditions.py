"""What kinds of conditions and keys cost: joins with them and without, which answer the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import parquet
from benchmarks.engine.bulk import one_table
from benchmarks.engine.chain import STEP
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import (
    Join,
    fingerprint,
    in_memory,
    in_runtime,
    rate_stream,
    time_batches,
)
from benchmarks.harness.timing import Times, ratio
from bsjoin import AsOf, Band, BatchTable, Incremental, Overlaps, Within

_TAKES = ("latest_start", "earliest_end", "shortest", "first")
_BOUNDS = {"where": 1.1, "indicator": 1.05} | dict.fromkeys(_TAKES, 1.1)
_ROUNDS = {"jvm": 7, "python": 5}
"""Of full runs: the effect is as large as the spread of a few."""
_VERSIONS, _LENGTH = 50, 100
_PASSES = "v >= 0 AND id >= 0"
_INSIDE, _RECENT = Within("p", "a", "b"), Band("p", "a", _LENGTH - 1, 0)
_TAKEN = {take: Within("p", "a", "b", take=take, order_by="v") for take in _TAKES}  # type: ignore[arg-type]
_NEAREST = {f"n={n}": AsOf("p", "a", tolerance=_LENGTH - 1, n=n) for n in (1, 2)}
_RELATED = {
    "overlaps": Overlaps(("s", "e"), ("a", "b")),
    "contains": Overlaps(("s", "e"), ("a", "b"), relation="contains"),
    "at_least": Overlaps(("s", "e"), ("a", "b"), at_least=_LENGTH),
}


def run(context: Context) -> Outcome:
    """Quick: some twentieth of the rows, and of the streams one kind of condition."""
    return Outcome.of({**_keys(context), "builds": _builds(context), **_ranges(context)})


def _over_first(title: str, times: Mapping[str, Times]) -> Outcome:
    """By label the first way, and how much of its time the others take."""
    figures = [
        ratio(f"{label}: {way} / {first}", by[way], by[first], _BOUNDS.get(way), at_most=True,
              by_round=True)
        for label, by in times.items()
        for first, *others in [by]
        for way in others
    ]  # fmt: skip
    return timing.outcome(f"Kinds of conditions and keys: {title}", times, figures)


def _compared(context: Context, label: str, ways: Mapping[str, Join], stream: DataFrame) -> Outcome:
    """The ways in both runtimes."""
    times = {}
    for runtime, rounds in context.pick({"jvm": 1, "python": 1}, _ROUNDS).items():
        joins = {name: in_runtime(runtime, way) for name, way in ways.items()}
        what, columns = f"{label}, {runtime}", [*stream.columns, "v"]
        times[what] = timing.compare_joins(context, what, joins, stream, columns, rounds)[1]
    return _over_first(label, times)


def _keys(context: Context) -> dict[str, Outcome]:
    """By one key, which is never null, of a table whose rows all pass."""
    rows, size = context.pick((100_000, 50_000), (2_000_000, 1_000_000))
    files, joins = one_table(context, rows, size, STEP)
    table = joins.frames[0].withColumnRenamed("amount", "v")
    text = "concat('key-', k)"
    kinds = {"text": text, "collated": f"{text} COLLATE UTF8_LCASE"}
    build = partial(BatchTable.build, unique=True)
    with_texts = table.withColumns({name: F.expr(key) for name, key in kinds.items()})
    by_text = {
        name: partial(build(with_texts, on=name).join, on=[(F.expr(key), name)], select=["v"])
        for name, key in kinds.items()
    }
    join = build(table, on="k").join
    more: dict[str, dict[str, Any]] = {
        "without": {}, "where": {"where": _PASSES}, "indicator": {"indicator": "found"},
    }  # fmt: skip
    left = {name: partial(join, how="left", **given) for name, given in more.items()}
    inner = {name: partial(join, **given) for name, given in more.items()} | {
        "null-safe": partial(build(table, on="k", nulls_equal=True).join, nulls_equal=True),
        "expression": partial(join, on=[(F.col("k") + 0, "k")]),
    }
    with in_memory(files) as (stream,):
        labelled = {"inner": inner, "left": left, "text key": by_text}
        return {label: _compared(context, label, ways, stream) for label, ways in labelled.items()}


def _history(context: Context) -> tuple[int, DataFrame]:
    """How many keys, and versions ``v`` of each, from ``a`` until ``b``, where the next begins."""
    keys = context.pick(2_000, 20_000)
    versions = context.spark.range(keys * _VERSIONS, numPartitions=2).selectExpr(
        "id AS v", f"id DIV {_VERSIONS} AS k", f"{_LENGTH} * (id % {_VERSIONS}) AS a"
    )
    return keys, versions.selectExpr("*", f"a + {_LENGTH} AS b")


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
        _, times = timing.compare(context, "build", right, ways, context.pick(1, 3))
    ours = times["latest_by"]
    figures = [ratio(f"build: {name} / latest_by", times[name], ours, bound)
               for name, bound in (("all rows", None), ("Spark's window", 1.0))]  # fmt: skip
    return timing.outcome("Builds that keep the latest rows", {"build": times}, figures)


def _ranges(context: Context) -> dict[str, Outcome]:
    """Each row has one match, which is the one to take, is related in all ways, and passes."""
    keys, made = _history(context)
    folder = context.data / f"history-{keys}"
    history = parquet(folder, made.coalesce(1))
    intervals = BatchTable.build(history, on="k", when=_TAKEN["first"])
    points = BatchTable.build(history, on="k", when=AsOf("p", "a"))

    def probes(ids: DataFrame) -> DataFrame:
        point = f"pmod(xxhash64(id, {context.seed}), {_VERSIONS * _LENGTH})"
        begin, key = f"{point} DIV {_LENGTH} * {_LENGTH}", f"pmod(xxhash64(id), {keys}) AS k"
        ends = f"{begin} AS s", f"{begin} + {_LENGTH} AS e"
        return ids.selectExpr("id", key, f"{point} AS p", *ends)

    def ways(table: BatchTable, conditions: Mapping[str, Any]) -> dict[str, Join]:
        return {name: partial(table.join, when=when) for name, when in conditions.items()}

    within = ways(intervals, {"all": _INSIDE, **_TAKEN})
    within["where"] = partial(intervals.join, when=_INSIDE, where=_PASSES)
    labelled = {
        "within": within,
        "overlaps": ways(intervals, _RELATED),
        "as-of": ways(points, _NEAREST),
    }
    kinds: dict[str, tuple[BatchTable, dict[str, Any]]] = {
        "take": (intervals, {"when": _TAKEN["shortest"]}),
        "n nearest": (points, {"when": _NEAREST["n=2"]}),
        "where": (intervals, {"when": _INSIDE, "where": _PASSES}),
        "list": (intervals, {"when": [_INSIDE, _RECENT]}),
        "aggregates": (points, {"when": Band("p", "a", _LENGTH - 1, 0, agg={"v": "max(v)"})}),
        "contains": (intervals, {"when": _RELATED["contains"]}),
    }
    cache, source = Incremental(max_rows=1 << 24), bsjoin.sources.parquet(folder)
    by_kind: dict[str, dict[str, Join]] = {
        kind: {
            "full, python": in_runtime("python", partial(table.join, **given)),
            "incremental, cached": partial(bsjoin.join, batch=source, on="k", cache=cache, **given),
            "full, jvm": in_runtime("jvm", partial(table.join, **given)),
        }
        for kind, (table, given) in kinds.items()
    }
    ids = context.spark.range(context.pick(50_000, 300_000), numPartitions=2)
    with in_memory(probes(ids)) as (stream,):
        found = {label: _compared(context, label, some, stream) for label, some in labelled.items()}
        times = {
            kind: timing.compare_joins(
                context, kind, some, stream, ["id", "v"], context.pick(1, 3)
            )[1]
            for kind, some in by_kind.items()
        }
    found["caches"] = _over_first("caches", times)
    stream = probes(rate_stream(context.spark, 10_000).selectExpr("value AS id"))
    streams = {NO_JOIN: stream} | {
        f"{kind}, {way}": join(stream)
        for kind, some in list(by_kind.items())[: context.pick(1, None)]
        for way, join in some.items()
    }
    many = context.pick((3, 2), (8, 4))
    batches = {name: [ms / 1e3 for ms in time_batches(df, *many)] for name, df in streams.items()}
    found["streams"] = _over_first("streams", {"stream, addBatch": batches})
    return found
