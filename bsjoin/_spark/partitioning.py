"""``partition=``: the rows of a stream are sent to partitions before they are joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from bsjoin._plan import RoutePlan
from bsjoin._spark.columns import quoted
from bsjoin._spark.join import Request
from bsjoin._spark.keys import check_key_types, stream_key
from bsjoin._spark.observing import current_cycle
from bsjoin._spark.routing import by_hash, by_rule
from bsjoin._spark.session import default_parallelism
from bsjoin._spark.steering import rule_to_begin_with, steered
from bsjoin.errors import ArgumentError
from bsjoin.hotspot import Hash, HotSpot

__all__ = ["Partition", "check_partition", "kind_of", "send_to_partitions"]

Partition = Hash | HotSpot | None


def check_partition(partition: object) -> None:
    """Refuse what is no option object.

    Raises:
        ArgumentError: says what to give.
    """
    if not (partition is None or isinstance(partition, Hash | HotSpot)):
        raise ArgumentError(
            f"partition={partition!r}: give None, bsjoin.Hash(...) or bsjoin.HotSpot(...)"
        )


def kind_of(partition: Partition) -> Literal["none", "hash", "hotspot"]:
    """What progress calls it."""
    if partition is None:
        return "none"
    return "hash" if isinstance(partition, Hash) else "hotspot"


def send_to_partitions(
    stream: DataFrame,
    request: Request,
    types: Mapping[str, T.DataType],
    partition: Partition,
) -> DataFrame:
    """Send the rows of a stream to partitions by their keys; the rows stay the same.

    In a cycle that is placed the partitions then are sent to workers.

    Args:
        stream: the probe side.
        request: the join.
        types: of the table's key columns.
        partition: how.

    Raises:
        ArgumentError: there is no equality key.
        KeyTypeError: key types that do not compare exactly.
    """
    if partition is not None:
        stream = _sent(stream, request, types, partition)
    cycle = current_cycle()
    return stream if cycle is None or stream.isStreaming else cycle.place(stream)


def _sent(
    stream: DataFrame,
    request: Request,
    types: Mapping[str, T.DataType],
    partition: Hash | HotSpot,
) -> DataFrame:
    names, label = [name for name, _ in request.keys], request.label
    if not names:
        raise ArgumentError(
            f"partition={partition!r}: rows are sent to partitions by their equality keys, and "
            "there are none; leave partition out"
        )
    wanted = [types[table] for _, table in request.keys]
    given = [stream.schema[name].dataType for name in names]
    tables = [(table, types[table]) for _, table in request.keys]
    check_key_types(list(zip(names, given, strict=True)), tables)
    key = stream_key([stream[quoted(name)] for name in names], given, wanted).hash
    if isinstance(partition, Hash):
        return by_hash(stream, key, partition.partitions)
    spark = stream.sparkSession
    if stream.isStreaming:
        return by_rule(stream, key, names, steered(spark, partition, label))
    cycle = current_cycle()
    if cycle is not None and cycle.route is not None:
        return by_rule(stream, key, names, cycle.route.labelled(label))
    # A batch is a single cycle: it has the rule that was learned before, if there is one.
    tasks = default_parallelism(spark)
    rule = rule_to_begin_with(partition, partition.partitions or tasks)
    plan = RoutePlan(label=label, location=None, rule=rule, capacity=1, seed=partition.seed)
    return by_rule(stream, key, names, plan)
