"""The interface of the two runtimes, ``runtimes.jvm`` and ``runtimes.python.driver``.

Both packages have the same modules for the same work: ``joins.py`` and ``routing.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pyspark.sql import DataFrame

from bsjoin.plan import RoutePlan
from bsjoin.planner.cycle import Cycle
from bsjoin.planner.planned_join import PlannedJoin


class Runtime(Protocol):
    """A way to carry out joins, and to send rows to partitions by a rule."""

    name: Literal["jvm", "python"]

    def why_not(self, planned: PlannedJoin) -> str | None:
        """Why it cannot carry a join out; None if it can."""

    def apply(self, planned: PlannedJoin, rows: DataFrame) -> DataFrame:
        """Put a join for which :meth:`why_not` has no objection behind the stream.

        Returns:
            The stream's columns, then (inner, left) the table's. It remembers how it was made: see
            :func:`bsjoin.planner.chain.joins_of`.

        Raises:
            ColumnError: a column of the stream that cannot travel to a worker.
            WorkerEnvironmentError: the workers cannot run it.
        """

    def why_not_by_rule(self, plan: RoutePlan) -> str | None:
        """Why it cannot send rows to partitions by a rule; None if it can."""

    def by_rule(
        self,
        stream: DataFrame,
        key: str,
        number: str,
        names: Sequence[str],
        plan: RoutePlan,
        cycle: Cycle | None,
    ) -> DataFrame:
        """Send rows to partitions by a rule, and count and sample them on the way.

        ``key`` is the 64-bit hash of their keys in SQL, null for a null key; ``number`` the row's,
        see :func:`bsjoin.runtimes.partitioning.number_of`. :meth:`why_not_by_rule` does not object
        to the plan.
        """
