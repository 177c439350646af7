"""``partition=``: the rows of a stream are sent to partitions before they are joined."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from bsjoin.partitioning import Hash, HotSpot
from bsjoin.plan import JoinPlan, RoutePlan
from bsjoin.planner.keys import stream_key
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.resolve import ResolvedJoin
from bsjoin.runtimes.choosing import choose
from bsjoin.runtimes.python.driver.routing import by_hash, number_of
from bsjoin.runtimes.steering import rule_to_begin_with, steered
from bsjoin.spark import sql
from bsjoin.spark.session import default_parallelism

__all__ = ["send_to_partitions"]


def send_to_partitions(planned: PlannedJoin) -> DataFrame:
    """Return the rows of a join's stream, sent to partitions by their keys; the rows stay the same.

    In a cycle that is placed the partitions then are sent to workers.

    Raises:
        WorkerEnvironmentError: the JVM must choose the partitions, and cannot.
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
    key = stream_key(columns, [stream.schema[n].dataType for n in names], join.key_types).hash
    counted, label, cycle = plan.reports, plan.label, join.cycle
    if not counted and join.how in ("inner", "semi"):
        stream = stream.where(f"({key}) IS NOT NULL")  # they match nothing
    number = number_of(stream, key, join.how, counted=counted)
    if isinstance(partition, Hash):
        return by_hash(stream, key, number, partition.partitions)
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
