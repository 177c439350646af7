"""From the statistics of each cycle to the rule of the next: when to change it, and what to.

A rule is replaced when the skew is above the threshold beyond what chance explains: at once where
chance hardly ever explains it, and where the cycles before it say the same of less, smoothed or,
small ones, put together. It is not replaced by one that is hardly better, nor sooner than
``min_cycles`` after the last. So a skew that cannot be helped, or comes and goes around the
threshold, does not make the rule flap.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from bsjoin.errors import ArgumentError
from bsjoin.hotspot.cycle import CycleStatistics
from bsjoin.hotspot.options import HotSpot
from bsjoin.hotspot.range_rules import algorithm_2, whole_keys
from bsjoin.hotspot.routing import STEPS, Router
from bsjoin.hotspot.rule import Rule
from bsjoin.hotspot.sample import Sample
from bsjoin.hotspot.skew import beyond_chance, chance, rarely_by_chance, skew
from bsjoin.hotspot.spreading import spread_keys

__all__ = ["Controller", "Observation"]

_BETTER = 0.75  # of the skew now: what a new rule must promise
_HOTTEST = 10
_SEEN = 3  # a key that was sampled less often may be there by chance
_MOST_CYCLES = 1000


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the controller made of one cycle.

    Args:
        version: of the rule under which the cycle ran.
        rows: rows of the cycle.
        skew: DS of the cycle, under that rule.
        smoothed: the skew beyond chance over the last cycles.
        expected: DS to be expected in a cycle of that size under the new rule; None where the
            rule stays.
        moved: under the new rule, the share of the rows whose key was and is on one partition,
            and now on another; None where the rule stays.
        hottest: codes of the most frequent keys, each with its share of the cycle's rows.
    """

    version: int
    rows: int
    skew: float
    smoothed: float
    expected: float | None
    moved: float | None
    hottest: tuple[tuple[int, float], ...]


