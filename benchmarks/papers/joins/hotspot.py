"""Skewed streams: DS of the first cycle under a new rule, and routing in a Spark stream."""

from __future__ import annotations

import statistics

import numpy as np
import pyarrow as pa

import bsjoin
from benchmarks.data.kept import kept, write_stream
from benchmarks.data.zipf import Shifting
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import add_batch_ms, file_stream, run_stream
from benchmarks.harness.timing import Times, check_equal, outcome, ratio
from benchmarks.papers.joins.paper_hotspots import HOSTS, PARTITIONS, SPLIT, measure
from bsjoin import BatchTable, Hash, HotSpot

NONE, HASH, HOTSPOT = "partition=None", "Hash", "HotSpot"
_FILES = 2  # one per core: without a shuffle a file is a task
_FIG_11 = "DS stays low at every exponent while it grows by hash, Fig. 11(a)"
_NOTE = (
    "DS of the first adapted cycle (Fig. 11(a)): chance alone leaves about the root of partitions "
    "over rows. Then a Spark stream with a full cache, exponent 1.16: on one host routing is only "
    "a cost, for nothing heavy follows the join."
)


def run(context: Context) -> Outcome:
    """Measure; quick: fewer keys and shorter cycles."""
    keys, rows = context.pick((1_000_000, 200_000), (10_000_000, 1_000_000))
    pure = measure(keys, rows, context.seed)
    ms, live = _in_a_stream(
        context, *context.pick((300_000, 50_000, 6), (1_000_000, 1_000_000, 12))
    )
    figures = [
        Figure(f"DS of the first adapted cycle, z 1.16, {n} partitions", pure[1.16][n][SPLIT], 0.05,
               True, paper=_FIG_11)
        for n in (6, 128)
    ]  # fmt: skip
    name = f"addBatch in a Spark stream, {HOTSPOT} / {NONE}"
    figures.append(ratio(name, ms[HOTSPOT], ms[NONE], 1.3, at_most=True))
    shown: dict[str, Times] = {
        f"DS, exponent {z:g}, {n} partitions": {way: [skew] for way, skew in by[n].items()}
        for n in PARTITIONS
        for z, by in pure.items()
    }
    shown |= {"DS in a stream": live, "ms of addBatch in a stream": ms}
    return outcome("Skewed streams", shown, figures, _NOTE, "median")


def _in_a_stream(context: Context, keys: int, rows: int, cycles: int) -> tuple[Times, Times]:
    """Join a Zipf stream (z 1.16) with a full cache under each way of partitioning.

    Returns:
        Milliseconds of ``addBatch`` of each micro-batch but the first two, and DS of those that had
        a rule, by way.
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
    ways = {NONE: None, HASH: Hash(HOSTS), HOTSPOT: HotSpot(partitions=HOSTS)}
    ms, skew, joined = Times(), Times(), dict[str, int]()
    for way in (NONE, HOTSPOT, *ways):  # at first Spark compiles
        read = file_stream(spark, "k long, n long", source, _FILES)
        query = run_stream(table.join(read, partition=ways[way]), cycles - 1)
        seen = [cycle for cycle in bsjoin.progress(query) if cycle.rows_in]
        ms[way], joined[way] = add_batch_ms(query)[2:], sum(cycle.rows_out for cycle in seen)
        ruled = [one.partition.skew for one in seen if one.partition and one.partition.rule_version]
        skew |= {way: ruled} if ruled else {}
        context.say(f"  {way:<15} {statistics.median(ms[way]):7,.0f} ms")
    check_equal(joined)
    return ms, skew
