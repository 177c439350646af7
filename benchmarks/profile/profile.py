"""Where the time of one micro-batch goes, for each kind of join.

Spark's progress and event log have the parts of a micro-batch (:mod:`benchmarks.profile.parts`);
py-spy says what our code does, in a run of its own, since it takes time (`samples`).
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import functions as F  # noqa: N812

import bsjoin
from benchmarks.harness.outcome import Cell, Context, Figure, Outcome, Table
from benchmarks.harness.spark import Join, rate_stream, run_stream
from benchmarks.harness.timing import check_joins, ratio
from benchmarks.profile import event_log
from benchmarks.profile.event_log import Batch
from benchmarks.profile.parts import (
    ENDS,
    EXECUTE,
    OURS,
    PARTS,
    RUN,
    TOLERANCE,
    UNEXPLAINED,
    medians,
    parts,
)
from benchmarks.profile.pipelines import BASELINES, FULL, KEY, NONE, RANGE, WARM, pipelines
from benchmarks.profile.samples import GROUPS, sampled

_WARM_UP = 5  # micro-batches of a run that are not evaluated
_SAMPLED = 20
_SPARE = 4  # that may run before a query is stopped
_DURATIONS, _PYTHON = ("triggerExecution", "addBatch"), "--conf spark.bsjoin.runtime=python"
_METRICS = {  # by head of a column: the metric, and whether it is divided by the rows
    "bytes a row to Python": ("data sent to Python workers", True),
    "bytes a row back": ("data returned from Python workers", True),
    f"{RUN}, ms": (RUN, False),
    f"{EXECUTE}, ms": (EXECUTE, False),
}
_HOW = (
    "Measured by Spark's progress and event log: offsets, logs, commits; planning; the driver, "
    "around the job (the micro-batch's SQL execution less its jobs); scheduling (jobs less the "
    "time in which tasks ran, and the tasks' time outside of their work); cores without work (the "
    "time in which tasks ran, less the tasks' own over the cores); start of Python tasks (the time "
    "to run Python workers less that to execute Python code). Measured by bsjoin.progress: our "
    "code. Inside of tasks all times are added up over the cores. Inferred by difference: source "
    "and sink (the tasks' time without a join), and Spark's Python worker with the rows to Arrow "
    "and back (the rest of the tasks' time, with the hashing of keys, the pipe between JVM and "
    "worker, notes and, with HotSpot, the routing and the shuffle). Unexplained: triggerExecution "
    "less all of these."
)
_CHECKS = (
    "lookup_ms is look-up and gathering without routing and notes, added up over the workers. The "
    "difference of addBatch to that of a function that does nothing contains our code, and Spark's "
    "work for it: figures, filters, the columns of the answer."
)
_SAMPLES = (
    f"{_SAMPLED} more micro-batches of each join, by the innermost function that has a group. "
    "Reading an Arrow batch counts as waiting for the JVM; imports of a new worker do not count."
)

Measured = Mapping[str, Sequence[Batch]]
"""By pipeline: its evaluated micro-batches."""


def run(context: Context) -> Outcome:
    """Profile every kind of join; quick: three of them."""
    rows, size, rounds, batches = context.pick((10_000, 100_000, 1, 5), (100_000, 1_000_000, 3, 20))
    chosen = context.pick((FULL, WARM, RANGE), tuple(BASELINES))
    return profile(context, rows, size, chosen, rounds, batches)


def profile(
    context: Context, rows: int, size: int, chosen: Sequence[str], rounds: int, batches: int
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
    with tempfile.TemporaryDirectory(prefix="bsjoin-profile-") as folder:
        settings = {"enabled": "true", "compress": "false", "dir": Path(folder).as_uri()}
        words = [f"--conf spark.eventLog.{name}={value}" for name, value in settings.items()]
        before = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        with patch.dict(os.environ, PYSPARK_SUBMIT_ARGS=" ".join([*words, _PYTHON, before])):
            spark = context.spark
        if spark.conf.get("spark.eventLog.dir", "") != settings["dir"]:
            raise RuntimeError(
                "the Spark session was started without this event log: run the profile in a "
                "process of its own"
            )
        every = pipelines(context, rows, size, _WARM_UP + max(batches, _SAMPLED) + _SPARE)
        wanted = {NONE, *chosen, *(BASELINES[name] for name in chosen)} | context.pick(set(), {KEY})
        measured: dict[str, list[Batch]] = {name: [] for name in every if name in wanted}
        moment = F.timestamp_micros("id").alias("timestamp")
        numbers = spark.range(min(rows, 1_000)).select(F.col("id").alias("value"), moment)
        for name in chosen:
            answers = {way: partial(join, numbers) for way, join in every[name].items()}
            columns = [set(answer().columns) for answer in answers.values()]
            check_joins(answers, sorted(set.intersection(*columns)))
        for number in range(rounds):
            for name, found in measured.items():
                ran = _run(context, every[name][name], rows, Path(folder), batches)
                found += ran
                ms = statistics.median(one.durations["addBatch"] for one in ran)
                context.say(f"  round {number + 1}  {name:<28} addBatch {ms:8.1f} ms")
        stream = rate_stream(spark, rows)
        shares = {n: sampled(every[n][n](stream), _WARM_UP, _SAMPLED) for n in chosen}
        return outcome(measured, shares, spark.sparkContext.defaultParallelism, rows, size)


def _run(context: Context, pipeline: Join, rows: int, folder: Path, batches: int) -> list[Batch]:
    """The evaluated micro-batches of one run of a pipeline."""
    query = run_stream(pipeline(rate_stream(context.spark, rows)), _WARM_UP + batches)
    found = event_log.read(folder, query, _WARM_UP, batches)
    for one in bsjoin.progress(query):
        if _WARM_UP <= one.batch_id < _WARM_UP + batches:
            batch = found[one.batch_id - _WARM_UP]
            batch.lookup_ms += one.lookup_ms or 0.0
            batch.asked = one.cache.keys_queried if one.cache else None
    return found


def outcome(
    measured: Measured, shares: Mapping[str, Any], cores: int, rows: int, size: int
) -> Outcome:
    """The figures and tables.

    Args:
        measured: of all pipelines.
        shares: of each join, what :func:`sampled` returns.
        cores: how many tasks ran at once.
        rows: of a micro-batch.
        size: rows of the table.
    """
    ends = _median(parts(batch, cores)[ENDS] for batch in measured[NONE])
    split = {name: [parts(b, cores, ends) for b in found] for name, found in measured.items()}
    middle = {name: medians(found) for name, found in split.items()}
    whole = {name: sum(one.values()) for name, one in middle.items()}
    add = {name: [b.durations["addBatch"] for b in found] for name, found in measured.items()}
    joins = [name for name in measured if name in BASELINES]
    figures, checks = [], []
    for name in joins:
        ours = [one[OURS] / sum(one.values()) for one in split[name]]
        left = [abs(one[UNEXPLAINED]) / sum(one.values()) for one in split[name]]
        for what, value, bound, of in (
            ("our code", middle[name][OURS] / whole[name], None, ours),
            ("unexplained", _median(left), TOLERANCE, left),
        ):
            spread = (min(of), max(of))
            figures.append(Figure(f"{what} / micro-batch, {name}", value, bound, True, spread))
        found = measured[name]
        row = {"kind": name}
        row |= {one: _median(b.durations[one] for b in found) for one in _DURATIONS}
        row |= {
            "unexplained": _median(one[UNEXPLAINED] for one in split[name]),
            "bsjoin.progress lookup_ms, all workers": _median(b.lookup_ms for b in found),
            "addBatch more than the identity's": _median(add[name]) - _median(add[BASELINES[name]]),
            "keys asked a micro-batch": _median(b.asked for b in found if b.asked is not None),
        }
        checks.append(row)
    figures += [
        ratio(f"addBatch, {name} / {like}", add[name], add[like], at_most=True)
        for name, like in BASELINES.items()
        if name in joins
    ]

    def metric(name: str, head: str) -> float | None:
        of, per_row = _METRICS[head]
        middle = _median(b.metrics[of] for b in measured[name] if of in b.metrics)
        return middle and middle / (rows if per_row else 1)

    title = f"Parts of a micro-batch of {rows:,} rows, table of {size:,}, milliseconds (medians)"
    listed = _rows("part", PARTS, middle, lambda part, name: middle[name][part])
    listed.append({"part": "all"} | whole)
    traced = [name for name in joins if not isinstance(shares[name], str)]
    reasons = [f"{name}: {shares[name]}." for name in joins if name not in traced]
    tables = [
        Table.of(title, listed, _HOW).drawn(
            "stacked bars", "part", *middle, skip="all", xlabel="ms"
        ),
        Table.of(
            "The same as shares, percent",
            _rows("part", PARTS, joins, lambda part, name: 100 * middle[name][part] / whole[name]),
        ),
        Table.of("Does it add up? Milliseconds", checks, _CHECKS),
        Table.of(
            "Spark's SQL metrics of the Python workers",
            _rows("kind", measured, _METRICS, metric),
            "All tasks of a micro-batch added up; in both times a worker also waits for the JVM.",
        ),
        Table.of(
            "Python workers inside of tasks, percent of py-spy's samples",
            _rows("what", GROUPS, traced, lambda group, name: 100 * shares[name][group]),
            " ".join([_SAMPLES, *reasons]),
        ),
    ]
    raw = {name: [asdict(batch) for batch in found] for name, found in measured.items()}
    return Outcome(figures, tables, measured={"batches": raw, "samples": shares})


def _rows(
    head: str, names: Iterable[str], columns: Iterable[str], cell: Callable[[str, str], Cell]
) -> list[dict[str, Cell]]:
    return [{head: name} | {column: cell(name, column) for column in columns} for name in names]


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return statistics.median(listed) if listed else None
