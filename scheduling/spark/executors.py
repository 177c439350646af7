"""The executors of a session: which there are, how busy they were, how many there should be.

It works where Spark's cluster manager takes requests: standalone (tried), YARN and Kubernetes.
Requests above ``spark.cores.max`` are ignored silently, so only what is observed counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from scheduling.cost import Price
from scheduling.errors import ActuatorError
from scheduling.model import Resources, Worker
from scheduling.spark import internals

__all__ = ["Executor", "Executors"]

_CONNECT = "Spark Connect does not show executors: use a classic session"
_DYNAMIC = "dynamic allocation changes it already: set spark.dynamicAllocation.enabled=false"


@dataclass(frozen=True)
class Executor:
    """An executor: where a partition should run, or one that is there.

    Args:
        host: Spark's name of the host.
        id: Spark's id of the executor.
        cores: how many tasks it runs at once, where a task takes one; default 1.
        run_s: the run time of all its tasks that have ended, in seconds; default 0.
        running: how many tasks run; default 0.
    """

    host: str
    id: str
    cores: int = 1
    run_s: float = 0.0
    running: int = 0

    @property
    def location(self) -> str:
        """The preferred location in Spark's format, which Spark splits at the first underscores.

        >>> Executor("node_7.rack_2", "12").location
        'executor_node-7.rack-2_12'
        """
        return f"executor_{self.host.replace('_', '-')}_{self.id}"

    def price_per_s(self, prices: Sequence[Price]) -> float:
        """In $/s: of the first of ``prices`` that matches its host or ``host/id``; else 0."""
        one = Worker(f"{self.host}/{self.id}", Resources(self.cores, 0), self.cores, host=self.host)
        return next((row.price_per_s for row in prices if row.matches(one)), 0.0)


class Executors:
    """Observes the executors of a session and changes their number.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._there, self._leaving = spark, tuple[Executor, ...](), set[str]()
        self._run_s: dict[str, float] = {}
        connect = internals.is_connect(spark)
        self._status = None if connect else internals.StatusStore(spark)
        self.reason = _CONNECT if connect else internals.only_executor(spark)
        """Why the number cannot be changed; None if it can."""
        if not connect and internals.is_on(spark, "spark.dynamicAllocation.enabled"):
            self.reason = self.reason or _DYNAMIC

    def there(self) -> tuple[Executor, ...]:
        """The executors that are registered and alive, those that are leaving among them."""
        self._there = tuple(
            Executor(
                one["hostPort"].rpartition(":")[0],
                str(one["id"]),
                int(one["totalCores"]),
                max(0.0, float(one.get("totalDuration") or 0) / 1e3),
                int(one.get("activeTasks") or 0),
            )
            for one in (self._status.executors() if self._status else ())
            if one["isActive"] and one["id"] != "driver" and one["totalCores"] > 0
        )
        self._leaving &= {one.id for one in self._there}
        return self._there

    def busy_s(self) -> float:
        """Core seconds of tasks that ended between the last two calls of :meth:`there`."""
        before, self._run_s = self._run_s, {one.id: one.run_s for one in self._there}
        return sum(max(0.0, now - before.get(name, 0.0)) for name, now in self._run_s.items())

    def resize(self, target: int, prices: Sequence[Price] = ()) -> tuple[str, ...]:
        """Request a number of executors; those that are too many leave.

        The most expensive leave first, of these idle ones, of these the youngest: their ids come
        back. Where ``spark.decommission.enabled`` is true they end their tasks first, else these
        run again.

        Args:
            target: the number; the request stands until the next one.
            prices: a price table; default none: all cost the same.

        Raises:
            ActuatorError: the number cannot be changed; see ``reason``.
        """

        def order(one: Executor) -> tuple[bool, float, bool, int]:
            stays = one.id not in self._leaving
            return stays, -one.price_per_s(prices), one.running > 0, -int(one.id)

        there = sorted(self.there(), key=order)
        spare = tuple(one.id for one in there[: max(0, len(there) - target)])
        self._leave(spare, target)
        return spare

    def release(self, ids: Collection[str]) -> None:
        """Let the executors with these ``ids`` of Spark leave, and request none in their place.

        Raises:
            ActuatorError: the number cannot be changed; see ``reason``.
        """
        self._leave(ids, len({one.id for one in self.there()} - self._leaving - set(ids)))

    def _leave(self, ids: Iterable[str], stay: int) -> None:
        if self.reason is not None:
            raise ActuatorError(f"{stay} executors cannot be requested: {self.reason}")
        gently = internals.is_on(self._spark, "spark.decommission.enabled")
        for one in ids:
            if one not in self._leaving:
                if not (gently and internals.decommission_executor(self._spark, one)):
                    internals.kill_executor(self._spark, one)
                self._leaving.add(one)
        # Spark counts from its own target, which may differ from what is there.
        internals.request_total(self._spark, stay)
