"""``partition=``: the rows of a stream are sent to partitions before they are joined."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame

from bsjoin.metrics.observing import current_cycle, is_reported
from bsjoin.partitioning import Hash, HotSpot
from bsjoin.plan import RoutePlan
from bsjoin.planner.arguments import Partition
from bsjoin.planner.keys import stream_key
from bsjoin.planner.resolve import ResolvedJoin
from bsjoin.runtimes import jvm
from bsjoin.runtimes.base import choose_runtime
from bsjoin.runtimes.python.driver.routing import by_hash, by_rule, number_of
from bsjoin.runtimes.steering import rule_to_begin_with, steered
from bsjoin.spark import sql
from bsjoin.spark.session import default_parallelism
from bsjoin.spark.workers import check_workers

__all__ = ["kind_of", "send_to_partitions"]


def kind_of(partition: Partition) -> Literal["none", "hash", "hotspot"]:
    """What progress calls it."""
    if partition is None:
        return "none"
    return "hash" if isinstance(partition, Hash) else "hotspot"


def send_to_partitions(stream: DataFrame, join: ResolvedJoin, label: str) -> DataFrame:
    """Send the rows of a stream to partitions by their keys; the rows stay the same.

    In a cycle that is placed the partitions then are sent to workers.

    Args:
        stream: the probe side.
        join: the join, with its partitioning.
        label: of the join.

    Raises:
        WorkerEnvironmentError: the JVM must choose the partitions, and cannot.
    """
    if join.partition is not None:
        stream = _sent(stream, join, label, join.partition)
    cycle = current_cycle()
    return stream if cycle is None or stream.isStreaming else cycle.place(stream)


def _sent(
    stream: DataFrame, join: ResolvedJoin, label: str, partition: Hash | HotSpot
) -> DataFrame:
    names = join.stream_keys
    columns = [*map(sql.column, names)]
    key = stream_key(columns, [stream.schema[n].dataType for n in names], join.key_types).hash
    counted = is_reported(stream)
    if not counted and join.how in ("inner", "semi"):
        stream = stream.where(f"({key}) IS NOT NULL")  # they match nothing
    number = number_of(stream, key, join.how, counted=counted)
    if isinstance(partition, Hash):
        return by_hash(stream, key, number, partition.partitions)
    spark = stream.sparkSession

    def sent(plan: RoutePlan) -> DataFrame:
        chosen = choose_runtime(spark, lambda: jvm.unsupported_route(plan))
        if chosen.name == "python":
            check_workers(spark)
            return by_rule(stream, key, number, names, plan)
        return jvm.by_rule(stream, key, number, names, plan)

    if stream.isStreaming:
        return sent(steered(spark, partition, label))
    cycle = current_cycle()
    if cycle is not None and cycle.route is not None:
        return sent(cycle.route.labelled(label))
    # A batch is a single cycle: it has the rule that was learned before, if there is one.
    tasks = default_parallelism(spark)
    rule = rule_to_begin_with(partition, partition.partitions or tasks)
    return sent(RoutePlan(label=label, location=None, rule=rule, capacity=1, seed=partition.seed))
