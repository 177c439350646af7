"""Throughput and latency by workers: the paper's Tables 1 to 4, Figs. 9 and 10.

The entries are tpc-workers and traffic-workers. One worker and two are measured, each in a process
and Spark session of its own; more come from :mod:`benchmarks.jobs.scaling`.
"""

from __future__ import annotations

import multiprocessing
import statistics
import traceback
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import spark_session
from benchmarks.harness.timing import check_joins
from benchmarks.jobs.database import loaded, server_seconds
from benchmarks.jobs.job import Batches, Job
from benchmarks.jobs.jobs import JOBS, PLANS, read_toml
from benchmarks.jobs.scaling import WORKERS, Database, Fixed, speed_up
from benchmarks.jobs.ways import (
    AQE_ON,
    FULL,
    RECORD,
    RECORD_ROUNDS,
    Ready,
    Runs,
    latency_ms,
    prepared,
    rate,
)

MASTERS = {1: "local[1]", 2: "local[2]"}
CLUSTER = "local-cluster[2,1,1024]"
_TIMEOUT_S = 3_600
_HOW = (
    "One and two workers are measured, more come from a model (simulated): a micro-batch takes "
    "fixed + work / workers; one query per record is bounded by a database of 16 cores, whose "
    "processor time for a record was measured."
)
_WAYS = ("paper", FULL, AQE_ON, RECORD)
_PAPER = read_toml("published")
PUBLISHED = _PAPER["ways"]
TABLES: dict[str, dict[str, dict[int, list[float]]]] = {
    which: {
        job: {int(workers): row for workers, row in rows.items()}
        for job, rows in _PAPER[which].items()
    }
    for which in ("rate", "latency_ms")
}
"""The paper's tables: results a second and milliseconds, by job and workers."""

NUMBERS = {
    one["job"]: (one["throughput_table"], one["latency_table"], one["figure"])
    for name, one in PLANS.items()
    if name.endswith("-workers")
}
"""By job the paper's tables of throughput and of latency, and its figure."""

Predicted = dict[str, dict[int, dict[str, float]]]
"""By way and workers: ``rate`` (results a second) and ``latency_ms``."""


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    entry = PLANS[context.name]
    job, plan = JOBS[entry["job"]], context.pick(entry["quick"], entry["full"])
    batches = Batches(**plan["batches"])
    return outcome(context, job, measure(context, job, entry["kind"], plan["sizes"], batches))


def measure(
    context: Context, job: Job, kind: str, sizes: list[Any], batches: Batches
) -> dict[str, Any]:
    """Measure with one and two workers; full sizes also with two executors of a core each.

    Returns:
        ``masters`` (see :func:`measure_session`), ``kept`` (what could not be measured, and why).
    """
    found: dict[str, Any] = {"masters": {}, "sizes": sizes, "kept": {}, "batches": asdict(batches)}
    spawn = multiprocessing.get_context("spawn")
    settings = (context.quick, context.out, context.data, context.seed)
    with loaded(job, job.tables(context.data, sizes[0])) as url:
        for master in (*MASTERS.values(), *context.pick((), (CLUSTER,))):
            some = sizes if master == MASTERS[2] else sizes[:1]
            asked = (settings, job.name, kind, some, batches, master, url)
            try:
                with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                    one = pool.submit(measure_session, *asked).result(_TIMEOUT_S)
                found["masters"][master] = one
            except RuntimeError as error:  # Spark's test cluster does not start everywhere
                if master != CLUSTER:
                    raise
                found["kept"][CLUSTER] = str(error)[-300:]
                context.say(f"  {CLUSTER}: not measured")
    return found


def measure_session(
    settings: tuple[bool, Path, Path, int],
    name: str,
    kind: str,
    sizes: list[Any],
    batches: Batches,
    master: str,
    url: str,
) -> dict[str, Any]:
    """Check, then time, at every size of the tables, in a new Spark session.

    Returns:
        ``sizes`` (size, way, runs); a run of one query per record has ``demand_s`` (the database's
        processor time for a record); ``fan_out`` (results for each row) and ``master``.

    Raises:
        RuntimeError: it failed; Spark's own errors cannot be pickled.
    """
    spark = spark_session("3g", master=master)
    try:
        context = Context(*settings, say=partial(print, flush=True))
        context.__dict__["spark"] = spark
        found: dict[str, Any] = {"sizes": {}, "master": master}
        for size in sizes:
            # The database has the tables of the first size; other sessions have built bsjoin's.
            base = size == sizes[0]
            kept, place = context.data / "indexed" / f"{name}-{size:g}", url if base else ""
            some = batches if base else replace(batches, larges=0)
            with prepared(context, JOBS[name], size, kept=kept, url=place) as ready:
                found["sizes"][str(size)], fan_out = _measure_size(ready, kind, some)
            found.setdefault("fan_out", fan_out)
        return found
    except Exception as error:
        raise RuntimeError(f"{master}: {error!r}\n{traceback.format_exc()[-1_500:]}") from None
    finally:
        spark.stop()


