"""The runtime of Spark's Python workers, which can run every join.

Two transfer modes: keys only (``keys_only.py``), or whole rows, in which several joins are one
stage (``whole_rows.py``). ``transfer.py`` chooses.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from bsjoin.planner.chain import JoinStep, earlier, remember
from bsjoin.planner.planned_join import PlannedJoin
from bsjoin.planner.projections import UNREADABLE
from bsjoin.planner.references import brought
from bsjoin.runtimes.python.driver import keys_only, transfer
from bsjoin.runtimes.python.driver.whole_rows import Stage
from bsjoin.spark.workers import check_workers, recommend_sockets

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
    found = earlier(stream)
    chosen = transfer.choose(planned, found, moved=planned.stream is not stream)
    result, below = _result(chosen, planned)
    if result is None:
        chosen = transfer.choose(planned, found, moved=False, against=UNREADABLE)
        result, below = _result(chosen, planned)
    assert result is not None
    result = brought(result, stream, planned)
    runs = _ROWS if chosen.rows else _KEYS
    shares = chosen.stage is not None and len(chosen.stage.joins) > 1
    step = JoinStep(
        stream,
        planned,
        f"{runs}, in the stage of the join before" if shares else runs,
        stage=chosen.stage,
        first=None if shares else _ROWS,
        apart=chosen.apart,
        before=None if found is None else found.step,
        is_derived=below is not None,
    )
    return remember(result, step, below)


def _result(
    chosen: transfer.Choice, planned: PlannedJoin
) -> tuple[DataFrame | None, DataFrame | None]:
    """The result of a join, and what is below its projections; None where it has none.

    The first is None where Spark's plan cannot be rewritten.
    """
    if chosen.stage is None or not chosen.rows:
        return keys_only.joined(planned), None
    rows = chosen.stage.result()
    if chosen.between is None:
        return rows, None
    return chosen.between.above(rows, chosen.stage.brought(-1)), rows