class Controller:
    """Steers the partitions of one query. It knows nothing of Spark, of clocks or of files.

    Args:
        options: threshold, sample and so on.
        partitions: n, where the options leave it open.
        rule: the rule that is active, after a restart; by default even ranges of all codes,
            version 0.

    Raises:
        ArgumentError: the number of partitions is not given, or the rule has another one.

    Complexity: ``observe`` is O(m log m) for m sampled codes, and 10 times that for a new rule.

    Example:
        >>> from bsjoin.hotspot import Collector
        >>> controller = Controller(HotSpot(partitions=2))
        >>> collector = Collector(Router(controller.rule), capacity=100)
        >>> codes = np.repeat(7, 100)  # one key, and it lies in the upper half
        >>> _ = collector.route(codes, contents=np.arange(100))
        >>> controller.observe(collector.statistics()).hot
        (HotKey(code=7, first=0, shares=(0.5, 0.5)),)
    """

    def __init__(self, options: HotSpot, partitions: int | None = None, rule: Rule | None = None):
        wanted = options.partitions if partitions is None else partitions
        if wanted is None and rule is not None:
            wanted = rule.partitions
        if wanted is None:
            raise ArgumentError("partitions=None: the controller must be told how many there are")
        if rule is not None and rule.partitions != wanted:
            raise ArgumentError(
                f"partitions={wanted}: the active rule has {rule.partitions}; call resize()"
            )
        self._options = options
        self._take(Rule.even(wanted) if rule is None else rule)
        self._since = options.min_cycles
        self._smoothed = 0.0
        self._window: deque[Sample] = deque(maxlen=_MOST_CYCLES)
        self._tasks = 1
        self.last: Observation | None = None
        """What was made of the last cycle that had rows."""

    @property
    def rule(self) -> Rule:
        """The rule of the next cycle."""
        return self._rule

    @property
    def capacity(self) -> int:
        """How many codes each task of the next cycle should sample, if it has as many tasks."""
        return max(1, math.ceil(self._options.sample / self._tasks))

    def observe(self, statistics: CycleStatistics) -> Rule | None:
        """Take note of a cycle.

        Args:
            statistics: of all its tasks together (:func:`bsjoin.hotspot.added`). Those of a cycle
                that ran under an earlier rule are kept as a sample and decide nothing.

        Returns:
            The rule from the next cycle on, with a version above all before; None: as it is.
        """
        if not statistics.rows:
            return None
        self._tasks = statistics.tasks
        self._since += 1
        n, rows, measured = self._rule.partitions, statistics.rows, statistics.skew
        current = statistics.version == self._rule.version and len(statistics.partitions) == n
        seen = statistics.sample
        sudden = False
        if current:
            seen = statistics.calibrated(self._router)
            keep = self._options.smoothing
            self._smoothed = keep * self._smoothed + (1 - keep) * beyond_chance(measured, n, rows)
            limit = self._options.threshold**2
            sudden = measured**2 - rarely_by_chance(n, rows) > limit
        self._remember(seen, alone=sudden)
        found = None
        if current and self._since >= self._options.min_cycles:
            if sudden or self._slow(rows):
                found = self._better(max(beyond_chance(measured, n, rows), self._smoothed), rows)
            elif self._slow_together():
                found = self._better(math.inf, rows)
        rule, expected = found or (None, None)
        self.last = Observation(
            version=statistics.version,
            rows=rows,
            skew=measured,
            smoothed=math.sqrt(max(self._smoothed, 0.0)),
            expected=expected,
            moved=None if rule is None else _moved(self._rule, rule, seen),
            hottest=_hottest(seen, rows),
        )
        if rule is not None:
            self._change(rule)
        return rule

    def resize(self, partitions: int) -> Rule:
        """Go over to another number of partitions.

        Returns:
            The rule from the next cycle on, made from the samples there are.

        Raises:
            ValueError: the number is below 1.
        """
        version = self._rule.version + 1
        rule = Rule.even(partitions, version)
        if self._window:
            rule = self._made(rule)
        self._change(rule)
        return rule

    def set_active_rule(self, rule: Rule) -> None:
        """Use the rule that is active: the last one made here could not be published."""
        self._change(rule)

    def _take(self, rule: Rule) -> None:
        self._rule, self._router = rule, Router(rule)

    def _change(self, rule: Rule) -> None:
        self._take(rule)
        self._since, self._smoothed = 0, 0.0

    def _slow(self, rows: int) -> bool:
        """Whether the smoothed skew is above the threshold, chance set aside."""
        n, keep = self._rule.partitions, self._options.smoothing
        # An exponential mean scatters as one over so many cycles does.
        rare = rarely_by_chance(n, rows, cycles=(1 + keep) / (1 - keep))
        return self._smoothed - beyond_chance(math.sqrt(rare), n, rows) > self._options.threshold**2

    def _slow_together(self) -> bool:
        """The same of small cycles, whose samples together say more; looked at now and then."""
        if len(self._window) < 2 or self._since % len(self._window):
            return False
        sample = Sample.together(self._window)
        squared = skew(self._rule.loads(sample.codes, sample.weights)) ** 2
        rare = rarely_by_chance(self._rule.partitions, sample.drawn)
        return squared - rare > self._options.threshold**2

    def _remember(self, seen: Sample, *, alone: bool) -> None:
        """Keep the last cycles, as many as make up a sample; forget them when keys change."""
        if alone:
            self._window.clear()
        self._window.append(seen)
        kept = sum(one.drawn for one in self._window)
        while kept - self._window[0].drawn >= self._options.sample:
            kept -= self._window.popleft().drawn

    def _better(self, squared: float, rows: int) -> tuple[Rule, float] | None:
        """A new rule with the skew that it promises, if that is worth a change.

        What the rule in force should have made of the sample counts, too: where that is little,
        the skew has reasons that no rule can help, as rows of a hot key that are all alike.
        """
        rule = self._made(
            Rule(self._rule.version + 1, self._rule.partitions, self._rule.boundaries)
        )
        sample = Sample.together(self._window)
        # A boundary is uncertain inside its cell only: by chance of a third of a step, twice.
        error = rule.partitions / (3 * STEPS * sample.drawn)
        now, then = (skew(r.loads(sample.codes, sample.weights)) ** 2 for r in (self._rule, rule))
        promised = then + error
        if promised > _BETTER**2 * min(now, squared):
            return None
        return rule, math.sqrt(promised + chance(rule.partitions, rows) ** 2)

    def _made(self, like: Rule) -> Rule:
        """A rule for the samples there are, of the version and near the ranges of another."""
        sample = Sample.together(self._window)
        if self._options.splits:
            return spread_keys(sample, like.partitions, like.version, like.boundaries)
        make = algorithm_2 if self._options.rule == "algorithm_2" else whole_keys
        return make(sample, like.partitions, like.version)


def _hottest(seen: Sample, rows: int) -> tuple[tuple[int, float], ...]:
    """The most frequent keys and their shares."""
    order = np.argsort(-seen.weights, kind="stable")[:_HOTTEST]
    least = _SEEN * rows / max(seen.drawn, 1)
    return tuple(
        (code, weight / rows)
        for code, weight in zip(
            seen.codes[order].tolist(), seen.weights[order].tolist(), strict=True
        )
        if weight >= least
    )


def _moved(old: Rule, new: Rule, seen: Sample) -> float:
    """The share of the weight that had one partition and has another one now."""
    spread = np.array([key.code for key in (*old.hot, *new.hot)], np.int64)
    alone = ~np.isin(seen.codes, spread)
    other = old.partition_of(seen.codes) != new.partition_of(seen.codes)
    return float(seen.weights[alone & other].sum() / seen.weights.sum())
