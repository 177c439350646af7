"""Routing as part of a Spark plan: each row goes to the partition that the rule says.

This is the way of the Python workers, to which only hashes and the key cross; that of generated
code is :mod:`bsjoin.runtimes.jvm.routing`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin.metrics.observing import observed, route_of
from bsjoin.partitioning import Rule
from bsjoin.partitioning.published import Rules
from bsjoin.partitioning.routing import Router
from bsjoin.partitioning.worker import Task, routed
from bsjoin.plan import RoutePlan
from bsjoin.planner.columns import unused
from bsjoin.planner.cycle import Cycle
from bsjoin.spark import sql
from bsjoin.spark.workers import check_workers
from bsjoin.storage import StorageLocation

_ANSWER = T.StructType(
    [T.StructField("partition", T.IntegerType()), T.StructField("note", T.StringType())]
)

_ARROW_ANSWER = pa.struct([("partition", pa.int32()), ("note", pa.string())])


def why_not_by_rule(plan: RoutePlan) -> str | None:
    """None: the workers can send rows to partitions by any rule."""


def by_rule(
    stream: DataFrame,
    key: str,
    number: str,
    names: Sequence[str],
    plan: RoutePlan,
    cycle: Cycle | None,
) -> DataFrame:
    """Send rows to partitions by a rule: see :meth:`bsjoin.runtimes.base.Runtime.by_rule`."""
    check_workers(stream.sparkSession)

    def bsjoin_route(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for first in batches:
            if len(first[0]):
                task = _task(plan, first[0][0].value)
                rest = (batch[1:] for batch in itertools.chain([first], batches))
                yield from routed(task, rest)
                return
            yield pa.nulls(0, _ARROW_ANSWER)

    # Fixed in Spark's offset log: a micro-batch that is run again has it again.
    clock = F.current_timestamp()
    route = arrow_udf(bsjoin_route, _ANSWER).asNondeterministic()
    hashes = map(F.expr, (key, number))
    keys = map(F.expr, map(sql.column, names))
    both, *ours = unused(stream.columns, "bsjoin_route", "bsjoin_partition", "bsjoin_note")
    partition, note = ours
    answered = stream.select("*", route(clock, *hashes, *keys).alias(both))
    answer = F.col(both)
    routed_rows = answered.select(
        "*", answer.getField("partition").alias(partition), answer.getField("note").alias(note)
    ).drop(both)
    routed_rows = observed(routed_rows, cycle, route_of(plan.label), F.col(note))
    sent = routed_rows.repartitionById(plan.rule.partitions, F.col(partition))
    return sent.drop(*ours)


def _task(plan: RoutePlan, time_us: int) -> Task:
    context = TaskContext.get()
    number = context.partitionId() if context else 0
    rule, capacity, cycle = plan.rule, plan.capacity, plan.cycle
    if plan.location is not None:
        cycle = time_us
        published = _rules(plan.location).at(time_us)
        if published is not None and published.rule.partitions == rule.partitions:
            rule, capacity = published.rule, published.capacity
    return Task(_router(rule), capacity, (plan.seed, cycle, number))


@lru_cache(maxsize=64)
def _rules(location: StorageLocation) -> Rules:
    return Rules(location)


@lru_cache(maxsize=8)
def _router(rule: Rule) -> Router:
    return Router(rule)
