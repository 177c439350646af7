"""Where the time of one micro-batch goes, for each kind of join.

Spark is started with a Python daemon whose workers write down what their time went to
(:mod:`benchmarks.profile.daemon`); its own books tell the rest (:mod:`benchmarks.profile.books`).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bsjoin
from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.profile import books, daemon
from benchmarks.profile.kinds import (
    ANSWER,
    COLD,
    FULL,
    HOTSPOT,
    JOINS,
    KEY,
    NONE,
    RANGE,
    ROWS,
    WARM,
    Kind,
    check,
    kinds,
)
from benchmarks.profile.parts import (
    JVM,
    OURS,
    PARTS,
    TOLERANCE,
    UNEXPLAINED,
    medians,
    parts,
    split,
)
from benchmarks.profile.picture import draw

__all__ = ["profile", "run"]

_SUBMIT = "PYSPARK_SUBMIT_ARGS"
_WAIT_S = 120.0
_WARM_UP = 5  # micro-batches of a run that are not looked at
_SPARE = 4  # that may run before a query is stopped


def run(context: Context) -> Outcome:
    """Profile every kind of join; quick: three of them.

    Args:
        context: what a benchmark is given.
    """
    rows, size = (10_000, 100_000) if context.quick else (100_000, 1_000_000)
    rounds, batches = (1, 5) if context.quick else (3, 20)
    chosen = (FULL, WARM, RANGE) if context.quick else JOINS
    return profile(context, rows, size, chosen, rounds, batches)


def profile(
    context: Context,
    rows: int,
    size: int,
    chosen: Sequence[str],
    rounds: int,
    batches: int,
    *,
    flame: bool = False,
) -> Outcome:
    """Profile some kinds of join, and what they are held against, in turns.

    Args:
        context: what a benchmark is given; its session must not have been started. If it is
            quick, a function that gives its key back is left out.
        rows: of a micro-batch.
        size: rows of the table.
        chosen: of :data:`benchmarks.profile.kinds.JOINS`.
        rounds: how often each pipeline runs.
        batches: how many micro-batches of a run are looked at.
        flame: also look at the workers' stacks, every 2 ms, and write them down as
            ``profile-<kind>.folded``, which speedscope and flamegraph.pl read.

    Raises:
        RuntimeError: a query ended, or Spark's books are not complete.
    """
    notes = Path(tempfile.mkdtemp(prefix="bsjoin-profile-"))
    try:
        spark = _session(context, notes, flame=flame)
        most = _WARM_UP + batches + _SPARE
        every = kinds(spark, rows, size, context.data, batches=most, seed=context.seed)
        likes = {_LIKE[name] for name in chosen}
        likes |= set() if context.quick else {KEY}
        names = [NONE, *(name for name in (KEY, ANSWER, ROWS) if name in likes), *chosen]
        for name in names:
            check(spark, every[name], min(rows, 1_000))
        measured: dict[str, dict[str, Any]] = {
            name: {"rows": rows, "batches": [], "add_batch_ms": [], "trigger_ms": [], "labels": []}
            for name in names
        }
        for turn in range(rounds):
            for name in names:
                _measure(spark, every[name], rows, notes, batches, measured[name])
                ms = statistics.median(measured[name]["add_batch_ms"])
                context.say(f"  round {turn + 1}  {name:<28} addBatch {ms:8.1f} ms")
        if flame:
            _write_stacks(notes, measured, context.out)
    finally:
        shutil.rmtree(notes, ignore_errors=True)
    return _outcome(context, measured, names, rows, size)


def _session(context: Context, notes: Path, *, flame: bool) -> SparkSession:
    """The session of the benchmarks, its Python workers watched."""
    os.environ[daemon.FOLDER] = str(notes)
    if flame:
        os.environ[daemon.FLAME] = "1"
    before = os.environ.get(_SUBMIT, "pyspark-shell")
    os.environ[_SUBMIT] = f"--conf spark.python.daemon.module={daemon.__name__} {before}"
    try:
        spark = context.spark
    finally:
        os.environ[_SUBMIT] = before
    if spark.conf.get("spark.python.daemon.module", "") != daemon.__name__:
        raise RuntimeError(
            "the Spark session was started before its Python workers could be watched: run the "
            "profile in a process of its own"
        )
    return spark


def _measure(
    spark: SparkSession,
    kind: Kind,
    rows: int,
    notes: Path,
    batches: int,
    found: dict[str, Any],
) -> None:
    """One run of one pipeline; what is found is added to what there is."""
    cores = spark.sparkContext.defaultParallelism
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", cores)
        .load()
    )
    query = _let_run(kind.pipeline(numbers), _WARM_UP + batches)
    listed = books.read(spark, query, _WARM_UP, batches)
    records = _records(notes, str(query.id))
    found["metrics"] = books.metrics(spark, str(query.runId), listed[-1].id)
    for batch in listed:
        found["batches"].append(parts(batch, records[batch.id], cores))
        found["add_batch_ms"].append(batch.durations["addBatch"])
        found["trigger_ms"].append(batch.durations["triggerExecution"])
        labels: Counter[str] = Counter()
        for record in records[batch.id]:
            labels.update({name: ns / 1e6 for name, ns in record["ns"].items()})
            labels.update({"bytes in": record["in"], "bytes out": record["out"]})
            found.setdefault("stacks", Counter()).update(record.get("stacks", {}))
        found["labels"].append(dict(labels))
    told = [one for one in bsjoin.progress(query) if one.batch_id >= _WARM_UP]
    found["lookup_ms"] = [one.lookup_ms for one in told[:batches]]
    found["asked"] = [one.cache.keys_asked for one in told[:batches] if one.cache is not None]


def _let_run(joined: DataFrame, batches: int) -> Any:
    """Start a query, let it make so many micro-batches, and stop it."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            joined.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            while (last := query.lastProgress) is None or last.batchId < batches:
                if not query.isActive or time.monotonic() - begun > _WAIT_S:
                    raise RuntimeError(f"the query ended, or takes too long: {query.exception()}")
                time.sleep(0.05)
        finally:
            query.stop()
    return query


