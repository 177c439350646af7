"""Every alternative to run a job, on the same stream, alternately: tpc-recall, traffic, flights."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.timing import check_joins, seconds_of
from benchmarks.jobs.engines import Engine, engines
from benchmarks.jobs.job import Batches, Job
from benchmarks.jobs.jobs import JOBS, PLANS
from benchmarks.jobs.ways import (
    AQE_ON,
    BATCH,
    BROADCAST,
    FULL,
    FULL_HOT,
    INCREMENTAL,
    INCREMENTAL_HOT,
    OURS,
    RECORD,
    WAYS,
    Ready,
    Runs,
    as_frame,
    latency_ms,
    prepared,
    rate,
)

_MOST_BROADCAST = 2_000_000  # rows; a larger table takes minutes in every micro-batch


@dataclass(frozen=True)
class Plan:
    """How much of a job is run.

    Args:
        size: of the tables.
        batches: of the streams.
        kinds: of streams; every way runs on the first, bsjoin and Spark with AQE on all.
        sample: rows on which all answers are compared.
        records: rows on which one query per record is timed.
        skipped: ways that are left out.
    """

    size: float
    batches: dict[str, int]
    kinds: list[str]
    sample: int = 5_000
    records: int = 2_000
    skipped: tuple[str, ...] = ()


def run(context: Context) -> Outcome:
    """Run the job of the entry every way: checked first, then alternately."""
    entry = PLANS[context.name]
    job = JOBS[entry["job"]]
    measured = measure(context, job, Plan(**context.pick(entry["quick"], entry["full"])))
    shown = tables(measured, f"{entry['title']}: every way", job.size.capitalize())
    return Outcome(figures(measured, entry["paper"]), shown, measured=measured)


def measure(context: Context, job: Job, plan: Plan) -> dict[str, Any]:
    """Check all ways, then time them alternately.

    Returns:
        ``ways`` (stream, way, list of runs), ``engines`` (way, seconds by micro-batch size),
        ``fan_out`` (results for each row of the stream), ``build_s``, ``rows`` and ``left_out``.
    """
    batches = Batches(**plan.batches)
    folder = job.tables(context.data, plan.size)
    rows = {step.table: _rows(folder / step.table) for step in job.steps}
    context.say(f"  tables: {', '.join(f'{name} {n:,}' for name, n in rows.items())}")
    most, left_out = max(rows.values()), dict.fromkeys(plan.skipped, "full sizes have it")
    if most > _MOST_BROADCAST:
        left_out[BROADCAST] = f"a table of {most:,} rows, made anew every micro-batch"
    names = [name for name in WAYS if name not in left_out]
    others = engines(job, folder)
    with prepared(context, job, plan.size, max_rows=2 * most) as ready:
        half, first = plan.sample // 2, plan.kinds[0]
        fan_out = _check(context, ready, names, others, ready.files(first, [half, half]))
        for name in (FULL, AQE_ON):  # Spark compiles; not counted
            ready.run(name, ready.files(first, batches.few.sizes), batches.few)
        ways: dict[str, dict[str, Runs]] = {kind: {} for kind in plan.kinds}
        for kind in plan.kinds:
            files = ready.files(kind, batches.sizes)
            for name in names if kind == first else [n for n in names if n in (*OURS, AQE_ON)]:
                ways[kind][name] = [ready.run(name, files, batches, plan.records, kind)]
    alone: dict[str, dict[int, list[float]]] = {name: {} for name in others}
    for count in (batches.small, batches.large):
        events = job.events(plan.size, count, 1, first, context.seed)
        for number in range(4):  # the first round warms up
            for name, engine in others.items():
                seconds = seconds_of(engine, events)
                if number:
                    alone[name].setdefault(count, []).append(seconds)
    found = {"size": plan.size, "rows": rows, "batches": [batches.small, batches.large]}
    found |= {"build_s": ready.build_s, "left_out": left_out, "fan_out": fan_out}
    return found | {"ways": ways, "engines": alone}


def _check(
    context: Context, ready: Ready, names: list[str], others: dict[str, Engine], files: Path
) -> float:
    """Compare all answers to the same rows; returns the number of results for each row."""
    spark, job = context.spark, ready.job
    events = pq.read_table(files).cast(job.arrow)
    stream = spark.createDataFrame(events).localCheckpoint()
    answers: dict[str, Callable[[], DataFrame]] = {}
    for name in names:
        answers[name] = partial(ready.way(name), stream)
        if name in (FULL_HOT, INCREMENTAL_HOT):  # a rule needs earlier micro-batches
            answers[name] = partial(ready.answer_of_stream, name, files)
    for name, engine in others.items():
        answers[name] = partial(lambda engine: as_frame(spark, job, engine(events)), engine)
    results = check_joins(answers, job.columns)
    context.say(f"  {len(answers)} ways answer the same: {results:,} rows to {events.num_rows:,}")
    return results / events.num_rows


def _rows(folder: Path) -> int:
    return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.glob("*.parquet"))


def figures(measured: Mapping[str, Any], paper: str) -> list[Figure]:
    """The time of each alternative over bsjoin's; more than 1 is good for bsjoin.

    A full cache is compared with what has the tables as files or in memory, an incremental one
    with what queries the database.
    """
    first, *others = measured["ways"]
    ways = measured["ways"][first]
    small = measured["batches"][0]
    batch = f"addBatch of {small:,} rows"
    found = []
    for name, runs in ways.items():
        if name in OURS:
            continue
        ours = INCREMENTAL if name in (BATCH, RECORD) else FULL
        if name != RECORD:
            found.append(ratio(f"{batch}, {name} / {ours}", runs, ways[ours], "ms"))
        more = (1.0, paper) if name == RECORD else (None, "")
        found.append(ratio(f"rows/s, {ours} / {name}", ways[ours], runs, "rates", *more))
    for on, off in ((FULL_HOT, FULL), (INCREMENTAL_HOT, INCREMENTAL)):
        for kind, other in measured["ways"].items() if on in ways else ():
            what = f"rows/s, {on} / without" + ("" if kind == first else f", {kind}")
            found.append(ratio(what, other[on], other[off], "rates"))
    for kind in others:
        other = measured["ways"][kind]
        found.append(ratio(f"{batch}, {AQE_ON} / {FULL}, {kind}", other[AQE_ON], other[FULL], "ms"))
    for name, by_rows in measured["engines"].items():
        for rows, seconds in by_rows.items():
            ours_s = latency_ms(ways[FULL]) / 1e3 if rows == small else rows / rate(ways[FULL])
            what = f"seconds of {rows:,} rows, {name} alone / {FULL}"
            spread = (min(seconds) / ours_s, max(seconds) / ours_s)
            found.append(Figure(what, statistics.median(seconds) / ours_s, spread=spread))
    return found


def ratio(
    name: str, above: Runs, below: Runs, each: str, bound: float | None = None, paper: str = ""
) -> Figure:
    """A ratio of ``ms`` or ``rates`` over all rounds, with the least and the most of a round.

    With a single round the spread is that of its micro-batches: the least of one side over the
    most of the other, and the reverse.
    """
    of = latency_ms if each == "ms" else rate
    rounds = [of([a]) / of([b]) for a, b in zip(above, below, strict=False)]
    spread = (min(rounds), max(rounds)) if len(rounds) > 1 else None
    if spread is None:
        a, b = above[0].get(each, ()), below[0].get(each, ())
        if len(a) > 1 or len(b) > 1:
            spread = (min(a) / max(b), max(a) / min(b))
    return Figure(name, of(above) / of(below), bound, spread=spread, paper=paper)


def tables(measured: Mapping[str, Any], title: str, size: str) -> list[Table]:
    """Every way with its numbers, and where bsjoin is slower."""
    small, large = measured["batches"]
    fan_out, first = measured["fan_out"], next(iter(measured["ways"]))

    def row(
        kind: str, way: str, times: list[float], speed: float, hits: float | None = None
    ) -> dict[str, Cell]:
        middle, least, most = (round(f(times), 1) if times else None
                               for f in (statistics.median, min, max))  # fmt: skip
        return {
            "stream": kind, "way": way, f"ms per {small:,} rows": middle, "least": least,
            "most": most, "rows/s": round(speed), "results/s": round(speed * fan_out),
            "hits, %": None if hits is None else round(100 * hits, 1),
        }  # fmt: skip

    rows = []
    for kind, ways in measured["ways"].items():
        for name, runs in ways.items():
            hits = [one["hit_rate"] for one in runs if "hit_rate" in one]
            times = [ms for one in runs for ms in one.get("ms", ())]
            hit_rate = statistics.median(hits) if hits else None
            rows.append(row(kind, name, times, rate(runs), hit_rate))
    for name, by_rows in measured["engines"].items():
        speed = large / statistics.median(by_rows[large])
        rows.append(row(first, f"{name}, alone", [1e3 * s for s in by_rows[small]], speed))
    listed = ", ".join(f"{name} {n:,}" for name, n in measured["rows"].items())
    note = (
        f"{size} {measured['size']:g}: {listed} rows. {fan_out:.2f} results for a row of the "
        f"stream. Latency: Spark's addBatch of {small:,} rows; rows/s: micro-batches of {large:,}. "
        "DuckDB and Polars have the tables in their memory and all rows at once, no stream. bsjoin "
        f"builds its tables once, in {measured['build_s']:.1f} s."
    )
    for name, why in measured["left_out"].items():
        note += f" {name} is left out: {why}."
    ways = ("stream", "way")
    shown = Table.of(title, rows, note).drawn("ranked bars", ways, f"ms per {small:,} rows")
    return [shown.drawn("ranked bars", ways, "rows/s", xscale="log"), slower(measured)]


def slower(measured: Mapping[str, Any]) -> Table:
    """Every alternative that is faster than its counterpart of bsjoin."""
    rows = tuple(
        (one.name, round(one.value, 2), round(1 / one.value, 2))
        for one in figures(measured, "")
        if one.value < 1
    )
    note = (
        "Ratios below 1. With HotSpot the rows pass through a shuffle first: on one host, where "
        "all workers share one cache, it cannot gain anything."
    )
    heads = ("what", "ratio", "times as fast as bsjoin")
    return Table("Where bsjoin is slower", heads, rows, note if rows else "Nowhere in this run.")
