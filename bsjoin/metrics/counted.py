"""Counts of what the JVM has run: kept in Spark's driver, see ``BatchFigures.java``.

In a classic session that is a call; under Spark Connect it is a query, of which the optimizer makes
a constant.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, is_remote

from bsjoin.metrics.join_metrics import JoinLabel, JoinMetrics, OperatorMetrics
from bsjoin.metrics.lines import Record, read
from bsjoin.metrics.numbers import new_number
from bsjoin.spark import compat

_CATALOG = "spark.sql.catalog.bsjoin"

_KINDS = ("joins", "routes")
_answers: ContextVar[dict[Any, str] | None] = ContextVar("bsjoin_answers", default=None)


def counted(
    run: str, first: int, last: int, spark: SparkSession | None = None
) -> list[OperatorMetrics]:
    """The joins that were executed in micro-batches, in this order; none where none can be known.

    ``run`` is Spark's id of the run of a query, or what stands for it.
    """
    return figures(OperatorMetrics, "joins", run, first, last, spark)


def figures(
    record: type[Record], kind: str, run: str, first: int, last: int, spark: SparkSession | None
) -> list[Record]:
    """The figures of a kind, of what was executed in micro-batches."""
    text = _text_of_classic(kind, run, first, last)
    if text is None:
        text = _text_of_query(kind, run, first, last, spark)
    return [one for line in read(record, text) for one in line]


def _text_of_classic(*what: Any) -> str | None:
    """None where Python cannot call the classes of the jar."""
    try:
        kept = compat.java_class("bsjoin.jvm.spark.BatchFigures")
        return None if kept is None else str(kept.read(*what))
    except compat.failures():  # the application has ended
        return None


@contextlib.contextmanager
def asked_at_once() -> Iterator[None]:
    """Ask a server for the figures of all kinds when the first of them are read meanwhile."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def _text_of_query(
    kind: str, run: str, first: int, last: int, spark: SparkSession | None
) -> str | None:
    known = _answers.get()
    if known and (kind, run, first, last) in known:
        return known[kind, run, first, last]
    kinds = (kind,) if known is None or kind not in _KINDS else _KINDS
    try:
        spark = SparkSession.active() if spark is None else spark
        if not spark.conf.get(_CATALOG, ""):
            return None  # nothing can have been planned
        asked = ", ".join(f"bsjoin.figures('{one}', :run, :first, :last)" for one in kinds)
        row = spark.sql(f"SELECT {asked}", {"run": run, "first": first, "last": last}).first()
    except PySparkException:
        return None
    if row is None:
        return None
    texts = dict(zip(kinds, map(str, row), strict=True))
    if known is not None:
        known.update({(one, run, first, last): text for one, text in texts.items()})
    return texts[kind]


@contextlib.contextmanager
def tagged(spark: SparkSession, run: str, batch: int) -> Iterator[None]:
    """Count the joins of this thread for a micro-batch, where Spark does not say which it is.

    What stands for the run of a query has hexadecimal digits and hyphens.
    """
    tag = f"bsjoin-batch-{run}_{batch}"
    if is_remote():
        add, remove = spark.addTag, spark.removeTag
    else:  # those of the context hold outside of Spark's executions, too
        add, remove = spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag
    add(tag)
    try:
        yield
    finally:
        remove(tag)


_REMEMBERED = 10_000

Found = tuple[JoinLabel, OperatorMetrics]


def joins_of(query: str, operators: Sequence[OperatorMetrics]) -> list[Found]:
    """The joins of one micro-batch.

    Several actions may use the rows of one join. Where their plans have the same joins, those of
    the action count that has looked most rows up: another one may have failed, or shown the first
    rows only. What actions with other joins have looked up comes in addition. A plain join has one
    number in all micro-batches of the query.
    """
    found: dict[str, Found] = {}
    for action in _actions(operators):
        for name, operator in action:
            metrics = JoinMetrics()
            metrics.add(operator.metrics)
            if name in found:
                metrics.add(found[name][1].metrics)
            label = operator.label or _plain(query, name, operator.on)
            found[name] = label, replace(operator, metrics=metrics)
    return list(found.values())


def _actions(operators: Sequence[OperatorMetrics]) -> Iterator[list[tuple[str, OperatorMetrics]]]:
    """The joins of each action that counts, each with what identifies it."""
    actions: dict[str | None, list[tuple[str, OperatorMetrics]]] = {}
    numbers: Counter[tuple[str | None, str]] = Counter()
    for operator in operators:
        execution = operator.execution
        if operator.label is not None:
            name = operator.label.label
        else:  # equal ones differ in their place
            name = json.dumps([operator.table, operator.on, operator.kind, operator.inner])
            numbers[execution, name] += 1
            name = f"{name}{numbers[execution, name]}"
        actions.setdefault(execution, []).append((name, operator))
    most: dict[object, list[tuple[str, OperatorMetrics]]] = {}
    for action in actions.values():
        # The plan of a stream itself runs beside those of its function for foreachBatch.
        key = action[0][1].inner, *(name for name, _ in action)
        if key not in most or _rows(action) > _rows(most[key]):
            most[key] = action
    yield from most.values()


def _rows(action: Sequence[tuple[str, OperatorMetrics]]) -> int:
    return sum(operator.metrics.rows_in for _, operator in action)


@functools.lru_cache(_REMEMBERED)
def _plain(query: str, name: str, on: tuple[str, ...]) -> JoinLabel:
    """Return the label of a plain join, with a number of its own."""
    label = f"{new_number()}:{json.dumps(on)}"
    return JoinLabel(label=label, mode="full", partitioned="none", runtime="jvm")
