"""Throughput and latency against workers, as the paper's Tables 1 to 4 and Figs. 9 and 10."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.rivals.compare import AQE_ON, FULL, RECORD
from benchmarks.rivals.database import loaded
from benchmarks.rivals.job import Job
from benchmarks.rivals.picture import draw_workers
from benchmarks.rivals.published import LATENCY_MS, THROUGHPUT, WAYS
from benchmarks.rivals.report import latency_ms, rate
from benchmarks.rivals.runs import Batches
from benchmarks.rivals.scaling import WORKERS, Database, Fixed, in_a_session, speed_up

__all__ = ["MASTERS", "Predicted", "by_workers", "measure", "outcome", "predicted"]

MASTERS = {1: "local[1]", 2: "local[2]"}
CLUSTER = "local-cluster[2,1,1024]"

Predicted = dict[str, dict[int, dict[str, float]]]


def measure(
    context: Context,
    job: Job,
    module: str,
    kind: str,
    sizes: list[float],
    batches: Batches,
) -> dict[str, Any]:
    """Measure with one and two workers, each in a process and session of its own.

    Full sizes have two executors with a core each beside.

    Args:
        context: of the benchmark.
        job: what is done.
        module: that has it as ``JOB``.
        kind: of the stream.
        sizes: of the tables: the base, then larger ones, if any, which two workers measure.
        batches: of the stream.

    Returns:
        ``masters`` (what each process found), ``kept`` (what could not be measured, and why).
    """
    found: dict[str, Any] = {"masters": {}, "sizes": sizes, "kept": {}, "batches": asdict(batches)}
    spec = {
        "job": module,
        "data": str(context.data),
        "kind": kind,
        "batches": asdict(batches),
        "sample": 300 if context.quick else 1_000,
        "rounds": 1,
        "records": 100 if context.quick else 1_000,
        "seed": context.seed,
        "apart": not context.quick,
    }
    folder = job.tables(context.data, sizes[0])
    with loaded(job, folder) as url:
        for workers, master in MASTERS.items():
            some = sizes if workers == max(MASTERS) else sizes[:1]
            asked = spec | {"master": master, "sizes": some, "url": url}
            found["masters"][master] = in_a_session(context, asked)
        if not context.quick:
            asked = spec | {"master": CLUSTER, "sizes": sizes[:1], "url": url}
            try:
                found["masters"][CLUSTER] = in_a_session(context, asked)
            except RuntimeError as error:  # Spark's test cluster does not start everywhere
                found["kept"][CLUSTER] = str(error)[-300:]
                context.say(f"  {CLUSTER}: not measured")
    return found


def predicted(measured: Mapping[str, Any]) -> Predicted:
    """Results a second and milliseconds for every way and number of workers.

    One worker and two are as measured; the others come from the laws of
    :mod:`benchmarks.rivals.scaling`. ``latency_ms`` is of a micro-batch; of a record where a way
    takes records.
    """
    base = str(measured["sizes"][0])
    ones = {n: measured["masters"][m]["sizes"][base] for n, m in MASTERS.items()}
    fan_out = measured["masters"][MASTERS[1]]["fan_out"]
    large = measured["batches"]["large"]
    found: Predicted = {}
    for name in (FULL, AQE_ON):
        by = {n: (large / rate(one[name]), latency_ms(one[name]) / 1e3) for n, one in ones.items()}
        whole = Fixed.of(by[1][0], by[2][0])
        small = Fixed.of(by[1][1], by[2][1])
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


def by_workers(
    context: Context,
    module: str,
    kind: str,
    sizes: list[float],
    batches: Batches,
    numbers: tuple[int, int, int],
) -> Outcome:
    """Measure a job and tell it beside the paper's tables.

    Args:
        context: of the benchmark.
        module: with the job, as ``JOB``.
        kind: of the stream.
        sizes: of the tables.
        batches: of the stream.
        numbers: of the paper's tables of throughput and latency, and of its figure.
    """
    job: Job = importlib.import_module(module).JOB
    return outcome(context, job, measure(context, job, module, kind, sizes, batches), numbers)


def outcome(
    context: Context, job: Job, measured: dict[str, Any], numbers: tuple[int, int, int]
) -> Outcome:
    """The figures, tables and the picture.

    Args:
        context: of the benchmark.
        job: what was done.
        measured: by :func:`measure`.
        numbers: of the paper's tables of throughput and latency, and of its figure.
    """
    ours = predicted(measured)
    first, second, drawn = numbers
    ups = {name: speed_up({n: v["rate"] for n, v in by.items()}) for name, by in ours.items()}
    volumes = _volumes(measured)
    picture = context.out / f"{job.name}-workers.png"
    draw_workers(ours, ups, volumes, job.name, drawn, picture)
    return Outcome(
        figures=_figures(job, ours, ups, volumes, first, second, drawn),
        tables=[
            _table(job, measured, ours, "rate", first),
            _table(job, measured, ours, "latency_ms", second),
            _speed_ups(job, ups, drawn),
            _scalability(job, volumes, drawn),
        ],
        pictures=[Path(picture)],
        measured={"runs": measured, "by_workers": ours, "speed_up": ups, "volumes": volumes},
    )


def _volumes(measured: Mapping[str, Any]) -> dict[str, dict[float, float]]:
    """Milliseconds of a small micro-batch by way and size of the tables, with two workers."""
    two = measured["masters"][MASTERS[2]]["sizes"]
    return {
        name: {float(size): latency_ms(two[str(size)][name]) for size in measured["sizes"]}
        for name in (FULL, AQE_ON)
    }


def _figures(
    job: Job, ours: Predicted, ups: Any, volumes: Any, first: int, second: int, drawn: int
) -> list[Figure]:
    paper, slow = THROUGHPUT[job.name], LATENCY_MS[job.name]
    found = []
    for n in (1, 2, 128):
        theirs = paper[n][0] / paper[n][2]
        found.append(
            Figure(
                f"results/s, {FULL} / {RECORD}, {n} workers",
                ours[FULL][n]["rate"] / ours[RECORD][n]["rate"],
                1.0,
                paper=f"{theirs:.2f} (Table {first}, OPT / Flink 1.12.2)",
                simulated=n > 2,
            )
        )
        found.append(
            Figure(
                f"results/s, {FULL} / {AQE_ON}, {n} workers",
                ours[FULL][n]["rate"] / ours[AQE_ON][n]["rate"],
                simulated=n > 2,
            )
        )
    for n in (2, 128):
        found.append(
            Figure(
                f"speed-up of {n} workers, {FULL}",
                ups[FULL][n],
                paper=f"{paper[n][0] / paper[1][0]:.2f} (Formula 5, Fig. {drawn}(a))",
                simulated=n > 2,
            )
        )
    for n in (2, 128):
        more = ours[FULL][n]["latency_ms"] / ours[FULL][1]["latency_ms"]
        found.append(
            Figure(
                f"latency of {n} workers / 1, {FULL}",
                more,
                at_most=True,
                paper=f"{slow[n][0] / slow[1][0]:.2f} (Table {second})",
                simulated=n > 2,
            )
        )
    for name, by_size in volumes.items():
        sizes = sorted(by_size)
        if len(sizes) == 1:
            continue
        found.append(
            Figure(
                f"ms per micro-batch, {job.size} {sizes[-1]:g} / {sizes[0]:g}, {name}",
                by_size[sizes[-1]] / by_size[sizes[0]],
                at_most=True,
                paper=f"nearly constant (Fig. {drawn}(b))" if name == FULL else "",
            )
        )
    return found


def _table(
    job: Job, measured: Mapping[str, Any], ours: Predicted, which: str, number: int
) -> Table:
    paper = (THROUGHPUT if which == "rate" else LATENCY_MS)[job.name]
    unit = "results/s" if which == "rate" else "ms"
    digits = 0 if which == "rate" else 2
    rows: list[tuple[str | float | None, ...]] = []
    for n in WORKERS:
        values = [round(ours[name][n][which], digits) for name in ours]
        how = MASTERS.get(n, "model")
        rows.append((n, *paper[n], *values, how))
    if CLUSTER in measured["masters"]:
        at = measured["masters"][CLUSTER]
        runs = at["sizes"][str(measured["sizes"][0])]
        of = latency_ms if which == "latency_ms" else rate
        times = 1.0 if which == "latency_ms" else at["fan_out"]
        values = [round(of(runs[name]) * times, digits) for name in ours]
        rows.append((2, *paper[2], *values, CLUSTER))
    small = measured["batches"]["small"]
    what = (
        "Results a second, the stream consumed at full speed."
        if which == "rate"
        else f"Ours: Spark's addBatch of {small:,} rows, in which no record waits longer; of one "
        "query per record, a record. The paper: the calculation time of a record in windows of "
        "10,000."
    )
    return Table(
        f"Table {number}: {'throughput' if which == 'rate' else 'latency'} by workers, {job.name}",
        (
            "workers",
            *(f"paper, {way}, {unit}" for way in WAYS),
            *(f"{name}, {unit}" for name in ours),
            "how",
        ),
        tuple(rows),
        f"{what} {_HOW} Other machines and other data than the paper's: compare ratios.",
    )


_HOW = (
    "One and two workers are measured, more come from a model (simulated): a micro-batch takes "
    "fixed + work / workers; one query per record is bounded by a database of 16 cores, whose "
    "processor time for a record was measured."
)


def _speed_ups(job: Job, ups: Any, drawn: int) -> Table:
    paper = THROUGHPUT[job.name]
    rows = [
        (
            n,
            *(round(paper[n][i] / paper[1][i], 2) for i in range(len(WAYS))),
            *(round(by[n], 2) for by in ups.values()),
            "measured" if n in MASTERS else "model",
        )
        for n in WORKERS
    ]
    return Table(
        f"Fig. {drawn}(a): speed-up by Formula 5, {job.name}",
        ("workers", *(f"paper, {way}" for way in WAYS), *ups, "how"),
        tuple(rows),
        f"The throughput of N workers over that of one. {_HOW}",
    )


def _scalability(job: Job, volumes: Any, drawn: int) -> Table:
    sizes = sorted(volumes[FULL])
    rows = [
        (
            size,
            *(round(by[size], 1) for by in volumes.values()),
            *(round(by[sizes[0]] / by[size], 2) for by in volumes.values()),
        )
        for size in sizes
    ]
    return Table(
        f"Fig. {drawn}(b): scalability, {job.name}",
        (job.size, *(f"{w}, ms" for w in volumes), *(f"{w}, scalability" for w in volumes)),
        tuple(rows),
        "Two workers. Scalability: the time of a micro-batch with the first tables over that with "
        "larger ones; 1 is best. The paper's is a picture without numbers.",
    )
