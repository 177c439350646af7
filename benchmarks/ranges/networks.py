"""Addresses in networks: bsjoin in both runtimes, and Spark's own join on prefixes."""

from __future__ import annotations

import ipaddress
from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.spark import consume, in_runtime, persisted
from benchmarks.harness.timing import check_joins, ratio, time_joins
from benchmarks.ranges.range_joins import OURS, PYTHON, timed
from bsjoin.functions import network_end, network_start

_SPARK = "Spark, prefixes"
_LENGTHS = range(12, 33)
_WARM_UP = 5
_WHEN = bsjoin.Within("ip", "first", "last", closed="both")


def run(context: Context) -> Outcome:
    """Full: 500,000 networks and 200,000 addresses; quick: a tenth of both."""
    networks, addresses = context.pick(50_000, 500_000), context.pick(20_000, 200_000)
    random, spark = np.random.default_rng(context.seed), context.spark
    table = persisted(spark.createDataFrame(_networks(random, networks)).repartition(4))
    stream = persisted(spark.createDataFrame(_addresses(random, addresses)).repartition(2))
    ends = {"first": network_start("network"), "last": network_end("network")}
    build_s, built = timed(
        lambda: bsjoin.BatchTable.build(table.withColumns(ends), on=[], when=_WHEN)
    )

    def ours(some: DataFrame) -> DataFrame:
        return built.join(some.withColumn("ip", network_start("address"))).select("id", "v")

    begins = F.split_part("network", F.lit("/"), F.lit(1))
    length = F.split_part("network", F.lit("/"), F.lit(2)).cast("int")
    prefixes = persisted(table.select("v", length.alias("length"), _number(begins).alias("first")))
    joins = {
        OURS: in_runtime("jvm", ours),
        PYTHON: in_runtime("python", ours),
        _SPARK: partial(_by_prefixes, prefixes),
    }
    pairs = check_joins({n: partial(join, stream) for n, join in joins.items()}, ["id", "v"])
    for _ in range(context.pick(0, _WARM_UP)):
        for join in joins.values():
            consume(join(stream))
    size = f"{networks:,} x {addresses:,}"
    seconds = time_joins(context, size, joins, stream, context.pick(3, 9))
    for df in (table, stream, prefixes):
        df.unpersist(blocking=True)
    rows = [{"way": way, "ms": float(np.median(one)) * 1e3} for way, one in seconds.items()]
    title = f"Addresses in networks, {size}, {pairs:,} matches, built in {build_s:.1f} s"
    figures = [
        ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], 1.0)
        for way in (_SPARK, PYTHON)
    ]
    return Outcome(figures, [Table.of(title, rows)], measured=seconds)


def _by_prefixes(prefixes: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: each address with its prefix of every length, joined by equality."""
    lengths = F.explode(F.array(*map(F.lit, _LENGTHS))).alias("length")
    found = stream.select("id", _number(F.col("address")).alias("number"), lengths)
    rest = F.expr("shiftleft(1L, 32 - length)")
    found = found.withColumn("first", F.col("number") - F.col("number") % rest)
    return found.join(prefixes, ["length", "first"]).select("id", "v")


def _number(address: Column) -> Column:
    """An IPv4 address as a number."""
    parts = F.split(address, r"\.")
    places = zip(range(4), (3, 2, 1, 0), strict=True)
    return sum((parts[i].cast("bigint") * 256**power for i, power in places), F.lit(0))


def _networks(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Different networks, most of them of 256 addresses, and many inside of others."""
    lengths = random.choice(_LENGTHS, 2 * rows, p=[0.5 if n == 24 else 0.025 for n in _LENGTHS])
    numbers = random.integers(1 << 24, 224 << 24, 2 * rows) >> 32 - lengths << 32 - lengths
    texts = [f"{ipaddress.IPv4Address(int(n))}/{m}" for n, m in zip(numbers, lengths, strict=True)]
    distinct = pd.unique(pd.Series(texts))[:rows]
    return pd.DataFrame({"v": np.arange(len(distinct)), "network": distinct})


def _addresses(random: np.random.Generator, rows: int) -> pd.DataFrame:
    numbers = random.integers(1 << 24, 224 << 24, rows)
    texts = [str(ipaddress.IPv4Address(int(number))) for number in numbers]
    return pd.DataFrame({"id": np.arange(rows), "address": texts})
