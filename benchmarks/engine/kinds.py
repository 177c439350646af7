"""Each kind of condition and key in both runtimes, with both caches, at once and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.data.kept import parquet
from benchmarks.data.tables import versions, with_points
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Outcome
from benchmarks.harness.spark import Join, in_memory, in_runtime, rate_stream, time_batches
from benchmarks.harness.timing import Times
from bsjoin import AsOf, Band, BatchTable, Incremental, Overlaps, Within
from bsjoin.functions import network_end, network_start

_VERSIONS, _LENGTH = 100, 100
_INSIDE, _RECENT = Within("p", "a", "b"), Band("p", "a", _LENGTH - 1, 0)
_NEAREST: dict[str, Any] = {"tolerance": _LENGTH - 1, "n": 2}
_NETWORK = Within("ip", "first", "last", "both", "shortest", "v")
_TEXT, _COLLATION = "concat('Key-', k)", "COLLATE UTF8_LCASE"
_FULL = ("full, python", "incremental, cached", "full, jvm")

Kind = tuple[dict[str, Any], dict[str, Any], str]
"""What a table is built with, what a join is given besides, and the result's column ``v``."""

_NOT_INCREMENTAL = ("collated", "latest")  # see docs/limits.md


def run(context: Context) -> Outcome:
    """Quick: a tenth of the rows, and of the streams one kind."""
    keys = context.pick(1_000, 10_000)
    folder = context.data / f"versions-{keys}"
    joins = _joins(parquet(folder, _history(context, keys).coalesce(1)), folder)

    times: dict[str, Times] = {}
    ids = context.spark.range(context.pick(30_000, 300_000), numPartitions=2)
    with in_memory(_probes(context, keys, ids)) as (stream,):
        for kind, ways in joins.items():
            times[kind] = timing.compare_joins(
                context, kind, ways, stream, ["id", "v"], context.pick(1, 3)
            )[1]
    rate = rate_stream(context.spark, 10_000).selectExpr("value AS id")
    stream = _probes(context, keys, rate)
    streams = {NO_JOIN: stream} | {
        f"{kind}, {way}": join(stream)
        for kind, ways in list(joins.items())[: context.pick(1, None)]
        for way, join in ways.items()
    }
    many = context.pick((3, 2), (10, 30))  # until the JVM has compiled what each plan runs
    times["stream, addBatch"] = {
        name: [ms / 1e3 for ms in time_batches(df, *many)] for name, df in streams.items()
    }
    figures = timing.over_first(times)
    return timing.outcome("Kinds of conditions and keys by cache and runtime", times, figures)


def _history(context: Context, keys: int) -> DataFrame:
    """The versions of each key, each with a network of its own."""
    rows = versions(context.spark, keys, _VERSIONS, _LENGTH)
    network = F.expr(f"concat('10.', a DIV {_LENGTH}, '.0.0/16')")
    return rows.withColumns({"first": network_start(network), "last": network_end(network)})


def _probes(context: Context, keys: int, ids: DataFrame) -> DataFrame:
    """A key and a point for each number, the interval ``s`` to ``e`` and the network around it."""
    rows = with_points(ids, keys, _VERSIONS * _LENGTH, context.seed)
    address = F.expr(f"concat('10.', p DIV {_LENGTH}, '.7.9')")
    rows = rows.selectExpr("*", f"p DIV {_LENGTH} * {_LENGTH} AS s")
    return rows.selectExpr("*", f"s + {_LENGTH} AS e").withColumn("ip", network_start(address))


def _kinds() -> dict[str, Kind]:
    """All kinds, by name; columns need a session."""
    other_case = f"upper({_TEXT}) {_COLLATION}"
    return {
        "where": ({"when": _INSIDE}, {"where": "v >= 0 AND id >= 0"}, "v"),
        "list": ({"when": [_INSIDE, _RECENT]}, {}, "v"),
        "take": ({"when": Within("p", "a", "b", take="shortest", order_by="v")}, {}, "v"),
        "n nearest": ({"when": AsOf("p", "a", **_NEAREST)}, {}, "v"),
        "array": ({"when": AsOf("p", "a", **_NEAREST, collect="near")}, {}, "near[0].v AS v"),
        "aggregates": ({"when": Band("p", "a", _LENGTH - 1, 0, agg={"v": "max(v)"})}, {}, "v"),
        "contains": ({"when": Overlaps(("s", "e"), ("a", "b"), relation="contains")}, {}, "v"),
        "null-safe": ({"nulls_equal": True, "when": _INSIDE}, {"nulls_equal": True}, "v"),
        "expression": ({"when": _INSIDE}, {"on": [(F.col("k") + 0, "k")]}, "v"),
        "collated": ({"on": "name", "when": _INSIDE}, {"on": [(F.expr(other_case), "name")]}, "v"),
        "latest": ({"latest_by": "a"}, {}, "v"),
        "network": ({"when": _NETWORK}, {}, "v"),
    }  # fmt: skip


def _joins(history: DataFrame, folder: Any) -> dict[str, dict[str, Join]]:
    """The joins of all kinds, by the way: each row of a stream has one match."""
    cache, source = Incremental(max_rows=1 << 24), bsjoin.sources.parquet(folder)
    named = history.withColumn("name", F.expr(f"{_TEXT} {_COLLATION}"))

    def selected(join: Callable[..., DataFrame], value: str, given: dict[str, Any]) -> Join:
        return lambda stream: join(stream, **given).selectExpr("id", value)

    joins: dict[str, dict[str, Join]] = {}
    for kind, (built, given, value) in _kinds().items():
        given_on = {"on": "k", **built}
        rows = named if given_on["on"] == "name" else history
        join = BatchTable.build(rows, **given_on).join
        full = selected(join, value, given)
        by = {"full, python": in_runtime("python", full), "full, jvm": in_runtime("jvm", full)}
        if kind not in _NOT_INCREMENTAL:
            more = {"on": "k", **built, **given, "batch": source, "cache": cache}
            by["incremental, cached"] = selected(bsjoin.join, value, more)
        joins[kind] = {way: by[way] for way in _FULL if way in by}
    return joins
