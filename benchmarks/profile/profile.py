"""Where the time of one micro-batch goes, for each kind of join.

Spark starts a Python daemon whose workers record their times (:mod:`benchmarks.profile.daemon`);
its event log has the rest (:mod:`benchmarks.profile.event_log`).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bsjoin
from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, rate_stream, run_stream
from benchmarks.profile import daemon, event_log
from benchmarks.profile.parts import JVM, OURS, PARTS, TOLERANCE, UNEXPLAINED, medians, parts, split
from benchmarks.profile.pipelines import (
    BASELINES,
    FULL,
    KEY,
    NONE,
    RANGE,
    ROW,
    ROWS,
    WARM,
    check,
    pipelines,
)

_SUBMIT = "PYSPARK_SUBMIT_ARGS"
_WARM_UP = 5  # micro-batches of a run that are not evaluated
_SPARE = 4  # that may run before a query is stopped
_METRICS = (
    "data sent to Python workers",
    "data returned from Python workers",
    "time to run Python workers",
)

Measured = dict[str, dict[str, Any]]
"""By pipeline: lists by micro-batch, see :func:`_measure`."""

Middle = dict[str, dict[str, float]]
"""By pipeline and part: milliseconds of the median micro-batch."""


def run(context: Context) -> Outcome:
    """Profile every kind of join; quick: three of them."""
    rows, size, rounds, batches = context.pick((10_000, 100_000, 1, 5), (100_000, 1_000_000, 3, 20))
    chosen = context.pick((FULL, WARM, RANGE), tuple(BASELINES))
    return profile(context, rows, size, chosen, rounds, batches)


def profile(
    context: Context,
    rows: int,
    size: int,
    chosen: Sequence[str],
    rounds: int,
    batches: int,
) -> Outcome:
    """Profile some kinds of join and their baselines, alternately.

    Args:
        context: of the benchmark; its session must not have been started. If it is quick, the
            function that returns its key is left out.
        rows: of a micro-batch.
        size: rows of the table.
        chosen: of :data:`benchmarks.profile.pipelines.BASELINES`.
        rounds: how often each pipeline runs.
        batches: how many micro-batches of a run are evaluated.

    Raises:
        RuntimeError: a query ended, or Spark's event log is not complete.
    """
    notes = Path(tempfile.mkdtemp(prefix="bsjoin-profile-"))
    try:
        _start_session(context, notes)
        every = pipelines(context, rows, size, _WARM_UP + batches + _SPARE)
        baselines = {BASELINES[name] for name in chosen} | context.pick(set(), {KEY})
        names = [NONE, *(name for name in (KEY, ROW, ROWS) if name in baselines), *chosen]
        for name in names:
            check(context, name, every[name], min(rows, 1_000))
        measured: Measured = {name: defaultdict(list) for name in names}
        for number in range(rounds):
            for name in names:
                _measure(context, every[name][0], rows, notes, batches, measured[name])
                ms = statistics.median(measured[name]["add_batch_ms"])
                context.say(f"  round {number + 1}  {name:<28} addBatch {ms:8.1f} ms")
    finally:
        shutil.rmtree(notes, ignore_errors=True)
    return outcome(context, measured, rows, size)


def _start_session(context: Context, notes: Path) -> None:
    """The session of the benchmarks, with an event log and recording Python workers."""
    (notes / "events").mkdir()
    os.environ[daemon.FOLDER] = str(notes)
    settings = {
        "spark.python.daemon.module": daemon.__name__,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (notes / "events").as_uri(),
    }
    before = os.environ.get(_SUBMIT, "pyspark-shell")
    words = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    os.environ[_SUBMIT] = f"{words} {before}"
    try:
        found = context.spark.conf.get("spark.python.daemon.module", "")
    finally:
        os.environ[_SUBMIT] = before
    if found != daemon.__name__:
        raise RuntimeError(
            "the Spark session was started without recording Python workers: run the profile in a "
            "process of its own"
        )


def _measure(
    context: Context, pipeline: Join, rows: int, notes: Path, batches: int, found: dict[str, Any]
) -> None:
    """One run of a pipeline; its micro-batches are added to those that there are."""
    cores = context.spark.sparkContext.defaultParallelism
    query = run_stream(pipeline(rate_stream(context.spark, rows)), _WARM_UP + batches)
    records = records_of(notes, str(query.id))
    for batch in event_log.read(notes / "events", query, _WARM_UP, batches):
        found["batches"].append(parts(batch, records[batch.id], cores))
        found["add_batch_ms"].append(batch.durations["addBatch"])
        found["trigger_ms"].append(batch.durations["triggerExecution"])
        labels: Counter[str] = Counter()
        for record in records[batch.id]:
            labels.update({name: ns / 1e6 for name, ns in record["ns"].items()})
            labels.update({"bytes in": record["in"], "bytes out": record["out"]})
        found["labels"].append(dict(labels))
        found["metrics"].append({name: batch.metrics.get(name) for name in _METRICS})
    shown = [one for one in bsjoin.progress(query) if one.batch_id >= _WARM_UP][:batches]
    found["lookup_ms"] += [one.lookup_ms for one in shown]
    found["asked"] += [one.cache.keys_queried for one in shown if one.cache is not None]


def records_of(notes: Path, query: str) -> dict[int, list[dict[str, Any]]]:
    """The workers' records of a query, by micro-batch."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for file in notes.glob("*.jsonl"):
        for record in map(json.loads, file.read_text().splitlines()):
            if record.get("query") == query:
                found[record["batch"]].append(record)
    return found


