"""Routing as SQL expressions over the functions of the jar: where a row goes, and what is counted.

The rule of a micro-batch is a constant: the optimizer evaluates the function that reads it from the
rules' folder, in the driver. Spark adds up the rows of every place, which is a cell of the rule and
a partition, and lists the keys that are drawn for the sample. Of both the driver makes the
statistics of the cycle (:func:`bsjoin.partitioning.generated.note_of`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.metrics.observing import is_steered, observe, route_of
from bsjoin.plan import RoutePlan
from bsjoin.planner.columns import unused
from bsjoin.planner.cycle import Cycle
from bsjoin.runtimes.jvm.attach import call
from bsjoin.spark import sql

_MOST_PARTITIONS = 1_000
_MOST_PLACES = 1 << 20


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
    rule = _rule(plan)
    # A key without a hash, in which a null equals nothing, matches nothing: such rows are spread.
    spread = f"coalesce({key}, {number})"
    names_of_ours = ("place", "version", "cells", "task", "drawn")
    ours = unused(stream.columns, *(f"bsjoin_{name}" for name in names_of_ours))
    place, version, cells, task, drawn = ours
    if not is_steered(stream, cycle):
        # No column: filters above the join still move below.
        place = call("place", rule, spread, number)
        return stream.repartitionById(partitions, _partition(place, partitions))
    version_of = f"get_json_object(get_json_object({rule}, '$.rule'), '$.version')"
    sampled = call("sampled", rule, spread, label=plan.label, seed=plan.seed)
    # What is the same in all rows is a number: a text would be written, and compared, for each.
    rows = sql.select(
        stream,
        f"{call('place', rule, spread, number, once=True)} AS {place}",
        f"try_cast({version_of} AS bigint) AS {version}",
        f"{call('rule cells', rule)} AS {cells}",
        f"spark_partition_id() AS {task}",
        f"{sampled} AS {drawn}",
    )
    # Keys that differ in which column is null have other names; concat_ws leaves nulls out.
    texts = ", ".join(f"coalesce(cast({sql.column(name)} AS string), 'null')" for name in names)
    name = f"to_json(named_struct('name', concat_ws(',', {texts})))"
    written = f"""concat('"', {drawn}, '"')"""
    is_named = f"endswith({drawn}, '!') AND ({key}) IS NOT NULL"
    named = sql.case((is_named, f"concat_ws(',', {written}, {name})"), otherwise=written)
    rows = rows.withColumn(drawn, F.expr(named))
    counted = {
        "version": f"max({version})",
        "cells": f"max({cells})",
        "partitions": f"max({partitions})",
        "tasks": f"max({task}) + 1",
        # With more bins than there are places every place is counted exactly.
        "places": f"to_json(histogram_numeric({place}, {_MOST_PLACES}))",
        "drawn": f"listagg({drawn}, ',')",
    }
    # Each is named in the text: `alias` would be calls to the JVM.
    aggregates = (F.expr(f"{value} AS {name}") for name, value in counted.items())
    rows = observe(rows, cycle, route_of(plan.label), *aggregates)
    return rows.repartitionById(partitions, _partition(place, partitions)).drop(*ours)


def _partition(place: str, partitions: int) -> Column:
    return F.expr(f"cast({place} % {partitions} AS int)")


def _batch_clock() -> str:
    """The timestamp of the micro-batch: microseconds since the epoch, as a text."""
    batch = call("batch time")
    spelled_out = "cast(unix_micros(`current_timestamp`()) AS string)"
    return sql.case((f"{batch} IN ('unknown', 'now')", spelled_out), otherwise=batch)


def _rule(plan: RoutePlan) -> str:
    """The rule of the micro-batch, as its file has it."""
    first = json.dumps({"capacity": plan.capacity, "rule": plan.rule.to_json()})
    if plan.location is None:
        return sql.text(first)
    folder, partitions = plan.location.url, plan.rule.partitions
    return call("rule", _batch_clock(), folder=folder, first=first, partitions=partitions)
