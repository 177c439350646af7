"""Chains of one to six joins: Spark's generated code, Python workers, and Spark's own joins."""

from __future__ import annotations

from itertools import product

from benchmarks.engine.chain import (
    BATCH,
    CHOSEN,
    FILES,
    MERGE,
    MOST,
    PERSISTED,
    Chain,
    Shape,
    Streams,
    check,
    columns_of,
    measure,
    shown,
)
from benchmarks.engine.full_cache import JVM, NO_JOIN, PYTHON
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import with_settings
from benchmarks.harness.timing import ratio

APART = "bsjoin, Python, a stage each"  # by default joins in Python workers share one
_PLANNED = {
    JVM: {"runtime": "jvm"},
    PYTHON: {"runtime": "python"},
    APART: {"runtime": "python", "python.transfer": "keys"},
}
_WAYS = (*_PLANNED, CHOSEN, PERSISTED, MERGE)
_COMPARED = (
    ("addBatch", JVM, NO_JOIN, 1.8, True),
    ("trigger", JVM, NO_JOIN, 1.2, True),
    ("addBatch", CHOSEN, JVM, 8.0, False),
    ("trigger", CHOSEN, JVM, None, False),
    ("addBatch", PERSISTED, JVM, None, False),
    ("addBatch", MERGE, JVM, None, False),
    ("addBatch", PYTHON, JVM, None, False),
    ("addBatch", APART, PYTHON, None, False),
    ("addBatch", CHOSEN, PYTHON, 5.0, False),
)
"""Of six joins: the duration, numerator, denominator, bound of full runs, whether an upper one."""
_NOTE = (
    f"Medians of micro-batches of {BATCH:,} rows in {FILES} Parquet files, after {{warm}} of "
    "warm-up. The ways take turns. Planning is Spark's queryPlanning, a part of the trigger. After "
    "few micro-batches the JVM has compiled little: only full sizes tell what a long stream has."
)


def chains(context: Context) -> Outcome:
    """Micro-batches through chains; quick: six joins with keys of the stream, few micro-batches."""
    plan = context.pick([(2, 3)], [(40, 10), (10, 10)])
    shapes, found = {}, dict[str, tuple[int, str]]()
    for rows in context.pick((100_000,), (1_000, 100_000)):
        chain = Chain.of(context, rows)
        for dependent, count in product((False, True), context.pick((MOST,), (1, 2, 4, MOST))):
            if dependent and count < MOST:
                continue
            shape = Shape(chain, count, dependent)
            ways = {
                name: with_settings(_PLANNED.get(name, {}), way)
                for name, way in shape.ways(*_WAYS).items()
            }
            if count == MOST:
                check(context, ways, shape.sample(chain.files(1)), columns_of(MOST), {})
            if context.quick and dependent:  # its answers are checked, but not timed
                continue
            whose = "the join before" if dependent else "the stream"
            tables = f"{rows:,} rows, keys of {whose}"
            shapes[f"{count} joins, {tables}"] = shape, ways
            found[f"{count} joins, {tables}"] = count, tables
    streams = measure(context, shapes, plan, {}, (JVM, PYTHON))
    table = shown("Chains of joins", streams, _NOTE.format(warm=plan[0][0]))
    return Outcome(_figures(context, streams, found), [table], measured=streams)


def _figures(
    context: Context, streams: Streams, shapes: dict[str, tuple[int, str]]
) -> list[Figure]:
    """Ratios of six joins; their bounds hold for the sizes and warm-up of full runs."""
    found = []
    for label, (count, tables) in shapes.items():
        if count != MOST:
            continue
        by = streams[label]
        for what, above, below, bound, at_most in _COMPARED:
            name = f"{what}, {MOST} joins, {above} / {below}, {tables}"
            times = (by[way][what] for way in (above, below))
            found.append(ratio(name, *times, context.pick(None, bound), at_most=at_most))
        if one := streams.get(f"1 joins, {tables}"):
            name = f"addBatch, {MOST} joins / one, {PYTHON}, {tables}"
            times = (each[PYTHON]["addBatch"] for each in (by, one))
            found.append(ratio(name, *times, context.pick(None, 1.6), at_most=True))
    return found
