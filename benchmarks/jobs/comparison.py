"""The alternatives to run a job, on the same stream, alternately: tpc-recall, traffic, flights."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pyarrow.parquet as pq

from benchmarks.harness import timing
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.jobs import ways as rivals
from benchmarks.jobs.job import Batches, Job
from benchmarks.jobs.jobs import JOBS, PLANS


def run(context: Context) -> Outcome:
    """Run the job of the entry every way: checked first, then alternately."""
    entry = PLANS[context.name]
    job = JOBS[entry["job"]]
    measured = measure(context, job, **context.pick(entry["quick"], entry["full"]))
    shown = table(measured, f"{entry['title']}: every way", job.size.capitalize())
    found = figures(measured, entry["paper"], entry["over_spark"])
    return Outcome(found, [shown], measured=measured)


def measure(
    context: Context, job: Job, *, size: float, batches: dict[str, int], sample: int = 5_000,
    records: int = 2_000,
) -> dict[str, Any]:  # fmt: skip
    """Check all ways, then time them alternately.

    Returns:
        ``ways`` (runs by way), ``fan_out`` (results for each row of the stream), ``build_s`` and
        ``rows``.
    """
    runs, folder = Batches(**batches), job.tables(context.data, size)
    rows = {step.table: pads.dataset(folder / step.table).count_rows() for step in job.steps}
    context.say(f"  tables: {', '.join(f'{name} {n:,}' for name, n in rows.items())}")
    with rivals.prepared(context, job, size, max_rows=2 * max(rows.values())) as ready:
        fan_out = _check(context, ready, ready.files([sample // 2] * 2))
        for name in (rivals.FULL, rivals.SPARK):  # Spark compiles; not counted
            ready.run(name, ready.files(runs.few.sizes), runs.few)
        files = ready.files(runs.sizes)
        ways = {name: ready.run(name, files, runs, records, job.name) for name in rivals.WAYS}
    found = {"size": size, "rows": rows, "batches": [runs.small, runs.large], "ways": ways}
    return found | {"build_s": ready.build_s, "fan_out": fan_out}


def _check(context: Context, ready: rivals.Ready, files: Path) -> float:
    """Compare all answers to the same rows; returns the number of results for each row."""
    spark, job = context.spark, ready.job
    events = pq.read_table(files).cast(job.arrow)
    stream = spark.createDataFrame(events).localCheckpoint()
    answers = {name: partial(ready.way(name), stream) for name in rivals.WAYS}
    results = timing.check_joins(answers, job.columns)
    context.say(f"  {len(answers)} ways answer the same: {results:,} rows to {events.num_rows:,}")
    return results / events.num_rows


def figures(measured: Mapping[str, Any], paper: str, over_spark: float) -> list[Figure]:
    """The time of each alternative over bsjoin's; more than 1 is good for bsjoin.

    A full cache is compared with Spark, an incremental one with what queries the database.
    """
    full, python, incremental, spark, record = (measured["ways"][name] for name in rivals.WAYS)
    batch = f"addBatch of {measured['batches'][0]:,} rows"
    return [
        ratio(f"{batch}, {rivals.SPARK} / {rivals.FULL}", spark, full, "ms", bound=over_spark),
        ratio(f"rows/s, {rivals.FULL} / {rivals.SPARK}", full, spark, "rates"),
        ratio(f"rows/s, {rivals.INCREMENTAL} / {rivals.RECORD}", incremental, record, "rates",
              bound=1.0, paper=paper),
        ratio(f"{batch}, {rivals.FULL_PYTHON} / {rivals.FULL}", python, full, "ms"),
    ]  # fmt: skip


def ratio(name: str, above: rivals.Run, below: rivals.Run, each: str, **more: Any) -> Figure:
    """A ratio of ``ms`` or ``rates``.

    Its spread is that of the micro-batches: the least of one side over the most of the other, and
    the reverse.
    """
    a, b = above[each], below[each]
    x, y = (statistics.median(run["ms"]) if each == "ms" else run["rate"] for run in (above, below))
    spread = (min(a) / max(b), max(a) / min(b)) if len(a) > 1 or len(b) > 1 else None
    return Figure(name, x / y, spread=spread, **more)


def table(measured: Mapping[str, Any], title: str, size: str) -> Table:
    """Every way with its numbers."""
    small, large = measured["batches"]
    rows: list[dict[str, Any]] = [
        {
            "way": way,
            "runtime": ", ".join(one.get("runtimes", ())) or None,
            f"ms per {small:,} rows": statistics.median(one["ms"]) if "ms" in one else None,
            "least": min(one["ms"]) if "ms" in one else None,
            "most": max(one["ms"]) if "ms" in one else None,
            "rows/s": round(one["rate"]),
            "results/s": round(one["rate"] * measured["fan_out"]),
            "hits, %": 100 * one["hit_rate"] if "hit_rate" in one else None,
        }
        for way, one in measured["ways"].items()
    ]
    names = ", ".join(f"{name} {n:,}" for name, n in measured["rows"].items())
    note = (
        f"{size} {measured['size']:g}: {names} rows. {measured['fan_out']:.2f} results for a row "
        f"of the stream. Latency: Spark's addBatch of {small:,} rows; rows/s: micro-batches of "
        f"{large:,}. bsjoin builds its tables once, in {measured['build_s']:.1f} s."
    )
    shown = Table.of(title, rows, note).drawn("ranked bars", "way", f"ms per {small:,} rows")
    return shown.drawn("ranked bars", "way", "rows/s", xscale="log")