def outcome(context: Context, measured: Measured, rows: int, size: int) -> Outcome:
    """The figures, tables and the picture."""
    ends = statistics.median(one[JVM] for one in measured[NONE]["batches"])
    middle = {
        name: medians([split(batch, ends) for batch in one["batches"]])
        for name, one in measured.items()
    }
    tables = _tables(measured, middle, rows, size)
    return Outcome(_figures(measured, middle), tables, measured=measured)


def _figures(measured: Measured, middle: Middle) -> list[Figure]:
    found = []
    joins = [name for name in measured if name in BASELINES]
    for name in joins:
        batches = measured[name]["batches"]
        shares = [sum(one[part] for part in OURS) / sum(one.values()) for one in batches]
        ours = sum(middle[name][part] for part in OURS) / sum(middle[name].values())
        left = [abs(one[UNEXPLAINED]) / sum(one.values()) for one in batches]
        for what, value, bound, of in (
            ("our code", ours, None, shares),
            ("unexplained", statistics.median(left), TOLERANCE, left),
        ):
            spread = (min(of), max(of))
            found.append(Figure(f"{what} / micro-batch, {name}", value, bound, True, spread))
    for name in joins:
        like = BASELINES[name]
        times = [measured[which]["add_batch_ms"] for which in (name, like)]
        pairs = [a / b for a, b in zip(*times, strict=False)]
        over, spread = _median(times[0]) / _median(times[1]), (min(pairs), max(pairs))
        found.append(Figure(f"addBatch, {name} / {like}", over, None, True, spread))
    return found


_HOW = (
    "Measured by Spark: offsets, logs, commits and planning (durationMs of the progress); driver, "
    "around the job (the micro-batch's SQL execution less its jobs); scheduling (jobs less the "
    "time in which tasks ran, and the tasks' time outside of their work); cores without work (the "
    "time in which tasks ran, less the tasks' own over the cores). Measured in the workers by a "
    "clock: Spark's Python worker (unpickling functions, Arrow to arrays and back) and our code, "
    "by function; all workers added up over the cores. Inferred by difference: source and sink "
    "(the JVM's time in the tasks without a join), and rows to Arrow and back (the rest of the "
    "tasks' time, with the hashing of keys, the pipe between JVM and worker and, with HotSpot, the "
    "shuffle). Unexplained: triggerExecution less all of these."
)


def _tables(measured: Measured, middle: Middle, rows: int, size: int) -> list[Table]:
    joins = [name for name in middle if name in BASELINES]
    whole = {name: sum(one.values()) for name, one in middle.items()}
    listed = [
        {"part": part} | {n: round(one[part], 2) for n, one in middle.items()} for part in PARTS
    ]
    listed.append({"part": "all"} | {name: round(ms, 2) for name, ms in whole.items()})
    shares = [
        {"part": part} | {name: round(100 * middle[name][part] / whole[name], 1) for name in joins}
        for part in PARTS
    ]
    checks, spark = [], []
    for name in joins:
        one, like = measured[name], measured[BASELINES[name]]
        row: dict[str, Cell] = {
            "kind": name,
            "triggerExecution": round(_median(one["trigger_ms"]), 1),
            "addBatch": round(_median(one["add_batch_ms"]), 1),
            "unexplained": round(_median([b[UNEXPLAINED] for b in one["batches"]]), 1),
            "our code, by our clock": round(sum(middle[name][part] for part in OURS), 2),
            "bsjoin.progress lookup_ms, all workers": round(_median(one["lookup_ms"]), 2),
            "addBatch more than the identity's": round(
                _median(one["add_batch_ms"]) - _median(like["add_batch_ms"]), 1
            ),
            "keys asked a micro-batch": round(_median(one["asked"])) if one["asked"] else None,
        }
        checks.append(row)
    for name, one in measured.items():
        sent, back, wait = (
            _median([labels.get(label, 0.0) for labels in one["labels"]])
            for label in ("bytes in", "bytes out", "wait")
        )
        row = {"kind": name, "bytes a row to Python": round(sent / rows, 1)}
        row |= {"bytes a row back": round(back / rows, 1)}
        row |= {"workers waiting for the JVM, ms": round(wait, 1)}
        spark.append(row | {_with_unit(metric): one["metrics"][-1][metric] for metric in _METRICS})
    title = f"Parts of a micro-batch of {rows:,} rows, table of {size:,}, milliseconds (medians)"
    return [
        Table.of(title, listed, _HOW).drawn(
            "stacked bars", "part", *middle, skip="all", xlabel="ms"
        ),
        Table.of("The same as shares, percent", shares),
        Table.of(
            "Does it add up? Milliseconds",
            checks,
            "bsjoin.progress has look-up and gathering without routing and notes, added up over "
            "the workers; our clock is over the cores. The difference of addBatch to that of a "
            "function that does nothing contains our code, and Spark's work for it: figures, "
            "filters, the columns of the answer.",
        ),
        Table.of(
            "What the workers and Spark's SQL metrics say",
            spark,
            "The metrics are those of the last evaluated micro-batch, all tasks added up. A worker "
            "waits while the JVM makes the Arrow batches, and while nothing is left to do.",
        ),
    ]


def _with_unit(metric: str) -> str:
    return f"{metric}, {'ms' if metric.startswith('time') else 'bytes'}"


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0
