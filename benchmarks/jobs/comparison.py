"""The alternatives to run a job, one after the other on the same stream: tpc-recall, traffic."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.timing import Times
from benchmarks.jobs.jobs import JOBS, PLANS, Job
from benchmarks.jobs.ways import FULL, INCREMENTAL, RECORD, SPARK, WAYS, prepared

RATES, BUILD = "rows/s", "seconds of the build"
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

    With them are the seconds in which bsjoin's tables were built. Python workers are checked only.

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
        for name in (FULL, INCREMENTAL, SPARK):
            every = ready.run(name, files)
            ms[name] = every[first:last]
            rates[name] = [large / one * 1e3 for one in every[last + 1 :]]
            told = f"{statistics.median(ms[name]):8.0f} ms {rates[name][-1]:>12,.0f} rows/s"
            context.say(f"  {job.name:<9} {name:<30} {told}")
    return {f"addBatch of {small:,} rows": ms, RATES: rates, BUILD: {FULL: [ready.build_s]}}


def figures(times: Mapping[str, Times], paper: str, over_spark: float) -> list[Figure]:
    """The time of each alternative over bsjoin's; more than 1 is good for bsjoin.

    A full cache is compared with Spark, an incremental one with what queries the database.
    """
    (batch, ms), (_, rates), *_ = times.items()
    return [
        ratio(f"{batch}, {SPARK} / {FULL}", ms[SPARK], ms[FULL], bound=over_spark),
        ratio(f"{RATES}, {FULL} / {SPARK}", rates[FULL], rates[SPARK]),
        ratio(f"{RATES}, {INCREMENTAL} / {RECORD}", rates[INCREMENTAL], rates[RECORD], bound=1.0,
              paper=paper),
    ]  # fmt: skip


def ratio(name: str, above: Sequence[float], below: Sequence[float], **more: Any) -> Figure:
    """The ratio of the medians of micro-batches, of which none belongs to one of the other side.

    Its spread is from the least of one side over the most of the other to the reverse; None if
    each has one.
    """
    value = statistics.median(above) / statistics.median(below)
    spread = min(above) / max(below), max(above) / min(below)
    several = len(above) > 1 or len(below) > 1
    return Figure(name, value, spread=spread if several else None, **more)
