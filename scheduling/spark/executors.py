"""The executors of a session: which there are, how busy they were, how many there should be.

It works where Spark's cluster manager takes requests: standalone (tried), YARN and Kubernetes.
Requests above ``spark.cores.max`` are ignored silently, so only what is observed counts.
"""

from collections.abc import Collection, Iterable, Sequence

from cachetools import LRUCache
from pyspark.sql import SparkSession

from scheduling.cost import Price
from scheduling.errors import ActuatorError
from scheduling.model import Resources, Worker
from scheduling.spark import internals
from scheduling.spark.seen import Executor, executors_of

_DYNAMIC = "dynamic allocation changes it already: set spark.dynamicAllocation.enabled=false"

_KNOWN = 10_000  # executors whose run time is remembered


class Executors:
    """Observes the executors of a session and changes their number.

    Args:
        spark: a classic session, else ``ArgumentError``.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self.leaving = spark, set[str]()
        """Spark's ids of the executors that were let go, and were there at the last look."""
        self._run_s, self._useless = LRUCache[str, float](_KNOWN), 0
        self._status = internals.StatusStore(spark)
        dynamic = internals.is_on(spark, "spark.dynamicAllocation.enabled")
        self.reason = internals.only_executor(spark) or (_DYNAMIC if dynamic else None)
        """Why the number cannot be changed; None if it can."""

    def there(self) -> tuple[Executor, ...]:
        """The executors that are registered and alive, those that are leaving among them."""
        there, others = executors_of(self._status.executors())
        self.leaving &= {one.id for one in there}
        self._useless = len(others)
        return there

    def busy_s(self, there: Sequence[Executor]) -> float:
        """Core seconds of tasks that ended since the last call, on those that are ``there``."""
        busy_s = 0.0
        for one in there:
            if one.run_s >= 0:  # one that a look misses is remembered, so that it counts once
                busy_s += max(0.0, one.run_s - self._run_s.get(one.id, 0.0))
                self._run_s[one.id] = one.run_s
        return busy_s

    def resize(self, target: int, prices: Sequence[Price] = ()) -> tuple[str, ...]:
        """Request ``target`` executors, which stands; those that are too many leave: their ids.

        The most expensive by ``prices`` (default none) leave first, of these idle ones, of these
        the youngest. Where ``spark.decommission.enabled`` is true they end their tasks first, else
        these run again.

        Raises:
            ActuatorError: the number cannot be changed; see ``reason``.
        """

        def order(one: Executor) -> tuple[bool, float, bool, int]:
            worker = Worker(one.name, Resources(one.cores, 0), one.cores, host=one.host)
            price = next((row.price_per_s for row in prices if row.matches(worker)), 0.0)
            return one.id not in self.leaving, -price, one.running > 0, -int(one.id)

        there = sorted(self.there(), key=order)
        spare = tuple(one.id for one in there[: max(0, len(there) - target)])
        self._leave(spare, target)
        return spare

    def release(self, ids: Collection[str]) -> None:
        """Let the executors with these ``ids`` of Spark leave, and request none in their place.

        Raises:
            ActuatorError: the number cannot be changed; see ``reason``.
        """
        self._leave(ids, len({one.id for one in self.there()} - self.leaving - set(ids)))

    def _leave(self, ids: Iterable[str], stay: int) -> None:
        if self.reason is not None:
            raise ActuatorError(f"{stay} executors cannot be requested: {self.reason}")
        for one in [one for one in ids if one not in self.leaving]:
            if internals.release_executor(self._spark, one):
                self.leaving.add(one)
        # Spark's target, of its own, counts executors that it has excluded, too.
        internals.request_total(self._spark, stay + self._useless)
