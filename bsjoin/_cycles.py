"""``bsjoin.cycles``: a join for ``foreachBatch``, every micro-batch of which the driver steers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from bsjoin import _checks
from bsjoin._api import join
from bsjoin._plan import RoutePlan
from bsjoin._progress import route
from bsjoin._spark.observing import Cycle
from bsjoin._spark.partitioning import check_partition
from bsjoin._spark.session import default_parallelism, is_connect, is_dataframe
from bsjoin._spark.steering import Steering
from bsjoin.conditions import Condition
from bsjoin.errors import ArgumentError
from bsjoin.hotspot import Hash, HotSpot
from bsjoin.options import Full, Incremental
from bsjoin.sources.protocol import Source
from bsjoin.table import BatchTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bsjoin._spark.columns import On

__all__ = ["Cycles", "cycles"]

_REMEMBERED = 100

Sink = Callable[["DataFrame", int], Any]


@dataclass(frozen=True)
class _Progress:
    """What Spark's progress of a micro-batch would say."""

    batchId: int  # noqa: N815 - as Spark calls it
    timestamp: str
    observedMetrics: dict[str, dict[str, Any]]  # noqa: N815


@dataclass
class Cycles:
    """A function for ``foreachBatch`` that joins every micro-batch and hands it on.

    Made by :func:`cycles`. Give it to :func:`bsjoin.progress` to see what each cycle did.
    """

    batch: DataFrame | BatchTable | Source
    sink: Sink
    options: dict[str, Any]
    _kept: dict[str, Any] = field(default_factory=dict)
    _steering: Steering | None = None
    _recent: deque[_Progress] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @property
    def recentProgress(self) -> list[_Progress]:  # noqa: N802 - as Spark calls it
        """The figures of the last 100 cycles, for :func:`bsjoin.progress`."""
        return list(self._recent)

    def __call__(self, stream: DataFrame, batch_id: int) -> None:
        """Run one cycle: table version and partition rule are chosen now, and kept to its end.

        Args:
            stream: the rows of the micro-batch.
            batch_id: its number.
        """
        cycle = Cycle(self._route(stream, batch_id), self._kept)
        began = datetime.now(UTC)
        with cycle.active():
            result = join(stream, self.batch, **self.options)
        self.sink(result, batch_id)
        timestamp = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        progress = _Progress(batch_id, timestamp, cycle.figures())
        self._recent.append(progress)
        if self._steering is not None and "label" in self._kept:
            note = route(progress, self._kept["label"])
            if note is not None:
                self._steering.observe(note.statistics)

    def _route(self, stream: DataFrame, batch_id: int) -> RoutePlan | None:
        partition = self.options["partition"]
        if not isinstance(partition, HotSpot):
            return None
        if self._steering is None:
            self._steering = Steering(partition, default_parallelism(stream.sparkSession))
        return RoutePlan(
            label="",
            home=None,
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
    when: Condition | None = None,
    how: Literal["inner", "left", "semi", "anti"] = "inner",
    cache: Literal["auto"] | Full | Incremental = "auto",
    partition: Hash | HotSpot | None = None,
    select: Sequence[str] | None = None,
    suffix: str = "_batch",
) -> Cycles:
    """Make the function to hand to ``foreachBatch``: the driver steers every micro-batch.

    A micro-batch is a cycle. At its beginning the driver chooses the table's version and the
    partition rule, made from the cycles before; both hold until its end.

    Args:
        batch: the table, as for :func:`bsjoin.join`. A DataFrame is indexed in the first cycle.
        on: the equality keys, as for :func:`bsjoin.join`.
        sink: called with the joined micro-batch, a DataFrame, and its number; it has to use
            the rows: a cycle is judged by the first action on them.
        when: as for :func:`bsjoin.join`.
        how: as for :func:`bsjoin.join`.
        cache: as for :func:`bsjoin.join`.
        partition: as for :func:`bsjoin.join`.
        select: as for :func:`bsjoin.join`.
        suffix: as for :func:`bsjoin.join`.

    Returns:
        The function. ``bsjoin.progress`` takes it in place of a query.

    Raises:
        ArgumentError: ``sink`` is no function, or an option is none; or the session is one of
            Spark Connect.

    Example:
        >>> steered = bsjoin.cycles(
        ...     customers, "customer_id", partition=bsjoin.HotSpot(),
        ...     sink=lambda rows, batch_id: rows.write.mode("append").parquet("out"),
        ... )  # doctest: +SKIP
        >>> orders.writeStream.foreachBatch(steered).start()  # doctest: +SKIP
    """
    if not callable(sink):
        raise ArgumentError(f"sink={sink!r}: give a function of a DataFrame and a number")
    _checks.join_type(how)
    check_partition(partition)
    if is_dataframe(batch) and is_connect(batch.sparkSession):  # type: ignore[union-attr]
        raise ArgumentError(
            "cycles() steers from the driver, and under Spark Connect a function for foreachBatch "
            "runs on the server, where it knows nothing of this process: use bsjoin.join(stream, "
            "table, partition=...), which is steered under Connect, too"
        )
    options = {
        "on": on,
        "when": when,
        "how": how,
        "cache": cache,
        "partition": partition,
        "select": select,
        "suffix": suffix,
    }
    return Cycles(batch, sink, options)
