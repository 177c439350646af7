"""Routing as SQL expressions over the functions of the jar: where a row goes, and what is counted.

The rule of a micro-batch is a constant: the optimizer evaluates the function that reads it from the
rules' folder, in the driver. The call that sends a row counts it, too: see ``RuleCounts.java``. Of
what the tasks have counted the driver makes the statistics of the cycle
(:class:`bsjoin.partitioning.generated.RoutedRows`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.metrics.observing import is_steered
from bsjoin.plan import RoutePlan
from bsjoin.planner.columns import unused
from bsjoin.planner.cycle import Cycle
from bsjoin.runtimes.jvm.attach import call
from bsjoin.spark import sql

_MOST_PARTITIONS = 1_000


def why_not_by_rule(plan: RoutePlan) -> str | None:
    """Why no expression can send rows to partitions by a rule; None if one can."""
    if plan.rule.partitions > _MOST_PARTITIONS:
        return f"a rule has more than {_MOST_PARTITIONS:,} partitions"
    if plan.location is not None and not plan.location.is_local:
        return "the rules are behind a URL"
    return None


def by_rule(
    stream: DataFrame,
    key: str,
    number: str,
    names: Sequence[str],
    plan: RoutePlan,
    cycle: Cycle | None,
) -> DataFrame:
    """Send rows to partitions by a rule: see :meth:`bsjoin.runtimes.base.Runtime.by_rule`."""
    partitions = plan.rule.partitions
    # A key without a hash, in which a null equals nothing, matches nothing: such rows are spread.
    row = _rule(plan), f"coalesce({key}, {number})", number
    if not is_steered(stream, cycle):
        # No column: filters above the join still move below.
        return stream.repartitionById(partitions, F.expr(call("place", *row, "0")))
    counted: dict[str, Any] = {"label": plan.label, "seed": plan.seed, "once": True}
    if cycle is not None:
        counted |= {"query": cycle.query, "batch": cycle.number}
    (place,) = unused(stream.columns, "bsjoin_place")
    placed = call("place", *row, "spark_partition_id()", **counted)
    # Keys that differ in which column is null have other names; concat_ws leaves nulls out.
    texts = ", ".join(f"coalesce(cast({sql.column(name)} AS string), 'null')" for name in names)
    named = call("named", place, key, f"concat_ws(',', {texts})")
    to = sql.case((f"{place} < 0", f"coalesce({named}, -1 - {place})"), otherwise=place)
    rows = sql.select(stream, f"{placed} AS {place}").withColumn(place, F.expr(to))
    return rows.repartitionById(partitions, F.col(place)).drop(place)


def _rule(plan: RoutePlan) -> str:
    """The rule of the micro-batch, as its file has it."""
    first = json.dumps({"capacity": plan.capacity, "rule": plan.rule.to_json()})
    if plan.location is None:
        return sql.text(first)
    batch = call("batch time")  # of the micro-batch: microseconds since the epoch, as a text
    spelled_out = "cast(unix_micros(`current_timestamp`()) AS string)"
    clock = sql.case((f"{batch} IN ('unknown', 'now')", spelled_out), otherwise=batch)
    folder, partitions = plan.location.url, plan.rule.partitions
    return call("rule", clock, folder=folder, first=first, partitions=partitions)
