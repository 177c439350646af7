"""The probe of all executors: a job of one small task each, a few seconds apart."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from scheduling.model import Snapshot
from scheduling.protocols import Clock
from scheduling.spark import pins, probe
from scheduling.spark.once import LogOnce

__all__ = ["Prober"]

_EVERY_S = 5.0
_WAIT_S = 1.0


class Prober:
    """Reads every executor's processes from a worker of it; what fails is logged once.

    Args:
        spark: the session.
        clock: seconds.
    """

    def __init__(self, spark: SparkSession, clock: Clock) -> None:
        self._spark, self._clock = spark, clock
        self._read_s, self._log = -_EVERY_S, LogOnce()
        self._readings: Sequence[probe.Reading] = ()

    def __call__(self, snapshot: Snapshot) -> Sequence[probe.Reading]:
        """The last readings, or new ones if these are 5 s old.

        A task that lands elsewhere says which executor it saw.
        """
        now = self._clock()
        if now - self._read_s < _EVERY_S or not snapshot.workers:
            return self._readings
        self._read_s = now
        there = [pins.Executor(worker.host, str(worker.executor_id)) for worker in snapshot.workers]
        try:
            one_each = self._spark.range(0, len(there), 1, len(there))
            pinned = pins.pin(one_each, there)
            with pins.waiting(self._spark, pinned, _WAIT_S):
                rows = pinned.df.mapInArrow(probe.readings, probe.SCHEMA).collect()
            self._readings = [probe.Reading(*row) for row in rows]
        except Exception as error:
            self._log.warn("the executors' processes cannot be read", error)
            self._readings = ()
        return self._readings
