"""Throughput and latency by workers: the paper's Tables 1 to 4, Figs. 9 and 10.

The entries are tpc-workers and traffic-workers. One worker and two are measured, each in a process
and Spark session of its own; more come from :mod:`benchmarks.jobs.scaling`.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pandas as pd

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.harness.spark import spark_session
from benchmarks.harness.timing import check_joins
from benchmarks.jobs.database import loaded, server_seconds
from benchmarks.jobs.job import Batches, Job
from benchmarks.jobs.jobs import JOBS, PLANS, read_toml
from benchmarks.jobs.scaling import WORKERS, bounded_by_database, fixed_and_shared
from benchmarks.jobs.ways import (
    AQE_ON,
    FULL,
    FULL_PYTHON,
    RECORD,
    RECORD_ROUNDS,
    Ready,
    Run,
    latency_ms,
    prepared,
)

MASTERS = {1: "local[1]", 2: "local[2]"}
CLUSTER = "local-cluster[2,1,1024]"
_TIMEOUT_S = 3_600
_HOW = (
    "One and two workers are measured, more come from a model (simulated): a micro-batch takes "
    "fixed + work / workers; one query per record is bounded by a database of 16 cores, whose "
    "processor time for a record was measured."
)
_BATCHED = (FULL, FULL_PYTHON, AQE_ON)
_DRAWN = ("lines", "workers", "paper", *_BATCHED, RECORD)
_PAPER = read_toml("published")
TABLES: dict[str, dict[str, pd.DataFrame]] = {
    which: {
        job: pd.DataFrame.from_dict(rows, "index", columns=_PAPER["ways"]).rename(index=int)
        for job, rows in _PAPER[which].items()
    }
    for which in ("rate", "latency_ms")
}
"""The paper's tables: results a second and milliseconds, by job; workers as rows."""

NUMBERS = {
    one["job"]: (one["throughput_table"], one["latency_table"], one["figure"])
    for name, one in PLANS.items()
    if name.endswith("-workers")
}
"""By job the paper's tables of throughput and of latency, and its figure."""

Predicted = dict[str, pd.DataFrame]
"""``rate`` (results a second) and ``latency_ms``; workers as rows, ways as columns."""


def run(context: Context) -> Outcome:
    """One worker and two, each in a session of its own; more by a model."""
    entry = PLANS[context.name]
    job, plan = JOBS[entry["job"]], context.pick(entry["quick"], entry["full"])
    batches = Batches(**plan["batches"])
    measured = measure(context, job, entry["kind"], plan["sizes"], batches)
    return outcome(job, measured, context.pick(None, entry["over_spark"]))


def measure(
    context: Context, job: Job, kind: str, sizes: list[Any], batches: Batches
) -> dict[str, Any]:
    """Measure with one and two workers; full sizes also with two executors of a core each.

    Returns:
        ``masters`` (see :func:`measure_session`), ``kept`` (what could not be measured, and why).
    """
    found: dict[str, Any] = {"masters": {}, "sizes": sizes, "kept": {}, "batches": asdict(batches)}
    spawn = multiprocessing.get_context("spawn")
    elsewhere = replace(context, say=partial(print, flush=True))
    with loaded(job, job.tables(context.data, sizes[0])) as url:
        for master in (*MASTERS.values(), *context.pick((), (CLUSTER,))):
            some = sizes if master == MASTERS[2] else sizes[:1]
            asked = (elsewhere, job.name, kind, some, batches, master, url)
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
    context: Context, name: str, kind: str, sizes: list[Any], batches: Batches, master: str,
    url: str,
) -> dict[str, Any]:  # fmt: skip
    """Check, then time, at every size of the tables, in a new Spark session.

    Returns:
        ``sizes`` (size, way, run), ``fan_out`` (results for each row) and ``master``; a run of one
        query per record has ``demand_s`` (the database's processor time for a record).
    """
    spark = spark_session("3g", master=master)
    try:
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
    except Exception as error:  # Spark's own errors cannot be pickled
        raise RuntimeError(f"{master}: {error!r}\n{traceback.format_exc()[-1_500:]}") from None
    finally:
        spark.stop()


