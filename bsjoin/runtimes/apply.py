"""From a planned join to the DataFrame of its result."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from bsjoin.metrics.refreshes import follow
from bsjoin.plan import StoredTable
from bsjoin.planner.candidates import returned
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.runtimes.choosing import choose
from bsjoin.runtimes.partitioning import send_to_partitions


def apply(planned: PlannedJoin) -> DataFrame:
    """Put a join behind its stream, by the runtime that is chosen for it."""
    rows = send_to_partitions(planned)
    if (cycle := planned.join.cycle) is not None:
        cycle.table_bytes = planned.table_bytes
    runtime, reason, asked = choose(planned.stream.sparkSession, lambda one: one.why_not(planned))
    plan = replace(planned.plan, runtime=runtime.name, reason=reason, asked=asked)
    if isinstance(plan.table, StoredTable):
        follow(plan.label, plan.table.location.url)
    return returned(runtime.apply(replace(planned, plan=plan), rows), planned.join)
