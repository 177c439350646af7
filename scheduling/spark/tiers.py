"""Hard placement on a kind of worker, by a resource profile that only this kind satisfies.

Workers say what they have (``spark.worker.resource.<name>.amount`` on standalone, labels and
devices elsewhere); a profile that requires it runs there, or not at all. It needs dynamic
allocation, which starts executors for the profile: 20 to 30 s when they are cold. It is the lever
that Spark Connect has, too. One stage has one profile, so a cycle goes to one tier.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfile,
    ResourceProfileBuilder,
    TaskResourceRequests,
)
from pyspark.sql import DataFrame, SparkSession

from scheduling.errors import ArgumentError
from scheduling.model import Plan, Receipt, Resources, Worker
from scheduling.spark import internals
from scheduling.spark.once import LeverWarning, WarnOnce
from scheduling.spark.status import is_connect

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Tier", "Tiers"]

_SHARE = 0.0001  # of the resource, a task: it marks the worker, it is not used up


@dataclass(frozen=True)
class Tier:
    """A kind of worker, selected by a custom resource.

    Args:
        name: its name, used as the worker's id in plans.
        resource: the name of a custom resource that only workers of this kind have.
        cores: the cores of one executor.
        memory_mb: the memory of one executor in MB.
        slots: the number of concurrent tasks of all executors of this kind.
        price_per_s: the price of all of them together in $/s; default 1.

    Raises:
        ArgumentError: a text is empty, or a number is not above zero.

    Example:
        >>> Tier("cheap", resource="spot", cores=4, memory_mb=8192, slots=8).worker.slots
        8
    """

    name: str
    resource: str
    cores: int
    memory_mb: int
    slots: int
    price_per_s: float = 1.0

    def __post_init__(self) -> None:
        for field in ("name", "resource"):
            if not getattr(self, field):
                raise ArgumentError(f"{field}='': give a name")
        for field in ("cores", "memory_mb", "slots"):
            if not getattr(self, field) >= 1:
                raise ArgumentError(f"{field}={getattr(self, field)!r}: give 1 or more")

    @property
    def worker(self) -> Worker:
        """The tier as one worker, for policies."""
        executors = -(-self.slots // self.cores)
        capacity = Resources(self.slots, self.memory_mb * executors)
        return Worker(self.name, capacity, self.slots, price_per_s=self.price_per_s, tier=self.name)

    def profile(self) -> ResourceProfile:
        """The resource profile that only this tier satisfies."""
        executor = ExecutorResourceRequests().cores(self.cores).memory(f"{self.memory_mb}m")
        task = TaskResourceRequests().cpus(1).resource(self.resource, _SHARE)
        return (
            ResourceProfileBuilder().require(executor.resource(self.resource, 1)).require(task)
        ).build


class Tiers:
    """Chooses the tier of the next cycles: the one with the most tasks in the plan.

    Args:
        spark: the session, classic or Connect.
        tiers: the kinds of worker.
    """

    def __init__(self, spark: SparkSession, tiers: Sequence[Tier]) -> None:
        self._tiers = {tier.name: tier for tier in tiers}
        self._profiles: dict[str, ResourceProfile] = {}
        self._chosen: str | None = None
        self._warn_once = WarnOnce()
        self.reason = _why_not(spark)
        """Why no tier can be chosen; None if one can."""

    def capabilities(self) -> frozenset[str]:
        """``"tiers"`` if executors are started on demand."""
        return frozenset() if self.reason else frozenset({"tiers"})

    def apply(self, plan: Plan) -> Receipt:
        """Adopt the tier of a plan; see :class:`scheduling.Actuator`."""
        counts = Counter(plan.placement.values())
        if len(counts) > 1:
            shares = ", ".join(f"{tier}: {count}" for tier, count in counts.most_common())
            warnings.warn(
                f"the plan uses several tiers ({shares}), and a stage runs on one: all tasks go to "
                f"{counts.most_common(1)[0][0]}. Give a policy that fills one tier, or more slots",
                LeverWarning,
                stacklevel=2,
            )
        self._chosen = counts.most_common(1)[0][0] if counts else None
        requested = dict.fromkeys(plan.placement, self._chosen or "")
        return Receipt(requested, requested)

    def prepare(self, df: DataFrame) -> DataFrame:
        """The rows of ``df``, to be computed on the tier. They pass through Python."""
        if self.reason is not None:
            self._warn_once.warn(f"no tier is chosen: {self.reason}")
            return df
        if self._chosen is None:
            return df
        return on_tier(df, self._profile(self._chosen))

    @property
    def chosen(self) -> str | None:
        """The current tier; None if Spark places the tasks."""
        return None if self.reason else self._chosen

    def of(self, executors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """The tier of each executor, by Spark's id; without executors of other profiles.

        Args:
            executors: as Spark's REST API gives them.
        """
        tiers = {profile.id: name for name, profile in self._profiles.items()}
        return {
            one["id"]: tiers[one["resourceProfileId"]]
            for one in executors
            if one["resourceProfileId"] in tiers
        }

    def _profile(self, name: str) -> ResourceProfile:
        # Spark keeps every profile it was ever given.
        if name not in self._profiles:
            self._profiles[name] = self._tiers[name].profile()
        return self._profiles[name]


def on_tier(df: DataFrame, profile: ResourceProfile) -> DataFrame:
    """The rows of ``df`` in the same partitions, computed under a resource ``profile``."""

    def scheduling_tier(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return df.mapInArrow(scheduling_tier, df.schema, profile=profile)


def _why_not(spark: SparkSession) -> str | None:
    conf: Any = spark.conf
    if not is_connect(spark) and internals.is_local(spark):
        return f"the master is {spark.sparkContext.master}: there are no other workers"
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() != "true":
        return "spark.dynamicAllocation.enabled is not set, so no executors start for a profile"
    return None