def _measure_size(ready: Ready, kind: str, batches: Batches) -> tuple[dict[str, Run], float]:
    context, job, url, spark = ready.context, ready.job, ready.url, ready.context.spark
    names = [*_BATCHED, *([RECORD] if url else [])]
    files = ready.files(kind, batches.sizes)
    rows, records = context.pick((300, 100), (1_000, 1_000))
    events = job.events(ready.size, rows, 0, kind, context.seed).cast(job.arrow)
    sample = spark.createDataFrame(events).localCheckpoint()
    results = check_joins({n: partial(ready.way(n), sample) for n in names}, job.columns)
    if url and not context.quick:  # Spark compiles; not counted
        for name in _BATCHED:
            ready.run(name, ready.files(kind, batches.few.sizes), batches.few)
    found, label = {}, f"{spark.sparkContext.master} {ready.size:g}"
    for name in names:
        before = server_seconds(url) if name == RECORD else 0.0
        found[name] = ready.run(name, files, batches, records, label)
        if name == RECORD:
            spent = server_seconds(url) - before
            found[name]["demand_s"] = spent / (RECORD_ROUNDS * records + 1)
    return found, results / rows


def predicted(measured: Mapping[str, Any]) -> Predicted:
    """Results a second and milliseconds: one worker and two as measured, more by the models.

    ``latency_ms`` is of a micro-batch, or of a record where a way takes records.
    """
    base = str(measured["sizes"][0])
    one, two = (measured["masters"][MASTERS[n]]["sizes"][base] for n in (1, 2))
    rates, latencies = bounded_by_database(1 / one[RECORD]["rate"], one[RECORD]["demand_s"])
    rate, latency = {RECORD: pd.Series(rates)}, {RECORD: 1e3 * pd.Series(latencies)}
    for name in _BATCHED:
        rate[name] = 1 / pd.Series(fixed_and_shared(1 / one[name]["rate"], 1 / two[name]["rate"]))
        latency[name] = pd.Series(fixed_and_shared(latency_ms(one[name]), latency_ms(two[name])))
    for name in rate:
        for n, runs in ((1, one), (2, two)):
            rate[name][n], latency[name][n] = runs[name]["rate"], latency_ms(runs[name])
    ways, fan_out = [*_BATCHED, RECORD], measured["masters"][MASTERS[1]]["fan_out"]
    return {"rate": fan_out * pd.DataFrame(rate)[ways], "latency_ms": pd.DataFrame(latency)[ways]}


def outcome(job: Job, measured: dict[str, Any], over_spark: float | None = None) -> Outcome:
    """The figures, tables and the picture of what :func:`measure` returned.

    ``over_spark`` is promised of the measured rates over Spark's.
    """
    ours = predicted(measured)
    ups = {"paper": speed_up(TABLES["rate"][job.name]), "ours": speed_up(ours["rate"])}
    two = measured["masters"][MASTERS[2]]["sizes"]
    volumes = pd.DataFrame(
        {name: {float(size): latency_ms(two[str(size)][name]) for size in measured["sizes"]}
         for name in _BATCHED}
    ).sort_index()  # fmt: skip
    raw = {"runs": measured, "speed_up": ups["ours"].to_dict(), "volumes": volumes.to_dict()}
    raw["by_workers"] = {which: by.to_dict() for which, by in ours.items()}
    tables = [_table(job, measured, ours, which) for which in ("rate", "latency_ms")]
    tables += [_speed_ups(job, ups), _scalability(job, volumes)]
    return Outcome(_figures(job, ours, ups, volumes, over_spark), tables, measured=raw)


def speed_up(rates: pd.DataFrame) -> pd.DataFrame:
    """The paper's Formula 5: the throughput of N workers over that of one."""
    return rates / rates.loc[1]


