"""One micro-batch of ``bsjoin.cycles``, as the join that is planned for it sees it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from bsjoin.metrics.observing import ObservedCycle
from bsjoin.options import Full, Incremental
from bsjoin.plan import RoutePlan


@dataclass
class CycleState:
    """The state that one join keeps from a micro-batch to the next.

    Args:
        query: what stands for the query of all cycles.
        number: of the last cycle: a micro-batch may run again under the number that it had.
        label: of the join, which is one join for all cycles; None before the first.
        cache: what ``cache="auto"`` has chosen; None before that.
        columns: the table's columns in the result; None before the first.
        table: the :class:`bsjoin.BatchTable` that the first has built; None if it built none.
    """

    query: str = field(default_factory=lambda: str(uuid.uuid4()))
    number: int = -1
    label: str | None = None
    cache: Full | Incremental | None = None
    columns: tuple[str, ...] | None = None
    table: object | None = None


class Cycle(ObservedCycle):
    """One micro-batch that the driver steers.

    Args:
        state: what the cycles of the join keep; the number of the cycle is counted in it.
        route: what the workers do to send rows to partitions; None if they do not.
        place: sends the partitions of the stream's rows to workers; default None.
    """

    def __init__(
        self,
        state: CycleState,
        route: RoutePlan | None,
        place: Callable[[DataFrame], DataFrame] | None = None,
    ):
        state.number += 1
        super().__init__(state.query, state.number)
        self.state = state
        self.route = route
        self.place = place or (lambda rows: rows)
        self.table_bytes = 0
        """Of the planned join's table, if it is stored in files."""
