"""From the statistics of a stream's micro-batches to the rules of those to come.

A listener of the session hears of every micro-batch; the controller of the join makes a rule where
one is due, and a file in the join's folder takes it to the workers.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from bsjoin._plan import RoutePlan
from bsjoin._progress import routes
from bsjoin._spark.session import default_parallelism
from bsjoin.hotspot import Controller, CycleStatistics, HotSpot, Rule
from bsjoin.hotspot.published import Rules
from bsjoin.store import Home
from bsjoin.store.temporary import temporary_home

__all__ = ["Steering", "rule_to_begin_with", "steered"]

_log = logging.getLogger("bsjoin")


class Steering:
    """The controller of one join, and the folder from which its rules reach the workers.

    Args:
        options: how to steer.
        tasks: how many tasks a cycle has, to begin with.
        home: the folder; None where the driver puts the rule into every plan, and remembers it
            if ``options.store`` says where.
    """

    def __init__(self, options: HotSpot, tasks: int, home: Home | None = None):
        rule = rule_to_begin_with(options, options.partitions or tasks)
        self._controller = Controller(options, rule=rule)
        self._lock = threading.Lock()
        self.capacity = max(1, -(-options.sample // tasks))
        home = home or _home(options)
        self._rules = None
        if home is not None:
            home.make()
            self._rules = Rules(home)
            before = self._rules.last()
            if before is not None and before.rule.version < rule.version:
                self._rules.publish(rule, self.capacity)

    @property
    def rule(self) -> Rule:
        """The rule of the next cycle."""
        return self._controller.rule

    def observe(self, statistics: CycleStatistics) -> None:
        """Take note of a cycle; put a new rule in force where one is due."""
        with self._lock:
            rule = self._controller.observe(statistics)
            self.capacity = self._controller.capacity
            if rule is not None and self._rules is not None:
                self._rules.publish(rule, self.capacity)


def steered(spark: SparkSession, options: HotSpot, label: str) -> RoutePlan:
    """Begin to steer the partitions of a streaming join.

    Args:
        spark: the session.
        options: how.
        label: the join's.

    Returns:
        What the workers do.
    """
    home = _home(options) or temporary_home()
    steering = Steering(options, default_parallelism(spark), home)
    _listener(spark).steer(label, steering)
    return RoutePlan(
        label=label,
        home=home,
        rule=Rule.even(steering.rule.partitions),
        capacity=steering.capacity,
        seed=options.seed,
    )


def rule_to_begin_with(options: HotSpot, partitions: int) -> Rule:
    """The rule that was in force when the application before this one ended, else an even one."""
    home = _home(options)
    before = None if home is None else Rules(home).last()
    if before is None:
        return Rule.even(partitions)
    if before.rule.partitions == partitions:
        return before.rule
    return Rule.even(partitions, before.rule.version + 1)


def _home(options: HotSpot) -> Home | None:
    return None if options.store is None else Home.of(options.store)


class _Listener(StreamingQueryListener):
    """Hears of every micro-batch of a session."""

    def __init__(self) -> None:
        self._steered: dict[str, Steering] = {}

    def steer(self, label: str, steering: Steering) -> None:
        """Let the micro-batches of one more join reach its controller."""
        self._steered[label] = steering

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for label, note in routes(event.progress).items():
            if label in self._steered:
                try:
                    self._steered[label].observe(note.statistics)
                except Exception as error:  # the stream goes on with the rule it has
                    _log.warning("bsjoin: join %s: no new rule: %s", label, error)


_listeners: dict[int, tuple[SparkSession, _Listener]] = {}


def _listener(spark: SparkSession) -> _Listener:
    """The listener of a session, which is told of its streams only once."""
    known = _listeners.get(id(spark))
    if known is None or known[0] is not spark:
        known = _listeners[id(spark)] = (spark, _Listener())
        spark.streams.addListener(known[1])
    return known[1]
