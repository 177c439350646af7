"""The alternatives to run a job, on the same stream, alternately: tpc-recall, traffic, flights."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial

import pyarrow.parquet as pq

from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.timing import Times
from benchmarks.jobs.jobs import JOBS, PLANS, Job
from benchmarks.jobs.ways import FULL, INCREMENTAL, RECORD, SPARK, WAYS, prepared

RATES = "rows/s"
_NOTE = (
    "Spark's addBatch of small micro-batches, in ms, and the rows a second of large ones; one "
    "query per record takes few rows, no stream."
)


def run(context: Context) -> Outcome:
    """Run the job of the entry every way: checked first, then timed."""
    entry = PLANS[context.name]
    sizes = context.pick(entry["quick"], entry["full"])
    times = measure(context, JOBS[entry["job"]], **sizes)
    found = figures(times, entry["paper"], entry["over_spark"])
    return timing.outcome(f"{entry['title']}: every way", times, found, _NOTE, "median")


def measure(
    context: Context, job: Job, *, size: float, batches: Mapping[str, int], sample: int = 5_000,
    records: int = 2_000,
) -> dict[str, Times]:  # fmt: skip
    """Check all ways, then run the stream through each: ms of small micro-batches, and rows/s.

    ``batches``: ``small`` has the rows of a small one, of which ``warm`` come before ``smalls``
    that are counted; ``large`` those of a large one, of which one comes before ``larges`` that are
    counted. ``sample`` rows are checked; one query per record takes ``records``.
    """
    small, large, first = batches["small"], batches["large"], batches["warm"]
    last = first + batches["smalls"]
    with prepared(context, job, size) as ready:
        part = ready.files([sample // 2] * 2)
        stream = context.spark.createDataFrame(pq.read_table(part).cast(job.arrow))
        stream = stream.localCheckpoint()
        answers = {name: partial(ready.way(name), stream) for name in WAYS}
        rows = timing.check_joins(answers, job.columns)
        context.say(f"  {len(answers)} ways answer the same: {rows:,} rows to {sample:,}")
        for name in (FULL, SPARK):  # Spark compiles; not counted
            ready.run(name, ready.files([small] * 2))
        files = ready.files([small] * last + [large] * (1 + batches["larges"]))
        ms: Times = {}
        rates: Times = {RECORD: ready.records(files, records)}
        for name in (one for one in WAYS if one != RECORD):
            every = ready.run(name, files)
            ms[name] = every[first:last]
            rates[name] = [large / one * 1e3 for one in every[last + 1 :]]
            told = f"{statistics.median(ms[name]):8.0f} ms {rates[name][-1]:>12,.0f} rows/s"
            context.say(f"  {job.name:<9} {name:<30} {told}")
    return {f"addBatch of {small:,} rows": ms, RATES: rates}


def figures(times: Mapping[str, Times], paper: str, over_spark: float) -> list[Figure]:
    """The time of each alternative over bsjoin's; more than 1 is good for bsjoin.

    A full cache is compared with Spark, an incremental one with what queries the database.
    """
    (batch, ms), (_, rates) = times.items()
    return [
        timing.ratio(f"{batch}, {SPARK} / {FULL}", ms[SPARK], ms[FULL], over_spark),
        timing.ratio(f"{RATES}, {FULL} / {SPARK}", rates[FULL], rates[SPARK]),
        timing.ratio(f"{RATES}, {INCREMENTAL} / {RECORD}", rates[INCREMENTAL], rates[RECORD], 1.0,
                     paper=paper),
    ]  # fmt: skip
