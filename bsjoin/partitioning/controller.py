"""Computes the rule of the next cycle from the statistics of the last ones.

What counts is the load that the keys of a cycle explain, since a rule distributes keys. A rule is
replaced if that load differs from the one for which the rule was made, by more than the threshold
and random variation: immediately if random variation is very unlikely to explain it, otherwise if
the smoothed difference in the last cycles, or the combined sample of small cycles, confirms it. A
rule is not replaced by one that is only slightly better, nor earlier than ``min_cycles`` after the
last change. So a load that stays what it is brings the rules to rest, whether or not a rule can
make it even.

Partitions are to have equal numbers of rows, unless :meth:`Controller.spread` says otherwise; the
skew is relative to what they are to have.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from bsjoin.errors import ArgumentError
from bsjoin.partitioning.cycle import CycleStatistics
from bsjoin.partitioning.options import HotSpot
from bsjoin.partitioning.range_rules import algorithm_2, whole_keys
from bsjoin.partitioning.relieving import Splits, relieved
from bsjoin.partitioning.routing import STEPS, Router
from bsjoin.partitioning.rule import Rule
from bsjoin.partitioning.sample import Sample
from bsjoin.partitioning.skew import beyond_chance, chance, rarely_by_chance
from bsjoin.partitioning.spreading import spread_keys
from bsjoin.partitioning.targets import Targets

_BETTER = 0.75  # of the current skew: the expected skew of a new rule must be below it
_MORE = 4  # times the rows for which a rule was made are reason enough to look for a better one
_MOST_CYCLES = 1000
_RECENT_CYCLES = 10


@dataclass(frozen=True)
class _Seen:
    """A cycle's sample, and how many rows tell how they are distributed under the active rule.

    All rows of the cycle if they were counted under the ranges of that rule; else those drawn.
    """

    sample: Sample
    counted: float


class Controller:
    """Controls the partitioning of one query. Independent of Spark, clocks and files.

    See docs/decisions/0007-hotspot.md for the reasons of each criterion.

    Args:
        options: threshold, sample size and the other options.
        partitions: the number of partitions n. None (default): that of the options, which must
            then have one.
        rule: the active rule, after a restart. None (default): equal ranges of all codes,
            version 0.

    Raises:
        ArgumentError: the number of partitions is missing, or differs from that of the rule.

    Complexity: ``observe`` is O(m log m) for m sampled codes, and 10 times that for a new rule.

    Example:
        >>> from bsjoin.partitioning import Collector
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
            raise ArgumentError("partitions=None: give the controller the number of partitions")
        if rule is not None and rule.partitions != wanted:
            raise ArgumentError(
                f"partitions={wanted}: the active rule has {rule.partitions}; call resize()"
            )
        self._options = options
        self._threshold_squared = options.threshold * options.threshold  # which may be infinite
        self._targets = Targets.equal(wanted)
        self._take(Rule.even(wanted) if rule is None else rule)
        self._since = options.min_cycles
        self._smoothed = 0.0
        self._expect(None)
        self._window: deque[_Seen] = deque(maxlen=_MOST_CYCLES)
        self._tasks: deque[int] = deque([1], maxlen=_RECENT_CYCLES)

    @property
    def rule(self) -> Rule:
        """The rule of the next cycle."""
        return self._rule

    @property
    def capacity(self) -> int:
        """The sample size per task of the next cycle, if it has as many tasks as the last ones."""
        return max(1, math.ceil(self._options.sample / max(self._tasks)))

    def observe(self, statistics: CycleStatistics) -> Rule | None:
        """Evaluate a cycle.

        Args:
            statistics: the sum over all its tasks (:func:`bsjoin.partitioning.added`). Those of a
                cycle that ran under an earlier rule only extend the sample.

        Returns:
            The rule for the next cycles, with a version above all earlier ones; None if the rule is
            not replaced.
        """
        if not statistics.rows:
            return None
        self._tasks.append(statistics.tasks)
        self._since += 1
        n, rows = self._rule.partitions, statistics.rows
        current = statistics.version == self._rule.version and len(statistics.partitions) == n
        seen, counted = statistics.sample, float(max(statistics.sample.drawn, 1))
        sudden = slow = False
        if current:
            beyond = beyond_chance(
                self._targets.skew(statistics.partitions), n, self._targets.effective_rows(rows)
            )
            self._smoothed = self._mean(self._smoothed, beyond)
            if statistics.cells is not None:
                seen, counted = statistics.calibrated(self._router), float(rows)
            sudden, slow = self._is_changed(seen, counted)
        self._remember(_Seen(seen, counted), alone=sudden)
        due = current and self._since >= self._options.min_cycles
        due = due and (sudden or slow or self._is_made_for_less() or self._are_changed_together())
        rule = self._better() if due else None
        if rule is not None:
            self._go_over(rule, self._sample())
        return rule

    def resize(self, partitions: int) -> Rule:
        """Change the number of partitions.

        Returns:
            The rule for the next cycles, computed from the samples at hand.

        Raises:
            ValueError: the number is below 1.
        """
        version = self._rule.version + 1
        rule = Rule.even(partitions, version)
        self._targets = Targets.equal(partitions)
        if self._window:
            rule = self._made(rule)
        self._go_over(rule)
        return rule

    def spread(self, splits: Splits) -> Rule | None:
        """Move parts of partitions to others, and keep the shares that follow from it.

        For who measures what partitions cost: rows of some keys take longer than those of others.
        Nothing moves before ``min_cycles`` cycles have run by the active rule, since the
        measurements are older, and while the rows do not follow the present shares.

        Args:
            splits: by partition, the share of its load for each other partition.

        Returns:
            The rule for the next cycles; None if the rule is not replaced.

        Raises:
            ArgumentError: the options keep keys whole, or a partition is not there.
        """
        n = self._rule.partitions
        if not self._options.splits:
            raise ArgumentError(
                "a partition cannot be split where keys stay whole: use "
                "HotSpot(rule='balanced', split_hot_keys=True), the default"
            )
        if wrong := {*splits, *(r for parts in splits.values() for r in parts)} - set(range(n)):
            raise ArgumentError(f"there are {n} partitions, and none is {sorted(wrong)}")
        followed = self._smoothed <= self._threshold_squared
        if not self._window or self._since < self._options.min_cycles or not followed:
            return None
        sample = self._sample()
        rule = relieved(self._rule, sample, splits)
        self._targets = Targets.of(rule.loads(sample.codes, sample.weights))
        self._go_over(rule)
        return rule

    def set_active_rule(self, rule: Rule) -> None:
        """Use the active rule: the last one computed here has another version, or is not active."""
        if replace(rule, version=self._rule.version) == self._rule:
            self._take(rule)
        else:
            self._go_over(rule)

    def _take(self, rule: Rule) -> None:
        self._rule, self._router = rule, Router(rule)

    def _go_over(self, rule: Rule, sample: Sample | None = None) -> None:
        """Go over to a rule that was made for a sample; None: the loads are to be the targets."""
        if rule.boundaries != self._rule.boundaries:
            drawn = [_Seen(one.sample, float(one.sample.drawn)) for one in self._window]
            self._window = deque(drawn, maxlen=_MOST_CYCLES)
        self._take(rule)
        self._since, self._smoothed = 0, 0.0
        self._expect(sample)

    def _expect(self, sample: Sample | None) -> None:
        """From now on only loads that differ from those of this sample need another rule."""
        self._change, self._expected, self._expected_of = 0.0, self._targets.shares, math.inf
        if sample is not None:
            loads = self._rule.loads(sample.codes, sample.weights)
            self._expected, self._expected_of = loads / loads.sum(), self._known()

    def _mean(self, before: float, one: float) -> float:
        keep = self._options.smoothing
        return keep * before + (1 - keep) * one

    def _is_changed(self, sample: Sample, rows: float) -> tuple[bool, bool]:
        """Whether a cycle's loads have changed, and whether those of the last cycles have."""
        n, keep = self._rule.partitions, self._options.smoothing
        rows, change = self._targets.effective_rows(rows), self._changed_by(sample)
        self._change = self._mean(self._change, beyond_chance(change, n, rows))
        # An exponential mean has the variance of a plain mean over this many cycles.
        mean = self._change + chance(n, rows) ** 2
        slow = self._is_rare(mean, rows, cycles=(1 + keep) / (1 - keep))
        return self._is_rare(change**2, rows), slow

    def _is_rare(self, squared: float, rows: float, cycles: float = 1.0) -> bool:
        """Whether a change is above the threshold beyond the random variation then and now."""
        n = self._rule.partitions
        rare = rarely_by_chance(n, rows, cycles) + rarely_by_chance(n, self._expected_of)
        return squared - rare > self._threshold_squared

    def _are_changed_together(self) -> bool:
        """The same for small cycles, from their combined sample; evaluated at intervals."""
        if len(self._window) < 2 or self._since % len(self._window):
            return False
        return self._is_rare(self._changed_by(self._sample()) ** 2, self._known())

    def _is_made_for_less(self) -> bool:
        """Whether the rule was made for few rows, and proves to be uneven for the many of now."""
        known = self._known()
        if known < _MORE * self._expected_of:
            return False
        sample = self._sample()
        squared = self._targets.skew(self._rule.loads(sample.codes, sample.weights)) ** 2
        rare = rarely_by_chance(self._rule.partitions, known)
        return squared - rare > self._threshold_squared

    def _changed_by(self, sample: Sample) -> float:
        """DS of a sample's loads relative to those for which the rule was made.

        A partition that was to have less than its target counts as if it had that: a large change
        of a small load is a small one.
        """
        loads = self._rule.loads(sample.codes, sample.weights)
        if not len(sample.codes):
            return 0.0
        scale = np.maximum(self._expected, self._targets.shares)
        off = np.square((loads / loads.sum() - self._expected) / scale).sum()
        return math.sqrt(float(off) / max(len(loads) - 1, 1))

    def _sample(self) -> Sample:
        return Sample.together([one.sample for one in self._window])

    def _known(self) -> float:
        """The rows whose loads would vary as much at random as those of this sample.

        A boundary that was not counted is uncertain only inside its cell: an error of a third of a
        step, twice.
        """
        drawn = max(sum(one.sample.drawn for one in self._window), 1)
        counted = sum(one.counted for one in self._window)
        return self._targets.effective_rows(1 / (1 / counted + 1 / (3 * STEPS * drawn)))

    def _remember(self, seen: _Seen, *, alone: bool) -> None:
        """Keep the last cycles that make up a sample; discard them when the keys change."""
        if alone:
            self._window.clear()
        self._window.append(seen)
        kept = sum(one.sample.drawn for one in self._window)
        while kept - self._window[0].sample.drawn >= self._options.sample:
            kept -= self._window.popleft().sample.drawn

    def _better(self) -> Rule | None:
        """A new rule, if it is sufficiently better than the active one.

        Both are judged by what the keys explain, in one sample. A skew of other causes, such as a
        hot key whose rows are all equal, would stay. If the sample is complete and no rule is
        better, the loads are as even as they can be: only other ones are a reason to look again.
        """
        rule = self._made(
            Rule(self._rule.version + 1, self._rule.partitions, self._rule.boundaries)
        )
        sample, n = self._sample(), rule.partitions
        now, then = (
            self._targets.skew(r.loads(sample.codes, sample.weights)) ** 2
            for r in (self._rule, rule)
        )
        # The sample's own variation makes the active rule look worse, and the new one better.
        error = chance(n, self._known()) ** 2
        if then + error > _BETTER**2 * (now - error):
            if sample.drawn >= self._options.sample or math.isfinite(self._expected_of):
                self._expect(sample)
            return None
        return rule

    def _made(self, like: Rule) -> Rule:
        """A rule for the current samples, with the version of another rule and near its ranges."""
        sample = self._sample()
        if self._options.splits:
            return spread_keys(
                sample, like.partitions, like.version, like.boundaries, self._targets
            )
        make = algorithm_2 if self._options.rule == "algorithm_2" else whole_keys
        return make(sample, like.partitions, like.version)