def _figures(
    job: Job, ours: Predicted, ups: Predicted, volumes: pd.DataFrame, over_spark: float | None
) -> list[Figure]:
    paper, slow = (TABLES[which][job.name] for which in ("rate", "latency_ms"))
    first, second, drawn = NUMBERS[job.name]
    found = []
    for n in (1, 2, 128):
        theirs = paper["OPT"][n] / paper["Flink 1.12.2"][n]
        said: dict[str, Any] = {
            "bound": 1.0,
            "paper": f"{theirs:.2f} (Table {first}, OPT / Flink 1.12.2)",
        }
        spark = {"bound": over_spark if n in MASTERS else None}
        for one, rival, more in (
            (FULL, RECORD, said),
            (FULL, AQE_ON, spark),
            (FULL_PYTHON, AQE_ON, {}),
        ):
            what = f"results/s, {one} / {rival}, {n} workers"
            value = ours["rate"][one][n] / ours["rate"][rival][n]
            found.append(Figure(what, float(value), simulated=n > 2, **more))
    for n in (2, 128):
        what, value = f"speed-up of {n} workers, {FULL}", float(ups["ours"][FULL][n])
        theirs = f"{ups['paper']['OPT'][n]:.2f} (Formula 5, Fig. {drawn}(a))"
        found.append(Figure(what, value, paper=theirs, simulated=n > 2))
    for n in (2, 128):
        times = [frame[n] / frame[1] for frame in (ours["latency_ms"][FULL], slow["OPT"])]
        what, theirs = f"latency of {n} workers / 1, {FULL}", f"{times[1]:.2f} (Table {second})"
        more = {"at_most": True, "paper": theirs, "simulated": n > 2}
        found.append(Figure(what, float(times[0]), **more))
    least, most = volumes.index[0], volumes.index[-1]
    for name in volumes if least < most else ():
        what = f"ms per micro-batch, {job.size} {most:g} / {least:g}, {name}"
        said = f"nearly constant (Fig. {drawn}(b))" if name == FULL else ""
        value = float(volumes[name][most] / volumes[name][least])
        found.append(Figure(what, value, at_most=True, paper=said))
    return found


def _rows(head: str, *frames: pd.DataFrame, **last: list[str]) -> list[dict[str, Any]]:
    """The rows of a table, from frames side by side; ``head``: of what their rows are for."""
    beside = pd.concat(frames, axis=1).assign(**last)
    return beside.rename_axis(head).reset_index().to_dict("records")


def _table(job: Job, measured: Mapping[str, Any], ours: Predicted, which: str) -> Table:
    """The paper's table of throughput or latency, ours beside it."""
    is_rate = which == "rate"
    unit, digits = ("results/s", 0) if is_rate else ("ms", 2)
    number = NUMBERS[job.name][0 if is_rate else 1]
    rows = _rows(
        "workers",
        TABLES[which][job.name].add_prefix("paper, ").add_suffix(f", {unit}"),
        ours[which].round(digits).add_suffix(f", {unit}"),
        how=[MASTERS.get(n, "model") for n in WORKERS],
    )
    if CLUSTER in measured["masters"]:
        at = measured["masters"][CLUSTER]
        runs = at["sizes"][str(measured["sizes"][0])]
        found = {
            name: runs[name]["rate"] * at["fan_out"] if is_rate else latency_ms(runs[name])
            for name in ours[which]
        }
        cells = {f"{name}, {unit}": round(value, digits) for name, value in found.items()}
        rows.append(rows[WORKERS.index(2)] | cells | {"how": CLUSTER})
    what = (
        "Results a second, the stream consumed at full speed."
        if is_rate
        else f"Ours: Spark's addBatch of {measured['batches']['small']:,} rows, in which no record "
        "waits longer; of one query per record, a record. The paper: the calculation time of a "
        "record in windows of 10,000."
    )
    title = f"Table {number}: {'throughput' if is_rate else 'latency'} by workers, {job.name}"
    note = f"{what} {_HOW} Other machines and other data than the paper's: compare ratios."
    return Table.of(title, rows, note).drawn(*_DRAWN, xscale="log", yscale="log")


def _speed_ups(job: Job, ups: Predicted) -> Table:
    how = ["measured" if n in MASTERS else "model" for n in WORKERS]
    rows = _rows(
        "workers", ups["paper"].round(2).add_prefix("paper, "), ups["ours"].round(2), how=how
    )
    title = f"Fig. {NUMBERS[job.name][2]}(a): speed-up by Formula 5, {job.name}"
    note = f"The throughput of N workers over that of one. {_HOW}"
    return Table.of(title, rows, note).drawn(*_DRAWN, xscale="log", yscale="log")


def _scalability(job: Job, volumes: pd.DataFrame) -> Table:
    over_first = (volumes.iloc[0] / volumes).round(2).add_suffix(", scalability")
    return Table.of(
        f"Fig. {NUMBERS[job.name][2]}(b): scalability, {job.name}",
        _rows(job.size, volumes.round(1).add_suffix(", ms"), over_first),
        "Two workers. Scalability: the time of a micro-batch with the first tables over that with "
        "larger ones; 1 is best. The paper's is a picture without numbers.",
    ).drawn("lines", job.size, *(f"{name}, scalability" for name in _BATCHED))
