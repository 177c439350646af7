"""Chains of one to six joins: Spark's generated code, Python workers, and Spark's own joins."""

from __future__ import annotations

from functools import partial
from itertools import product

from benchmarks.engine.chain import (
    CHOSEN,
    MERGE,
    MOST,
    PERSISTED,
    Chain,
    Shape,
    Streams,
    columns_of,
    measure,
    shown,
)
from benchmarks.engine.full_cache import NO_JOIN
from benchmarks.harness.outcome import Context, Figure, Outcome
from benchmarks.harness.spark import JVM, PYTHON, with_settings
from benchmarks.harness.timing import check_joins, ratio

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
                sample = shape.sample(chain.files(1))
                answers = {name: partial(way, sample) for name, way in ways.items()}
                check_joins(answers, columns_of(MOST))
            if context.quick and dependent:  # its answers are checked, but not timed
                continue
            whose = "the join before" if dependent else "the stream"
            tables = f"{rows:,} rows, keys of {whose}"
            shapes[f"{count} joins, {tables}"] = shape, ways
            found[f"{count} joins, {tables}"] = count, tables
    streams = measure(context, shapes, plan, {}, (JVM, PYTHON))
    table = shown("Chains of joins", streams, plan[0][0])
    return Outcome(_figures(streams, found), [table], measured=streams)


def _figures(streams: Streams, shapes: dict[str, tuple[int, str]]) -> list[Figure]:
    """Ratios of six joins."""
    found = []
    for label, (count, tables) in shapes.items():
        if count != MOST:
            continue
        by = streams[label]
        for what, above, below, bound, at_most in _COMPARED:
            name = f"{what}, {MOST} joins, {above} / {below}, {tables}"
            times = (by[way][what] for way in (above, below))
            found.append(ratio(name, *times, bound, at_most=at_most))
        if one := streams.get(f"1 joins, {tables}"):
            name = f"addBatch, {MOST} joins / one, {PYTHON}, {tables}"
            times = (each[PYTHON]["addBatch"] for each in (by, one))
            found.append(ratio(name, *times, 1.6, at_most=True))
    return found
