"""Hard placement on a kind of worker, by a resource profile that only this kind satisfies.

Dynamic allocation starts executors for a profile, in 20 to 30 s. One stage has one profile, so a
cycle goes to one tier. It is the lever that Spark Connect has, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Annotated, Any

from pyspark import resource
from pyspark.resource import ResourceProfile, ResourceProfileBuilder
from pyspark.sql import DataFrame, SparkSession

from scheduling.model import Plan, Receipt, Resources, Snapshot, Utilisation, Worker
from scheduling.model.checks import Checked, grouped, whole
from scheduling.spark import internals
from scheduling.spark.once import Once
from scheduling.spark.seen import Executor

_Some = Annotated[int, partial(whole, least=1)]
_SHARE = 0.0001  # of the resource, a task: it marks the worker, it is not used up
_STATIC = "spark.dynamicAllocation.enabled is not set, so no executors start for a profile"


@dataclass(frozen=True)
class Tier(Checked):
    """A kind of worker, selected by a custom resource.

    Args:
        name: its name, used as the worker's id in plans.
        resource: the name of a custom resource that only workers of this kind have.
        cores: the cores of one executor, at least 1, else ``ArgumentError``.
        memory_mb: the memory of one executor in MB, at least 1.
        slots: the number of concurrent tasks of all executors of this kind, at least 1.
        price_per_s: the price of all of them together in $/s; default 1.

    Example:
        >>> Tier("cheap", resource="spot", cores=4, memory_mb=8192, slots=8).worker.slots
        8
    """

    name: str
    resource: str
    cores: _Some
    memory_mb: _Some
    slots: _Some
    price_per_s: float = 1.0

    @property
    def worker(self) -> Worker:
        """The tier as one worker, for policies."""
        executors = -(-self.slots // self.cores)
        capacity = Resources(self.slots, self.memory_mb * executors)
        return Worker(self.name, capacity, self.slots, price_per_s=self.price_per_s, tier=self.name)

    def profile(self) -> ResourceProfile:
        """The resource profile that only this tier satisfies."""
        executor = resource.ExecutorResourceRequests().resource(self.resource, 1)
        executor = executor.cores(self.cores).memory(f"{self.memory_mb}m")
        task = resource.TaskResourceRequests().cpus(1).resource(self.resource, _SHARE)
        return ResourceProfileBuilder().require(executor).require(task).build


class Tiers:
    """Runs the tasks of a cycle on one tier: the cheapest of the plan's that has room for all.

    Args:
        spark: the session, classic or Connect.
        tiers: the kinds of worker.
        delta: the share of each that tasks may use; default 0.8.
    """

    def __init__(self, spark: SparkSession, tiers: Sequence[Tier], delta: float = 0.8) -> None:
        self._tiers, self._once = {tier.name: tier for tier in tiers}, Once()
        self._seen = Snapshot(0.0, tuple(replace(tier.worker, delta=delta) for tier in tiers))
        self._profiles: dict[str, ResourceProfile] = {}
        self.chosen: str | None = None
        """The current tier; None if Spark places the tasks."""
        dynamic = str(spark.conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true"
        alone = None if internals.is_connect(spark) else internals.only_executor(spark)
        self.reason = alone or (None if dynamic else _STATIC)
        """Why no tier can be chosen; None if one can."""

    def capabilities(self) -> frozenset[str]:
        """``"place"`` if executors are started on demand."""
        return frozenset() if self.reason else frozenset({"place"})

    def lands(self, placement: Mapping[str, str], snapshot: Snapshot) -> dict[str, str]:
        """The places of a ``placement`` on a ``snapshot``'s tiers: all tasks on one; O(tasks).

        The cheapest of its tiers that has room for all, else of all tiers, else the one with the
        most slots.
        """
        if not placement or not snapshot.workers:
            return {}
        nothing, named = Resources(0.0, 0.0), set(placement.values())
        need = sum((snapshot.usage.get(task, nothing) for task in placement), nothing)

        def order(worker: Worker) -> tuple[bool, int, float, str]:
            name, slots = worker.id, snapshot.free_slots[worker.id]
            full = slots < len(placement) or not need.within(snapshot.free[name])
            return full, -slots if full else name not in named, worker.price_per_s, name

        return dict.fromkeys(placement, min(snapshot.workers, key=order).id)

    def apply(self, plan: Plan) -> Receipt:
        """Adopt the tier of a plan; see :class:`scheduling.Actuator`."""
        landed = self.lands(plan.placement, self._seen)
        self.chosen = None if self.reason else next(iter(landed.values()), None)
        return Receipt(landed, landed, tuple(one.task for one in plan.unplaced))

    def prepare(self, df: DataFrame) -> DataFrame:
        """The rows of ``df``, to be computed on the tier. They pass through Python."""
        if self.reason is not None:
            self._once.warn(f"no tier is chosen: {self.reason}")
        if (name := self.chosen) is None:
            return df
        if name not in self._profiles:  # Spark keeps every profile it was ever given
            self._profiles[name] = self._tiers[name].profile()

        def scheduling_tier(batches: Iterable[Any]) -> Iterator[Any]:
            yield from batches

        return df.mapInArrow(scheduling_tier, df.schema, profile=self._profiles[name])

    def of(self, executors: Iterable[Executor]) -> dict[str | None, str]:
        """The tier of each of ``executors``, by Spark's id; without those of other profiles."""
        tiers = {profile.id: name for name, profile in self._profiles.items()}
        return {one.id: tiers[one.profile] for one in executors if one.profile in tiers}

    def view(self, seen: Snapshot, tier_of: Mapping[str | None, str]) -> Snapshot:
        """The tiers as workers, with what the executors in ``seen`` did; ``tier_of`` by id."""
        at = tier_of.get
        tier = {one.id: name for one in seen.workers if (name := at(one.executor_id))}

        def by_tier(values: Mapping[str, Any], fold: Callable[..., Any]) -> dict[str, Any]:
            found = grouped((tier[name], value) for name, value in values.items() if name in tier)
            return {name: fold(every) for name, every in found.items()}

        def mean(every: Sequence[Utilisation]) -> Utilisation:
            return Utilisation(fmean(one.cpu for one in every), fmean(one.memory for one in every))

        # The executors' cost says for how long a tier had rows.
        rent = {worker.id: worker.price_per_s for worker in seen.workers}
        spent = {name: cost / rent[name] for name, cost in seen.cost.items() if rent[name]}
        seconds, tuples = by_tier(spent, max), by_tier(seen.tuples, sum)
        self._seen = replace(
            seen,
            workers=self._seen.workers,
            utilisation=by_tier(seen.utilisation, mean),
            tuples=tuples,
            cost={one: self._tiers[one].price_per_s * seconds.get(one, 0.0) for one in tuples},
            busyness=by_tier(seen.busyness, fmean),
            placement={task: tier[at] for task, at in seen.placement.items() if at in tier},
        )
        return self._seen