def _records(notes: Path, query: str) -> dict[int, list[dict[str, Any]]]:
    """What the workers wrote of a query, by micro-batch."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for file in notes.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            if record.get("query") == query:
                found[record["batch"]].append(record)
    return found


def _outcome(
    context: Context, measured: dict[str, dict[str, Any]], names: list[str], rows: int, size: int
) -> Outcome:
    """What was found, as numbers and a picture."""
    ends = statistics.median(one[JVM] for one in measured[NONE]["batches"])
    middle = {
        name: medians([split(one, ends) for one in measured[name]["batches"]]) for name in names
    }
    picture = draw(middle, context.out / "profile.png", rows, size)
    joins = [name for name in names if name in JOINS]
    outcome = Outcome(
        figures=_figures(measured, middle, joins),
        tables=[
            _parts_table(middle, rows, size),
            _shares_table(middle, joins),
            _checks_table(measured, middle, joins),
            _spark_table(measured, names, rows),
        ],
        pictures=[picture],
        measured={
            name: {key: value for key, value in one.items() if key != "stacks"}
            for name, one in measured.items()
        },
    )
    return outcome


def _figures(
    measured: dict[str, dict[str, Any]], middle: dict[str, dict[str, float]], joins: list[str]
) -> list[Figure]:
    found = []
    for name in joins:
        batches = measured[name]["batches"]
        whole = sum(middle[name].values())
        ours = sum(middle[name][part] for part in OURS) / whole
        shares = [sum(one[part] for part in OURS) / sum(one.values()) for one in batches]
        spread = (min(shares), max(shares))
        found.append(Figure(f"our code / micro-batch, {name}", ours, None, True, spread))
        shares = [abs(one[UNEXPLAINED]) / sum(one.values()) for one in batches]
        left, spread = statistics.median(shares), (min(shares), max(shares))
        found.append(Figure(f"unexplained / micro-batch, {name}", left, TOLERANCE, True, spread))
    for name, like in _LIKE.items():
        if name in joins:
            times = [measured[which]["add_batch_ms"] for which in (name, like)]
            pairs = [a / b for a, b in zip(*times, strict=False)]
            over, spread = _median(times[0]) / _median(times[1]), (min(pairs), max(pairs))
            found.append(Figure(f"addBatch, {name} / {like}", over, None, True, spread))
    return found


_LIKE = {FULL: ANSWER, WARM: ANSWER, COLD: ANSWER, RANGE: ROWS, HOTSPOT: ANSWER}
"""What each join is held against: a function of the same shape that does nothing."""


def _parts_table(middle: dict[str, dict[str, float]], rows: int, size: int) -> Table:
    lines = [(part, *(round(one[part], 2) for one in middle.values())) for part in PARTS]
    whole = ("all", *(round(sum(one.values()), 2) for one in middle.values()))
    return Table(
        f"Parts of a micro-batch of {rows:,} rows, table of {size:,}, milliseconds (medians)",
        ("part", *middle),
        (*lines, whole),
        _HOW,
    )


_HOW = (
    "Measured by Spark: offsets, logs, commits and planning (durationMs of the progress); driver, "
    "around the job (the micro-batch's SQL execution less its jobs); scheduling (jobs less the "
    "time in which tasks ran, and what tasks took beside their work); cores without work (the time "
    "in which tasks ran, less the tasks' own, shared out to the cores). Measured in the workers by "
    "a clock of their own: Spark's Python worker (unpickling functions, Arrow to arrays and back) "
    "and our code, by function; all workers added up and shared out to the cores. "
    "Inferred by difference: source and sink (the JVM's time in the tasks without a join), and "
    "rows to Arrow and back (the rest of the tasks' time: it has the hashing of keys, the pipe "
    "between JVM and worker and, with HotSpot, the shuffle in it). Unexplained: "
    "triggerExecution less all of these."
)


def _shares_table(middle: dict[str, dict[str, float]], joins: list[str]) -> Table:
    lines = []
    for part in PARTS:
        shares = [middle[name][part] / sum(middle[name].values()) for name in joins]
        lines.append((part, *(round(100 * share, 1) for share in shares)))
    return Table("The same as shares, percent", ("part", *joins), tuple(lines))


def _checks_table(
    measured: dict[str, dict[str, Any]], middle: dict[str, dict[str, float]], joins: list[str]
) -> Table:
    lines = []
    for name in joins:
        one, like = measured[name], measured[_LIKE[name]]
        ours = sum(middle[name][part] for part in OURS)
        left = [batch[UNEXPLAINED] for batch in one["batches"]]
        more = _median(one["add_batch_ms"]) - _median(like["add_batch_ms"])
        lines.append(
            (
                name,
                round(_median(one["trigger_ms"]), 1),
                round(_median(one["add_batch_ms"]), 1),
                round(_median(left), 1),
                round(ours, 2),
                round(_median(one["lookup_ms"]), 2),
                round(more, 1),
                round(_median(one["asked"]), 0) if one["asked"] else None,
            )
        )
    return Table(
        "Does it add up? Milliseconds",
        (
            "kind", "triggerExecution", "addBatch", "unexplained", "our code, by our clock",
            "bsjoin.progress lookup_ms, all workers", "addBatch more than the identity's",
            "keys asked a micro-batch",
        ),
        tuple(lines),
        "bsjoin.progress has look-up and gathering without routing and notes, added up over the "
        "workers; our clock is shared out to the cores. What addBatch is more than that of a "
        "function which does nothing has our code in it, and what Spark does for us beside: "
        "figures, filters, the columns of the answer.",
    )  # fmt: skip


def _spark_table(measured: dict[str, dict[str, Any]], names: list[str], rows: int) -> Table:
    lines = []
    for name in names:
        labels = measured[name]["labels"]
        metrics = measured[name]["metrics"]
        lines.append(
            (
                name,
                round(_median([one.get("bytes in", 0) for one in labels]) / rows, 1),
                round(_median([one.get("bytes out", 0) for one in labels]) / rows, 1),
                round(_median([one.get("wait", 0.0) for one in labels]), 1),
                *(metrics.get(metric) for metric in _METRICS),
            )
        )
    return Table(
        "What the workers and Spark's SQL metrics say",
        (
            "kind", "bytes a row to Python", "bytes a row back", "workers waiting for the JVM, ms",
            *_METRICS,
        ),
        tuple(lines),
        "The metrics are those of the last micro-batch that was looked at, all tasks added up. A "
        "worker waits while the JVM makes the Arrow batches, and while nothing is left to do.",
    )  # fmt: skip


_METRICS = (
    "data sent to Python workers",
    "data returned from Python workers",
    "time to run Python workers",
)


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def _write_stacks(notes: Path, measured: dict[str, dict[str, Any]], out: Path) -> None:
    """The workers' stacks, one file a kind: a line is a stack and how often it was seen."""
    for name, one in measured.items():
        lines = [f"{stack} {count}" for stack, count in sorted(one.get("stacks", {}).items())]
        if not lines:  # no Python worker has been at work
            continue
        stem = name.replace(",", "").replace(" ", "-")
        (out / f"profile-{stem}.folded").write_text("\n".join(lines) + "\n")
