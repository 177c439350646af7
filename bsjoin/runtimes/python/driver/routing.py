"""Routing as part of a Spark plan: each row goes to the partition that the rule says.

This is the way of the Python workers, to which only hashes and the key cross; that of generated
code is :mod:`bsjoin.runtimes.jvm.routing`.

Rows of a hot key, and those without a key, are spread by a number of the row. A task that is run
again after a failure must send each row where it went before. So rows are numbered in their order
only where that is the same again: where a task reads them from the source. Behind a shuffle the
number is a hash of the whole row.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from bsjoin.metrics.observed import observed_route
from bsjoin.partitioning import Rule
from bsjoin.partitioning.published import Rules
from bsjoin.partitioning.routing import Router
from bsjoin.partitioning.worker import Task, routed
from bsjoin.plan import RoutePlan
from bsjoin.planner.columns import unused
from bsjoin.planner.cycle import Cycle
from bsjoin.planner.keys import hashable
from bsjoin.spark import compat, sql
from bsjoin.spark.session import is_connect
from bsjoin.spark.workers import check_workers
from bsjoin.storage import StorageLocation

__all__ = ["by_hash", "by_rule", "number_of", "why_not_by_rule"]

_log = logging.getLogger("bsjoin")

_ANSWER = T.StructType(
    [T.StructField("partition", T.IntegerType()), T.StructField("note", T.StringType())]
)
# What a task does with its rows in their order, and where they come from.
_ORDER_STAYS = ("Project", "Filter", "Generate", "SubqueryAlias", "EventTimeWatermark", "View")
_READS = ("StreamingRelation", "StreamingRelationV2")
_BY_ORDER = "xxhash64(rand(0))"  # the same numbers in every attempt of a task, one a row

_ARROW_ANSWER = pa.struct([("partition", pa.int32()), ("note", pa.string())])


def by_hash(stream: DataFrame, key: str, number: str, partitions: int) -> DataFrame:
    """Send rows to partitions by the hash of their key.

    Args:
        stream: the rows.
        key: the 64-bit hash of their keys, in SQL; null for a null key.
        number: of the row, see :func:`number_of`.
        partitions: how many.
    """
    spread = f"coalesce({key}, {number})"
    return stream.repartitionById(partitions, F.expr(f"cast(pmod({spread}, {partitions}) AS int)"))


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
    routed_rows = observed_route(routed_rows, cycle, plan.label, F.col(note))
    sent = routed_rows.repartitionById(plan.rule.partitions, F.col(partition))
    return sent.drop(*ours)


def number_of(stream: DataFrame, key: str, how: str, *, counted: bool) -> str:
    """The number of a row, in SQL, by which it is spread if its key is hot or null.

    It is the same when a task is run again, but for null keys in joins that drop them. Where tasks
    must be the same in any order, equal rows have equal numbers; equal rows with null keys only in
    one task.

    Args:
        stream: the rows.
        key: the hash of their keys, in SQL; null for a null key.
        how: the join.
        counted: whether the rows are counted on the way. If not, the number depends on nothing
            but the row, so that filters above the join still move below.
    """
    content = f"xxhash64({', '.join(map(sql.column, hashable(stream.schema)))})"
    if not counted:
        return content
    if _is_read_in_order(stream):
        return _BY_ORDER
    apart = _BY_ORDER if how in ("inner", "semi") else f"xxhash64({content}, spark_partition_id())"
    return sql.case((f"({key}) IS NULL", apart), otherwise=content)


def _is_read_in_order(stream: DataFrame) -> bool:
    """Whether each task of a stream reads its rows from the source, so in the same order again.

    Spark assumes that of its sources, too. Connect shows no plan that would tell.
    """
    if not stream.isStreaming or is_connect(stream.sparkSession):
        return False
    try:
        node = compat.analyzed(stream)
        while (name := node.nodeName()) in _ORDER_STAYS:
            node = node.children().apply(0)
        return name in _READS
    except compat.failures() as error:
        _log.debug("bsjoin: what a stream reads is not known: %s", error)
        return False


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
