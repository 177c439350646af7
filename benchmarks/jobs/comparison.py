"""Every alternative to run a job, on the same stream, alternately: tpc-recall, traffic, flights."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
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

_MOST_BROADCAST = 2_000_000  # rows; a larger table takes minutes in every micro-batch


def run(context: Context) -> Outcome:
    """Run the job of the entry every way: checked first, then alternately."""
    entry = PLANS[context.name]
    job = JOBS[entry["job"]]
    measured = measure(context, job, **context.pick(entry["quick"], entry["full"]))
    shown = tables(measured, f"{entry['title']}: every way", job.size.capitalize())
    bound = context.pick(None, entry["over_spark"])
    return Outcome(figures(measured, entry["paper"], bound), shown, measured=measured)


def measure(
    context: Context, job: Job, *, size: float, batches: dict[str, int],
    sample: int = 5_000, records: int = 2_000, skipped: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Check all ways, then time them alternately.

    Returns:
        ``ways`` (runs by way), ``fan_out`` (results for each row of the stream), ``build_s``,
        ``rows`` and ``left_out``.
    """
    runs, folder = Batches(**batches), job.tables(context.data, size)
    rows = {step.table: pads.dataset(folder / step.table).count_rows() for step in job.steps}
    context.say(f"  tables: {', '.join(f'{name} {n:,}' for name, n in rows.items())}")
    most, left_out = max(rows.values()), dict.fromkeys(skipped, "full sizes have it")
    if most > _MOST_BROADCAST:
        left_out[rivals.BROADCAST] = f"a table of {most:,} rows, made anew every micro-batch"
    names = [name for name in rivals.WAYS if name not in left_out]
    with rivals.prepared(context, job, size, max_rows=2 * most) as ready:
        fan_out = _check(context, ready, names, ready.files([sample // 2] * 2))
        for name in (rivals.FULL, rivals.AQE_ON):  # Spark compiles; not counted
            ready.run(name, ready.files(runs.few.sizes), runs.few)
        files = ready.files(runs.sizes)
        ways = {name: ready.run(name, files, runs, records, job.name) for name in names}
    found = {"size": size, "rows": rows, "batches": [runs.small, runs.large]}
    found |= {"build_s": ready.build_s, "left_out": left_out, "fan_out": fan_out}
    return found | {"ways": ways}


def _check(context: Context, ready: rivals.Ready, names: list[str], files: Path) -> float:
    """Compare all answers to the same rows; returns the number of results for each row."""
    spark, job = context.spark, ready.job
    events = pq.read_table(files).cast(job.arrow)
    stream = spark.createDataFrame(events).localCheckpoint()
    answers = {name: partial(ready.way(name), stream) for name in names}
    results = timing.check_joins(answers, job.columns)
    context.say(f"  {len(answers)} ways answer the same: {results:,} rows to {events.num_rows:,}")
    return results / events.num_rows


def figures(
    measured: Mapping[str, Any], paper: str, over_spark: float | None = None
) -> list[Figure]:
    """The time of each alternative over bsjoin's; more than 1 is good for bsjoin.

    A full cache is compared with what has the tables as files or in memory, an incremental one
    with what queries the database. ``over_spark`` is promised of Spark as it chooses.
    """
    ways, found = measured["ways"], []
    batch = f"addBatch of {measured['batches'][0]:,} rows"
    for name, one in ways.items():
        if name in rivals.OURS:
            continue
        ours = rivals.INCREMENTAL if name in (rivals.BATCH, rivals.RECORD) else rivals.FULL
        if name != rivals.RECORD:
            more = {"bound": over_spark} if name == rivals.AQE_ON else {}
            found.append(ratio(f"{batch}, {name} / {ours}", one, ways[ours], "ms", **more))
        promised = {"bound": 1.0, "paper": paper} if name == rivals.RECORD else {}
        found.append(ratio(f"rows/s, {ours} / {name}", ways[ours], one, "rates", **promised))
    if rivals.FULL_PYTHON in ways:
        python, ours = ways[rivals.FULL_PYTHON], ways[rivals.FULL]
        name = f"{rivals.FULL_PYTHON} / {rivals.FULL}"
        found.append(ratio(f"{batch}, {name}", python, ours, "ms"))
    return found


def ratio(name: str, above: rivals.Run, below: rivals.Run, each: str, **more: Any) -> Figure:
    """A ratio of ``ms`` or ``rates``.

    Its spread is that of the micro-batches: the least of one side over the most of the other, and
    the reverse.
    """
    values = [rivals.latency_ms(run) if each == "ms" else run["rate"] for run in (above, below)]
    a, b = above.get(each, ()), below.get(each, ())
    several = len(a) > 1 or len(b) > 1
    spread = (min(a) / max(b), max(a) / min(b)) if several else None
    return Figure(name, values[0] / values[1], spread=spread, **more)


def tables(measured: Mapping[str, Any], title: str, size: str) -> list[Table]:
    """Every way with its numbers."""
    small, large = measured["batches"]
    rows: list[dict[str, Any]] = [
        {
            "way": way,
            "runtime": ", ".join(one.get("runtimes", ())) or None,
            f"ms per {small:,} rows": statistics.median(one["ms"]) if "ms" in one else None,
            "least": min(one["ms"], default=None) if "ms" in one else None,
            "most": max(one["ms"], default=None) if "ms" in one else None,
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
    for name, why in measured["left_out"].items():
        note += f" {name} is left out: {why}."
    shown = Table.of(title, rows, note).drawn("ranked bars", "way", f"ms per {small:,} rows")
    return [shown.drawn("ranked bars", "way", "rows/s", xscale="log")]
