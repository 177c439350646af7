"""Routing as expressions over the functions of the jar: where a row goes, and what is counted.

The rule of a micro-batch is a constant: the optimizer evaluates the function that reads it from the
rules' folder, in the driver. Spark adds up the rows of every place, which is a cell of the rule and
a partition, and lists the keys that are drawn for the sample. Of both the driver makes the
statistics of the cycle (:func:`bsjoin.hotspot.generated.note_of`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin._plan import RoutePlan
from bsjoin._spark.columns import quoted, unused
from bsjoin._spark.jvm.attach import call
from bsjoin._spark.jvm.functions import batch_clock
from bsjoin._spark.metrics import observed_places
from bsjoin._spark.observing import is_reported

__all__ = ["by_rule", "unsupported_route"]

_MOST_PARTITIONS = 1_000


def unsupported_route(plan: RoutePlan) -> str | None:
    """Why no expression can send rows to partitions by a rule; None if one can."""
    if plan.rule.partitions > _MOST_PARTITIONS:
        return f"a rule has more than {_MOST_PARTITIONS:,} partitions"
    if plan.location is not None and not plan.location.is_local:
        return "the rules are behind a URL"
    return None


def by_rule(
    stream: DataFrame, key: Column, content: Column, names: Sequence[str], plan: RoutePlan
) -> DataFrame:
    """Send rows to partitions by a rule, and count and sample them on the way.

    Args:
        stream: the rows.
        key: the 64-bit hash of their keys; null for a null key.
        content: a hash of the whole rows.
        names: the key columns.
        plan: the rule, or where rules come from, for which :func:`unsupported_route` has no
            objection.
    """
    partitions = plan.rule.partitions
    rule = _rule(plan)
    # A null key matches nothing, wherever it goes: such rows are spread.
    code = F.coalesce(key, content)
    ours = unused(
        stream.columns, *(f"bsjoin_{name}" for name in ("place", "about", "task", "drawn"))
    )
    place, about, task, drawn = ours
    columns = [call("place", rule, code, content).alias(place)]
    if is_reported(stream):
        version = F.get_json_object(F.get_json_object(rule, "$.rule"), "$.version")
        cells = call("rule cells", rule).cast("string")
        sampled = call("sampled", rule, code, label=plan.label, seed=plan.seed)
        columns += [
            F.concat_ws(",", version, cells, F.lit(partitions)).alias(about),
            F.spark_partition_id().alias(task),
            sampled.alias(drawn),
        ]
    rows = stream.select("*", *columns)
    if is_reported(stream):
        texts = [F.col(quoted(name)).cast("string") for name in names]
        name = F.to_json(F.struct(F.concat_ws(",", *texts).alias("name")))
        written = F.concat(F.lit('"'), F.col(drawn), F.lit('"'))
        named = F.col(drawn).endswith("!") & key.isNotNull()
        rows = rows.withColumn(
            drawn, F.when(named, F.concat_ws(",", written, name)).otherwise(written)
        )
        rows = observed_places(rows, plan.label, *map(F.col, ours))
    partition = (F.col(place) % partitions).cast("int")
    return rows.repartitionById(partitions, partition).drop(*ours)


def _rule(plan: RoutePlan) -> Column:
    """The rule of the micro-batch, as its file has it."""
    first = json.dumps({"capacity": plan.capacity, "rule": plan.rule.to_json()})
    if plan.location is None:
        return F.lit(first)
    folder, partitions = plan.location.url, plan.rule.partitions
    return call("rule", batch_clock(), folder=folder, first=first, partitions=partitions)
