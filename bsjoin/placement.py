"""``placement=`` and ``scaler=`` of cycles: the loop of :mod:`scheduling` around every one.

The only module of bsjoin that imports ``scheduling``; imported when it is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from bsjoin.errors import ArgumentError
from bsjoin.metrics.progress import cached_entries
from bsjoin.metrics.records import PlacementProgress
from bsjoin.partitioning import HotSpot
from scheduling import Policy
from scheduling.scalers import Scaler
from scheduling.spark import CachesSeen, CycleContext, Loop, Placement

if TYPE_CHECKING:
    from bsjoin.partitioning import Hash

_log = logging.getLogger("bsjoin")


def check_placing(placement: object, scaler: object, partition: object) -> None:
    """Refuse what is neither a policy nor a placement, and what is no scaler, or has no effect.

    Raises:
        ArgumentError: says what to give.
        scheduling.errors.ArgumentError: an option of the placement has no effect, or the file of
            prices cannot be used.
    """
    if isinstance(placement, Placement):
        placement.check(scaler)
        placement.price_table()
    # A class has the methods of its objects, too.
    if not (placement is None or _is_one(placement, Placement | Policy)):
        raise ArgumentError(
            f"placement={placement!r}: give a policy, as scheduling.LBACE(), or "
            "scheduling.spark.Placement(policy=..., ...)"
        )
    if not (scaler is None or _is_one(scaler, Scaler)):
        raise ArgumentError(f"scaler={scaler!r}: give a scaler, as scheduling.OERA()")
    executors = placement.executors if isinstance(placement, Placement) else None
    if scaler is not None and partition is None and executors is None:
        raise ArgumentError(
            f"scaler={scaler!r} chooses the number of partitions, and the rows are sent to none: "
            "give partition=bsjoin.HotSpot() or bsjoin.Hash(n), or, for the number of executors, "
            "placement=scheduling.spark.Placement(executors=(least, most))"
        )


def _is_one(thing: object, kind: Any) -> bool:
    return isinstance(thing, kind) and not isinstance(thing, type)


class Placing:
    """The placed cycles of one join.

    Args:
        spark: the session.
        placement: a policy, or options; None where only the number of partitions changes.
        scaler: chooses that number, or the executors'; None keeps it.
        partition: how the rows are sent to partitions, with the first number of them, if any.

    Attributes:
        loop: what places and scales each cycle.
    """

    def __init__(
        self,
        spark: SparkSession,
        placement: Policy | Placement | None,
        scaler: Scaler | None,
        partition: Hash | HotSpot | None,
    ) -> None:
        self.loop = Loop(
            spark,
            placement,
            scaler=scaler,
            operator="join",
            partitions=None if partition is None else partition.partitions,
            splits=isinstance(partition, HotSpot) and partition.splits,
        )

    def cached(
        self,
        context: CycleContext,
        observed: Mapping[str, dict[str, Any]],
        table_bytes: int,
        *,
        by_key: bool,
    ) -> None:
        """Say what the hosts have cached, so that the plan knows what a move loads again.

        Args:
            context: the running cycle.
            observed: its figures.
            table_bytes: of a table in files; 0 for an incremental cache.
            by_key: whether a key is always in the same partition. Where it is not, the entries of a
                host serve whichever partitions run there, as a table does.
        """
        try:
            entries = cached_entries(observed)
        except Exception as error:  # the rows have been processed
            _log.warning("bsjoin: what is cached where is not known: %s", error)
            return
        if entries and not by_key:
            table_bytes = max(held for held, _ in entries.values())
            entries = {}
        context.caches = CachesSeen(table_bytes, entries)

    def progress(self) -> PlacementProgress | None:
        """Of the cycle that ended last."""
        last = self.loop.last
        if last is None:
            return None
        decision = last.decision
        missed = sum(last.landed.get(task) != at for task, at in last.requested.items())
        return PlacementProgress(
            action="failed" if decision is None else decision.action,
            reason=last.reason,
            partitions=last.partitions,
            requested=len(last.requested),
            landed=len(last.requested) - missed if last.landed else None,
            workers=tuple(sorted(last.workers.items())),
            rent=last.rent,
        )
