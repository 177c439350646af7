"""Addresses in networks: bsjoin in both runtimes, and Spark's own join on prefixes."""

from __future__ import annotations

import ipaddress
from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Context, Outcome, Table
from benchmarks.harness.spark import PYTHON, in_memory, in_runtimes
from benchmarks.harness.timing import compare_joins, ratio, rows_by_way, timed
from benchmarks.ranges.range_joins import OURS
from bsjoin.functions import network_end, network_start

_SPARK = "Spark, prefixes"
_LENGTHS = range(12, 33)
_WHEN = bsjoin.Within("ip", "first", "last", closed="both")
_SUM = " + ".join(
    f"CAST(split_part({{0}}, '.', {part}) AS bigint) * {256 ** (4 - part)}" for part in range(1, 5)
)
"""An IPv4 address as a number."""


def run(context: Context) -> Outcome:
    """Full: 500,000 networks and 200,000 addresses; quick: a tenth of both."""
    networks, addresses = context.pick((50_000, 20_000), (500_000, 200_000))
    random, spark = np.random.default_rng(context.seed), context.spark
    made = spark.createDataFrame(_networks(random, networks)).repartition(4)
    stream = spark.createDataFrame(_addresses(random, addresses)).repartition(2)
    prefix = "split_part(network, '/', {})".format
    begin = f"{_SUM.format(prefix(1))} AS first"
    prefixes = made.selectExpr("v", f"CAST({prefix(2)} AS int) AS length", begin)
    size = f"{networks:,} x {addresses:,}"
    with in_memory(made, stream, prefixes) as (table, _, prefixes):
        ends = {"first": network_start("network"), "last": network_end("network")}
        rows = table.withColumns(ends)
        build_s, built = timed(partial(bsjoin.BatchTable.build, rows, on=[], when=_WHEN))

        def ours(some: DataFrame) -> DataFrame:
            return built.join(some.withColumn("ip", network_start("address"))).select("id", "v")

        joins = in_runtimes(ours, OURS) | {_SPARK: partial(_by_prefixes, prefixes)}
        rounds, warm_ups = context.pick((3, 0), (9, 5))
        pairs, seconds = compare_joins(context, size, joins, stream, ["id", "v"], rounds, warm_ups)
    title = f"Addresses in networks, {size}, {pairs:,} matches, built in {build_s:.1f} s"
    figures = [
        ratio(f"{size}: {way} / bsjoin", seconds[way], seconds[OURS], 1.0)
        for way in (_SPARK, PYTHON)
    ]
    return Outcome(figures, [Table.of(title, rows_by_way(seconds))], measured=seconds)


def _by_prefixes(prefixes: DataFrame, stream: DataFrame) -> DataFrame:
    """The usual workaround: each address with its prefix of every length, joined by equality."""
    lengths = F.explode(F.array(*map(F.lit, _LENGTHS))).alias("length")
    found = stream.select("id", F.expr(_SUM.format("address")).alias("number"), lengths)
    found = found.withColumn("first", F.expr("number - number % shiftleft(1L, 32 - length)"))
    return found.join(prefixes, ["length", "first"]).select("id", "v")


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
