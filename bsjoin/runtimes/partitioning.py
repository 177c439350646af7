"""``partition=``: the rows of a stream are sent to partitions before they are joined.

Rows of a hot key, and those without a key, are spread by a number of the row. A task that is run
again after a failure must send each row where it went before. So rows are numbered in their order
only where that is the same again: where a task reads them from the source. Behind a shuffle the
number is a hash of the whole row.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.partitioning import Hash, HotSpot
from bsjoin.plan import JoinPlan, RoutePlan
from bsjoin.planner.keys import hashable, stream_key
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.resolved_join import ResolvedJoin
from bsjoin.runtimes.choosing import choose
from bsjoin.runtimes.steering import rule_to_begin_with, steered
from bsjoin.spark import compat, sql
from bsjoin.spark.session import default_parallelism, is_case_sensitive, is_connect

_log = logging.getLogger("bsjoin")

# What a task does with its rows in their order, and where they come from.
_ORDER_STAYS = ("Project", "Filter", "Generate", "SubqueryAlias", "EventTimeWatermark", "View")
_READS = ("StreamingRelation", "StreamingRelationV2")
_BY_ORDER = "xxhash64(rand(0))"  # the same numbers in every attempt of a task, one a row


def send_to_partitions(planned: PlannedJoin) -> DataFrame:
    """Return the rows of a join's stream, sent to partitions by their keys; the rows stay the same.

    In a cycle that is placed the partitions then are sent to workers.
    """
    stream, partition = planned.stream, planned.join.partition
    if partition is not None:
        stream = _sent(stream, planned.join, planned.plan, partition)
    cycle = planned.join.cycle
    return stream if cycle is None or stream.isStreaming else cycle.place(stream)


def _sent(
    stream: DataFrame, join: ResolvedJoin, plan: JoinPlan, partition: Hash | HotSpot
) -> DataFrame:
    names = join.stream_keys
    columns = [*map(sql.column, names)]
    types = [stream.schema[n].dataType for n in names]
    key = stream_key(columns, types, join.key_types, join.nulls_equal).hash
    counted, label, cycle = plan.reports, plan.label, join.cycle
    how = join.how if join.where is None else join.where.how
    if not counted and how in ("inner", "semi"):
        stream = stream.where(f"({key}) IS NOT NULL")  # they match nothing
    number = number_of(stream, key, how, counted=counted)
    if isinstance(partition, Hash):
        return _by_hash(stream, key, number, partition.partitions)
    spark = stream.sparkSession

    def sent(route: RoutePlan) -> DataFrame:
        runtime, _, _ = choose(spark, lambda one: one.why_not_by_rule(route))
        return runtime.by_rule(stream, key, number, names, route, cycle)

    if stream.isStreaming:
        return sent(steered(spark, partition, label))
    if cycle is not None and cycle.route is not None:
        return sent(replace(cycle.route, label=label))
    # A batch is a single cycle: it has the rule that was learned before, if there is one.
    tasks = default_parallelism(spark)
    rule = rule_to_begin_with(partition, partition.partitions or tasks)
    return sent(RoutePlan(label=label, location=None, rule=rule, capacity=1, seed=partition.seed))


def _by_hash(stream: DataFrame, key: str, number: str, partitions: int) -> DataFrame:
    """Send rows to partitions by the hash of their key; see :func:`number_of`."""
    spread = f"coalesce({key}, {number})"
    return stream.repartitionById(partitions, F.expr(f"cast(pmod({spread}, {partitions}) AS int)"))


def number_of(stream: DataFrame, key: str, how: str, *, counted: bool) -> str:
    """The number of a row, in SQL, by which it is spread if its key is hot or null.

    It is the same when a task is run again, but for null keys in joins that drop them. Where tasks
    must be the same in any order, equal rows have equal numbers; equal rows with null keys only in
    one task.

    ``key`` is the hash of the keys in SQL, null for a null key. If rows are not ``counted`` on the
    way the number depends on nothing but the row, so that filters above the join still move below.
    """
    # Columns of one name cannot be named.
    clash = len({*map(str.lower, stream.columns)}) < len(stream.columns)
    fold = str.lower if clash and not is_case_sensitive(stream.sparkSession) else str
    times = Counter(map(fold, stream.columns))
    names = [name for name in hashable(stream.schema) if times[fold(name)] == 1]
    content = f"xxhash64({', '.join(map(sql.column, names))})"
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