def _measure_size(ready: Ready, kind: str, batches: Batches) -> tuple[dict[str, Runs], float]:
    context, job, url, spark = ready.context, ready.job, ready.url, ready.context.spark
    names = [FULL, AQE_ON, *([RECORD] if url else [])]
    files = ready.files(kind, batches.sizes)
    rows, records = context.pick((300, 100), (1_000, 1_000))
    events = job.events(ready.size, rows, 0, kind, context.seed).cast(job.arrow)
    sample = spark.createDataFrame(events).localCheckpoint()
    results = check_joins({n: partial(ready.way(n), sample) for n in names}, job.columns)
    if url and not context.quick:  # Spark compiles; not counted
        for name in (FULL, AQE_ON):
            ready.run(name, ready.files(kind, batches.few.sizes), batches.few)
    found, label = {}, f"{spark.sparkContext.master} {ready.size:g}"
    for name in names:
        before = server_seconds(url) if name == RECORD else 0.0
        one = ready.run(name, files, batches, records, label)
        if name == RECORD:
            one["demand_s"] = (server_seconds(url) - before) / (RECORD_ROUNDS * records + 1)
        found[name] = [one]
    return found, results / rows


def predicted(measured: Mapping[str, Any]) -> Predicted:
    """Results a second and milliseconds for every way and number of workers.

    One worker and two are as measured. ``latency_ms`` is of a micro-batch, or of a record where a
    way takes records.
    """
    base = str(measured["sizes"][0])
    ones = {n: measured["masters"][m]["sizes"][base] for n, m in MASTERS.items()}
    fan_out = measured["masters"][MASTERS[1]]["fan_out"]
    large = measured["batches"]["large"]
    found: Predicted = {}
    for name in (FULL, AQE_ON):
        by = {n: (large / rate(one[name]), latency_ms(one[name]) / 1e3) for n, one in ones.items()}
        whole, small = (Fixed.of(by[1][i], by[2][i]) for i in range(2))
        found[name] = {}
        for n in WORKERS:
            long_s, short_s = by.get(n) or (whole.seconds(n), small.seconds(n))
            found[name][n] = {"rate": large / long_s * fan_out, "latency_ms": 1e3 * short_s}
    runs = {n: one[RECORD] for n, one in ones.items()}
    demand_s = statistics.median(one["demand_s"] for one in runs[1])
    model = Database(1 / rate(runs[1]), demand_s)
    found[RECORD] = {
        n: {
            "rate": (rate(runs[n]) if n in runs else model.rate(n)) * fan_out,
            "latency_ms": latency_ms(runs[n]) if n in runs else 1e3 * model.latency_s(n),
        }
        for n in WORKERS
    }
    return found


def outcome(context: Context, job: Job, measured: dict[str, Any]) -> Outcome:
    """The figures, tables and the picture of what :func:`measure` returned."""
    ours = predicted(measured)
    ups = {name: speed_up({n: v["rate"] for n, v in by.items()}) for name, by in ours.items()}
    two = measured["masters"][MASTERS[2]]["sizes"]
    volumes = {
        name: {float(size): latency_ms(two[str(size)][name]) for size in measured["sizes"]}
        for name in (FULL, AQE_ON)
    }
    raw = {"runs": measured, "by_workers": ours, "speed_up": ups, "volumes": volumes}
    tables = [_table(job, measured, ours, which) for which in ("rate", "latency_ms")]
    tables += [_speed_ups(job, ups), _scalability(job, volumes)]
    return Outcome(_figures(job, ours, ups, volumes), tables, measured=raw)


