"""The runtime of Spark's Python workers, which can run every join.

Two hand-overs: keys only (:mod:`bsjoin._spark.python.keys_only`), or whole rows, in which several
joins are one stage (:mod:`bsjoin._spark.python.whole_rows`).
:mod:`bsjoin._spark.python.handover` chooses.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from bsjoin._spark.chain import JoinStep, remember, step_of
from bsjoin._spark.planned_join import PlannedJoin
from bsjoin._spark.python import handover, keys_only
from bsjoin._spark.python.whole_rows import Stage
from bsjoin._spark.workers import check_workers, recommend_sockets

__all__ = ["Stage", "joined"]

_ROWS, _KEYS = "Python workers receive whole rows", "Python workers receive keys"


def joined(stream: DataFrame, planned: PlannedJoin) -> DataFrame:
    """Put a join that Python workers carry out behind the stream.

    Args:
        stream: the probe side, as the call had it.
        planned: the join.

    Raises:
        ArgumentError: a setting has an unknown value.
        ColumnError: a column of the stream that cannot travel to a worker.
        WorkerEnvironmentError: the workers cannot run it.
    """
    check_workers(stream.sparkSession)
    recommend_sockets(stream.sparkSession)
    step = step_of(stream)
    before = None if step is None else step.stage
    chosen = handover.choose(planned, before, moved=planned.stream is not stream)
    if chosen.stage is None or not chosen.rows:
        result, runs = keys_only.joined(planned), _KEYS
    else:
        result, runs = chosen.stage.result(), _ROWS
    if chosen.apart:
        runs = f"{runs}, in a stage of their own: {chosen.apart}"
    elif chosen.rows and before is not None:
        runs = f"{runs}, in the stage of the join before"
    first = None if before is not None and not chosen.apart else _ROWS
    return remember(result, JoinStep(stream, planned, runs, stage=chosen.stage, first=first))
