"""``bsjoin.cycles``: a join for ``foreachBatch`` that the driver controls per micro-batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, is_remote

from bsjoin._join import join_by
from bsjoin.conditions import Condition
from bsjoin.errors import ArgumentError
from bsjoin.metrics.progress import ObservedProgress, routes
from bsjoin.options import Full, Incremental
from bsjoin.partitioning import Hash, HotSpot
from bsjoin.partitioning.relieving import Splits
from bsjoin.plan import RoutePlan
from bsjoin.planner.arguments import JoinCall, JoinType
from bsjoin.planner.columns import On
from bsjoin.planner.cycle import Cycle, CycleState
from bsjoin.runtimes.steering import Steering
from bsjoin.sources.protocol import Source
from bsjoin.spark.session import default_parallelism, is_connect
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import Column

    from bsjoin.placement import Placing
    from scheduling import Policy
    from scheduling.scalers import Scaler
    from scheduling.spark import CycleContext, Placement

_REMEMBERED = 100

Sink = Callable[["DataFrame", int], Any]


@dataclass
class Cycles:
    """A function for ``foreachBatch`` that joins every micro-batch and passes the result to a sink.

    Not to be constructed: :func:`cycles` returns one. Pass it to :func:`bsjoin.progress` for the
    metrics of each cycle.
    """

    batch: DataFrame | BatchTable | Source
    sink: Sink
    call: JoinCall
    cache: Literal["auto"] | Full | Incremental = "auto"
    placement: Policy | Placement | None = None
    scaler: Scaler | None = None
    _state: CycleState = field(default_factory=CycleState)
    _steering: Steering | None = None
    _placing: Placing | None = None
    _recent: deque[ObservedProgress] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _ended: int = 0

    @property
    def recentProgress(self) -> list[ObservedProgress]:  # noqa: N802 - as Spark calls it
        """The progress of the last 100 cycles, for :func:`bsjoin.progress`."""
        return list(self._recent)

    def explain(self) -> str:
        """Say who decides where the join runs, and why the last cycle ran as it did; some lines.

        See :meth:`scheduling.spark.Loop.explain`.
        """
        if self.placement is None and self.scaler is None:
            return "placement: by Spark (no placement= and no scaler= was given)"
        if self._placing is None:
            return "placement: no cycle has run yet"
        return self._placing.loop.explain()

    def __call__(self, stream: DataFrame, batch_id: int) -> None:
        """Run one cycle: table version, partition rule and placement are chosen now, for all of it.

        Args:
            stream: the rows of the micro-batch.
            batch_id: its number.
        """
        began = datetime.now(UTC)
        with self._context(stream) as context:
            partition = self._partition(context)
            splits = {} if context is None else context.splits
            route_plan = self._route(stream, partition, batch_id, splits)
            cycle = Cycle(self._state, route_plan, None if context is None else context.place)
            call = replace(self.call, partition=partition, cycle=cycle)
            result = join_by(call, stream, self.batch, self.cache)
            with cycle.counting(stream.sparkSession):
                self.sink(result, batch_id)
            below = {} if context is None else context.observed()
            figures = cycle.figures(stream.sparkSession, below)
            if context is not None and self._placing is not None:
                shuffled = self.call.partition is not None
                self._placing.cached(context, figures, cycle.table_bytes, by_key=shuffled)
        placed = None if self._placing is None else self._placing.progress()
        timestamp = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        took = {"triggerExecution": round((datetime.now(UTC) - began).total_seconds() * 1e3)}
        progress = ObservedProgress(
            batch_id,
            timestamp,
            figures,
            placed,
            cycle.query,
            cycle.operators(),
            took,
            self._ended,
            cycle.routed() if self._steering is not None else (),
        )
        self._recent.append(progress)
        self._ended += 1
        if self._steering is not None and self._state.label is not None:
            note = routes([], None)(progress, self._state.label)
            if note is not None:
                self._steering.observe(note.statistics)

    @contextmanager
    def _context(self, stream: DataFrame) -> Iterator[CycleContext | None]:
        """The context of a cycle that is placed or scaled; None if it is neither."""
        if self.placement is None and self.scaler is None:
            yield None
            return
        if self._placing is None:
            from bsjoin.placement import Placing

            self._placing = Placing(
                stream.sparkSession, self.placement, self.scaler, self.call.partition
            )
        with self._placing.loop.cycle() as context:
            yield context

    def _partition(self, context: CycleContext | None) -> Hash | HotSpot | None:
        """The partitioning of the rows, with the number of partitions of this cycle."""
        partition = self.call.partition
        if context is None or self.scaler is None or partition is None:
            return partition
        return replace(partition, partitions=context.partitions)

    def _route(
        self, stream: DataFrame, partition: Hash | HotSpot | None, batch_id: int, splits: Splits
    ) -> RoutePlan | None:
        if not isinstance(partition, HotSpot):
            return None
        if self._steering is None:
            self._steering = Steering(partition, default_parallelism(stream.sparkSession))
        elif partition.partitions is not None:
            self._steering.resize(partition.partitions)
        if splits:
            self._steering.spread(splits)
        return RoutePlan(
            label="",
            location=None,
            rule=self._steering.rule,
            capacity=self._steering.capacity,
            seed=partition.seed,
            cycle=batch_id,
        )


def cycles(
    batch: DataFrame | BatchTable | Source,
    on: On = None,
    *,
    sink: Sink,
    when: Condition | Sequence[Condition] | None = None,
    how: JoinType = "inner",
    cache: Literal["auto"] | Full | Incremental = "auto",
    partition: Hash | HotSpot | None = None,
    placement: Policy | Placement | None = None,
    scaler: Scaler | None = None,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
    nulls_equal: bool | Sequence[str] = False,
    where: Column | str | None = None,
    indicator: str | None = None,
) -> Cycles:
    """Create a function for ``foreachBatch``: the driver controls every micro-batch.

    A micro-batch is a cycle. At its start the driver chooses the version of the table, the
    partition rule, the number of partitions and their executors from the metrics of the previous
    cycles; they are fixed until the end of the cycle.

    Args:
        batch: the table, as for :func:`bsjoin.join`. A DataFrame is indexed in the first cycle.
        on: the equality keys, as for :func:`bsjoin.join`; default None.
        sink: called with the joined micro-batch, a DataFrame, and its number. It must use the rows
            in one action: the metrics of a cycle are those of the first action; in Python workers,
            of a query, as a write or ``collect`` is and ``foreachPartition`` is not.
        when: as for :func:`bsjoin.join`; default None.
        how: as for :func:`bsjoin.join`; default ``"inner"``.
        cache: as for :func:`bsjoin.join`; default ``"auto"``.
        partition: as for :func:`bsjoin.join`; default None.
        placement: a policy of :mod:`scheduling`, for example ``scheduling.LBACE()``, or
            ``scheduling.spark.Placement`` with prices and other options: the policy is asked in
            every cycle, and each partition of the join runs on the executor that it chooses.
            ``None`` (default): Spark places tasks. In a session with a single executor Spark places
            them too, with a warning.
        scaler: chooses the number of partitions of each cycle instead of the number in
            ``partition``, which it needs, for example ``scheduling.OERA()``; with
            ``Placement(executors=)`` it chooses the number of executors, and there are as many
            partitions as cores. ``None`` (default): no change.
        select: as for :func:`bsjoin.join`; default None.
        suffix: as for :func:`bsjoin.join`; default ``"_batch"``.
        nulls_equal: as for :func:`bsjoin.join`; default ``False``.
        where: as for :func:`bsjoin.join`; default None. Each cycle has a DataFrame of its own:
            name the stream's columns, ``"amount"``, instead of referring to a DataFrame.
        indicator: as for :func:`bsjoin.join`; default None.

    Returns:
        The function, a :class:`Cycles`. ``bsjoin.progress`` accepts it instead of a query.

    Raises:
        ArgumentError: ``sink`` is not callable, an option is invalid, ``scaler`` would choose the
            number of partitions and there is no ``partition``, or the session is a Spark Connect
            session.

    Example:
        >>> steered = bsjoin.cycles(
        ...     customers, "customer_id", partition=bsjoin.HotSpot(),
        ...     sink=lambda rows, batch_id: rows.write.mode("append").parquet("out"),
        ... )
        >>> orders.writeStream.foreachBatch(steered).start()
    """
    if not callable(sink):
        raise ArgumentError(f"sink={sink!r}: give a function of a DataFrame and a number")
    call = JoinCall(
        on=on,
        when=when,
        how=how,
        partition=partition,
        select=select,
        suffix=suffix,
        nulls_equal=nulls_equal,
        where=where,
        indicator=indicator,
    )
    # A table in files and a source have no session.
    if is_connect(batch.sparkSession) if isinstance(batch, DataFrame) else is_remote():
        raise ArgumentError(
            "cycles() steers from the driver, and under Spark Connect a function for foreachBatch "
            "runs on the server, without access to this process: use bsjoin.join(stream, "
            "table, partition=...), which works under Spark Connect, too"
        )
    if placement is not None or scaler is not None:
        from bsjoin.placement import check_placing

        check_placing(placement, scaler, partition)
    return Cycles(batch, sink, call, cache, placement, scaler)