def _figures(job: Job, ours: Predicted, ups: Any, volumes: Any) -> list[Figure]:
    paper, slow = (TABLES[which][job.name] for which in ("rate", "latency_ms"))
    first, second, drawn = NUMBERS[job.name]
    found, mine = [], ours[FULL]
    for n in (1, 2, 128):
        for rival in (RECORD, AQE_ON):
            theirs = f"{paper[n][0] / paper[n][2]:.2f} (Table {first}, OPT / Flink 1.12.2)"
            bound, said = (1.0, theirs) if rival == RECORD else (None, "")
            value, name = mine[n]["rate"] / ours[rival][n]["rate"], f"{FULL} / {rival}"
            what = f"results/s, {name}, {n} workers"
            found.append(Figure(what, value, bound, paper=said, simulated=n > 2))
    for n in (2, 128):
        said = f"{paper[n][0] / paper[1][0]:.2f} (Formula 5, Fig. {drawn}(a))"
        name = f"speed-up of {n} workers, {FULL}"
        found.append(Figure(name, ups[FULL][n], paper=said, simulated=n > 2))
    for n in (2, 128):
        value = mine[n]["latency_ms"] / mine[1]["latency_ms"]
        said = f"{slow[n][0] / slow[1][0]:.2f} (Table {second})"
        name = f"latency of {n} workers / 1, {FULL}"
        found.append(Figure(name, value, at_most=True, paper=said, simulated=n > 2))
    for name, by_size in volumes.items():
        least, most = min(by_size), max(by_size)
        if least < most:
            what = f"ms per micro-batch, {job.size} {most:g} / {least:g}, {name}"
            said = f"nearly constant (Fig. {drawn}(b))" if name == FULL else ""
            found.append(Figure(what, by_size[most] / by_size[least], at_most=True, paper=said))
    return found


def _table(job: Job, measured: Mapping[str, Any], ours: Predicted, which: str) -> Table:
    """The paper's table of throughput or latency, ours beside it."""
    is_rate = which == "rate"
    unit, digits = ("results/s", 0) if is_rate else ("ms", 2)
    number = NUMBERS[job.name][0 if is_rate else 1]

    def row(n: int, values: Mapping[str, float], how: str) -> dict[str, Cell]:
        theirs = dict(zip(PUBLISHED, TABLES[which][job.name][n], strict=True))
        cells = {f"paper, {way}, {unit}": value for way, value in theirs.items()}
        cells |= {f"{name}, {unit}": round(value, digits) for name, value in values.items()}
        return {"workers": n, **cells, "how": how}

    rows = [
        row(n, {name: by[n][which] for name, by in ours.items()}, MASTERS.get(n, "model"))
        for n in WORKERS
    ]
    if CLUSTER in measured["masters"]:
        at = measured["masters"][CLUSTER]
        runs = at["sizes"][str(measured["sizes"][0])]
        of, times = (rate, at["fan_out"]) if is_rate else (latency_ms, 1.0)
        rows.append(row(2, {name: of(runs[name]) * times for name in ours}, CLUSTER))
    what = (
        "Results a second, the stream consumed at full speed."
        if is_rate
        else f"Ours: Spark's addBatch of {measured['batches']['small']:,} rows, in which no record "
        "waits longer; of one query per record, a record. The paper: the calculation time of a "
        "record in windows of 10,000."
    )
    return Table.of(
        f"Table {number}: {'throughput' if is_rate else 'latency'} by workers, {job.name}",
        rows,
        f"{what} {_HOW} Other machines and other data than the paper's: compare ratios.",
    ).drawn("lines", "workers", *_WAYS, xscale="log", yscale="log")


def _speed_ups(job: Job, ups: Any) -> Table:
    paper = TABLES["rate"][job.name]
    rows = [
        {"workers": n}
        | {f"paper, {way}": round(paper[n][i] / paper[1][i], 2) for i, way in enumerate(PUBLISHED)}
        | {name: round(by[n], 2) for name, by in ups.items()}
        | {"how": "measured" if n in MASTERS else "model"}
        for n in WORKERS
    ]
    title = f"Fig. {NUMBERS[job.name][2]}(a): speed-up by Formula 5, {job.name}"
    note = f"The throughput of N workers over that of one. {_HOW}"
    return Table.of(title, rows, note).drawn("lines", "workers", *_WAYS, xscale="log", yscale="log")


def _scalability(job: Job, volumes: Any) -> Table:
    sizes = sorted(volumes[FULL])
    rows = [
        {job.size: size}
        | {f"{name}, ms": round(by[size], 1) for name, by in volumes.items()}
        | {f"{n}, scalability": round(by[sizes[0]] / by[size], 2) for n, by in volumes.items()}
        for size in sizes
    ]
    return Table.of(
        f"Fig. {NUMBERS[job.name][2]}(b): scalability, {job.name}",
        rows,
        "Two workers. Scalability: the time of a micro-batch with the first tables over that with "
        "larger ones; 1 is best. The paper's is a picture without numbers.",
    ).drawn("lines", job.size, f"{FULL}, scalability", f"{AQE_ON}, scalability")
