"""Skewed streams: DS of the first cycle under a new rule, and routing in a Spark stream."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pyarrow as pa

import bsjoin
from benchmarks.data.kept import kept, write_stream
from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import add_batch_ms, file_stream, in_runtime, run_stream
from benchmarks.harness.timing import check_equal, ratio
from benchmarks.papers.joins import skews
from benchmarks.papers.joins.hosts import HOSTS
from benchmarks.papers.joins.skews import PARTITIONS, SPLIT, WAYS
from bsjoin import BatchTable, Hash, HotSpot

NONE, HASH, HOTSPOT, PYTHON = "partition=None", "Hash", "HotSpot", "HotSpot, Python"
_FILES = 2  # one per core: without a shuffle a file is a task
_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    keys, rows = context.pick((1_000_000, 200_000), (10_000_000, 1_000_000))
    pure = skews.measure(keys, rows, context.seed)
    sizes = context.pick((300_000, 50_000, 6), (1_000_000, 1_000_000, 12))
    streamed = _in_a_stream(context, *sizes)
    figures = [
        Figure(f"DS of the first adapted cycle, z 1.16, {n} partitions", pure[1.16][n][SPLIT], 0.05,
               True, paper=_FIG_11)
        for n in (6, 128)
    ]  # fmt: skip
    ms = (streamed[way]["ms"] for way in (HOTSPOT, NONE))
    name = f"addBatch in a Spark stream, {HOTSPOT} / {NONE}"
    figures.append(ratio(name, *ms, 1.3, at_most=True))
    shown = [_first(pure), _streamed(streamed)]
    return Outcome(figures, shown, measured={"pure": pure, "live": streamed})


def _in_a_stream(context: Context, keys: int, rows: int, cycles: int) -> dict[str, Any]:
    """Join a Zipf stream (z 1.16) with a full cache under each way of partitioning.

    Returns:
        For each way ``ms`` (addBatch of each micro-batch but the first two), ``loads`` (rows of
        each partition, cycle by cycle; empty if they are not counted), and what bsjoin reports.
    """
    spark, seed = context.spark, context.seed + 6
    stream = Shifting(keys, 1.16, rows, every=max(2, cycles // 2), seed=seed)
    # The files of a micro-batch have its rows alternately.
    order = np.concatenate([np.arange(part, rows, _FILES) for part in range(_FILES)])
    batches = (
        pa.table({"k": stream.cycle(number)[order], "n": number * rows + order})
        for number in range(cycles)
    )
    source = context.data / f"skewed-{keys}-{rows}-{cycles}-{seed}"
    kept(source, lambda place: write_stream(place, batches, _FILES))
    df = spark.range(keys).selectExpr("id AS k", "id * 2 AS v")
    table = BatchTable.build(df, on="k", unique=True)

    def run(partition: Hash | HotSpot | None, runtime: str = "jvm") -> dict[str, Any]:
        stream = file_stream(spark, "k long, n long", source, _FILES)
        join = in_runtime(runtime, lambda rows: table.join(rows, partition=partition))
        query = run_stream(join(stream), cycles - 1)
        seen = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        ms = add_batch_ms(query)[2:]
        return {
            "ms": ms,
            "rows_per_s": seen[0].rows_in / statistics.median(ms) * 1e3,
            "skews": [cycle.partition.skew for cycle in seen],
            "versions": [cycle.partition.rule_version for cycle in seen],
            "loads": [list(cycle.partition.rows) for cycle in seen],
            "rows_out": sum(cycle.rows_out for cycle in seen),
        }

    hotspot = HotSpot(partitions=HOSTS)
    ways = {NONE: (None,), HASH: (Hash(HOSTS),), HOTSPOT: (hotspot,), PYTHON: (hotspot, "python")}
    for way in (NONE, HOTSPOT):
        run(*ways[way])  # Spark compiles
    found = {way: run(*arguments) for way, arguments in ways.items()}
    check_equal({way: one["rows_out"] for way, one in found.items()})
    for way, one in found.items():
        ms = statistics.median(one["ms"])
        context.say(f"  {way:<15} {ms:7,.0f} ms   {one['rows_per_s']:>9,.0f} rows/s")
    return found


def _first(pure: dict[float, Any]) -> Table:
    rows = [{"exponent": f"{z:g}", "partitions": n} | by[n] for n in PARTITIONS
            for z, by in pure.items()]  # fmt: skip
    note = "Chance alone leaves about the root of partitions over rows."
    made = Table.of("DS of the first adapted cycle (Fig. 11(a))", rows, note)
    return made.drawn("bars", ("exponent", "partitions"), *WAYS, yscale="log", ylabel="DS")


def _streamed(streamed: dict[str, Any]) -> Table:
    rows = [
        {
            "partition": way,
            "ms": statistics.median(one["ms"]),
            "thousand rows/s": one["rows_per_s"] / 1e3,
            "DS under a rule, median": _under_a_rule(one),
            "rows / mean, last micro-batch (Fig. 12)": _shares((one["loads"] or [[]])[-1]),
        }
        for way, one in streamed.items()
    ]
    note = "On one host routing is only a cost, for nothing heavy follows the join."
    return Table.of("A Spark stream with a full cache, exponent 1.16", rows, note)


def _under_a_rule(one: dict[str, Any]) -> float | None:
    counted = zip(one["skews"], one["versions"], strict=True)
    ruled = [skew for skew, version in counted if version]
    return statistics.median(ruled) if ruled else None


def _shares(loads: list[int]) -> str:
    return " ".join(f"{rows / statistics.mean(loads):.2f}" for rows in loads) or "not counted"
