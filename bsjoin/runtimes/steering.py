"""From the statistics of a stream's micro-batches to the rules of those to come.

A listener of the session hears of every micro-batch; the controller of the join makes a rule where
one is due, and a file in the join's folder takes it to the workers.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import replace
from typing import Any

from cachetools import LRUCache
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from bsjoin.metrics.progress import routes
from bsjoin.partitioning import Controller, CycleStatistics, HotSpot, Rule
from bsjoin.partitioning.published import Rules
from bsjoin.partitioning.relieving import Splits
from bsjoin.plan import RoutePlan
from bsjoin.spark.session import default_parallelism
from bsjoin.storage import StorageLocation
from bsjoin.storage.temporary import temporary_location

_log = logging.getLogger("bsjoin")

_ALIKE = 64


class Steering:
    """The controller of one join, and the folder from which its rules reach the workers.

    Args:
        options: how to steer.
        tasks: how many tasks the first cycle has.
        location: the folder; None where the driver puts the rule into every plan, and remembers it
            if ``options.store`` says where.
    """

    def __init__(self, options: HotSpot, tasks: int, location: StorageLocation | None = None):
        rule = rule_to_begin_with(options, options.partitions or tasks)
        self._lock = threading.Lock()
        # The last versions of the same rule: they differ in how many keys are sampled.
        self._alike: deque[int] = deque(maxlen=_ALIKE)
        self.capacity = max(1, -(-options.sample // tasks))
        location = location or _location(options)
        self._rules = None
        if location is not None:
            location.check_shared()
            location.make()
            self._rules = Rules(location)
            before = self._rules.last()
            if before is not None and before.rule.version < rule.version:
                # Under the version that it has got; workers that hear of none begin evenly.
                in_force = self._rules.publish(rule, self.capacity)
                rule = in_force or Rule.even(rule.partitions)
        self._controller = Controller(options, rule=rule)

    @property
    def rule(self) -> Rule:
        """The rule of the next cycle."""
        return self._controller.rule

    def resize(self, partitions: int) -> None:
        """Go over to another number of partitions, from the next cycle on.

        A rule that cannot be remembered is logged, and holds all the same.
        """
        with self._lock:
            if partitions == self.rule.partitions:
                return
            self._remember(self._controller.resize(partitions))

    def spread(self, splits: Splits) -> bool:
        """Move parts of partitions to others, from the next cycle on.

        Splits have, by partition, the share of its load for each other partition.

        Returns:
            Whether there is a new rule; see :meth:`bsjoin.partitioning.Controller.spread`.
        """
        with self._lock:
            rule = self._controller.spread(splits)
            if rule is not None:
                self._remember(rule)
            return rule is not None

    def _remember(self, rule: Rule) -> None:
        self._alike.clear()
        if self._rules is None:
            return
        try:
            in_force = self._rules.publish(rule, self.capacity)
        except Exception as error:
            _log.warning("bsjoin: the partition rule is not remembered: %s", error)
        else:
            self._controller.set_active_rule(in_force or rule)

    def observe(self, statistics: CycleStatistics) -> None:
        """Record a cycle; activate a new rule if one is due.

        What fails here is logged: the rows go on by the rule there is.
        """
        with self._lock:
            try:
                self._observe(statistics)
            except Exception as error:
                _log.warning("bsjoin: no new partition rule: %s", error)

    def _observe(self, statistics: CycleStatistics) -> None:
        before = self._controller.rule
        if statistics.version in self._alike:
            statistics = replace(statistics, version=before.version)
        rule, wanted = self._controller.observe(statistics), self._controller.capacity
        # Workers hear with a rule how many keys they are to sample.
        if self._rules is not None and rule is None and not 0.5 <= wanted / self.capacity <= 2:
            rule = replace(before, version=before.version + 1)
            self._alike.append(before.version)
        elif rule is not None:
            self._alike.clear()
        if rule is not None and self._rules is not None:
            in_force: Rule | None = None
            try:
                in_force = self._rules.publish(rule, wanted)
            finally:
                if in_force != self._controller.rule:
                    self._controller.set_active_rule(in_force or before)
            if in_force is None:
                return
        self.capacity = wanted


def steered(spark: SparkSession, options: HotSpot, label: str) -> RoutePlan:
    """Begin to steer the partitions of a streaming join; what the workers do."""
    location = _location(options) or temporary_location()
    steering = Steering(options, default_parallelism(spark), location)
    _listener(spark).steer(label, steering)
    return RoutePlan(
        label=label,
        location=location,
        rule=Rule.even(steering.rule.partitions),
        capacity=steering.capacity,
        seed=options.seed,
    )


def rule_to_begin_with(options: HotSpot, partitions: int) -> Rule:
    """The rule that was active when the previous application ended, else an even one."""
    location = _location(options)
    before = None if location is None else Rules(location).last()
    if before is None:
        return Rule.even(partitions)
    if before.rule.partitions == partitions:
        return before.rule
    return Rule.even(partitions, before.rule.version + 1)


def _location(options: HotSpot) -> StorageLocation | None:
    return None if options.store is None else StorageLocation.of(options.store)


class _Listener(StreamingQueryListener):
    """Hears of every micro-batch of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # A join that has not been heard of for long is forgotten.
        self._steered: LRUCache[str, Steering] = LRUCache(maxsize=256)

    def steer(self, label: str, steering: Steering) -> None:
        """Let the micro-batches of one more join reach its controller."""
        self._steered[label] = steering

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        route = routes([event.progress], self._spark)
        for label in list(self._steered):
            try:
                note = route(event.progress, label)
            except Exception as error:  # the stream goes on with the rule it has
                _log.warning("bsjoin: join %s: its figures cannot be read: %s", label, error)
                continue
            # To get it says that it was heard of.
            if note is not None and (steering := self._steered.get(label)) is not None:
                steering.observe(note.statistics)


_listeners: LRUCache[int, tuple[SparkSession, _Listener]] = LRUCache(maxsize=4)


def _listener(spark: SparkSession) -> _Listener:
    """The listener of a session; one per session."""
    known = _listeners.get(id(spark))
    if known is None or known[0] is not spark:
        known = _listeners[id(spark)] = (spark, _Listener(spark))
        spark.streams.addListener(known[1])
    return known[1]
