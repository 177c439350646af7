"""Options of the partitioning: frozen dataclasses, checked when they are created."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from bsjoin._secrets import described
from bsjoin.errors import ArgumentError, suggest

_MOST_PARTITIONS = 10_000
MOST_SAMPLED = 1_000_000
"""The most keys that a task samples."""

_RULES = ("balanced", "algorithm_2")


@dataclass(frozen=True)
class Hash:
    """Hash partitioning: rows go to partitions by the hash of their key, as in Spark's shuffle.

    Args:
        partitions: the number of partitions, 1 to 10,000.

    Raises:
        ArgumentError: the number of partitions is out of its range.

    Example:
        >>> Hash(8).partitions
        8
    """

    partitions: int

    def __post_init__(self) -> None:
        _whole("partitions", self.partitions, 1, _MOST_PARTITIONS)


@dataclass(frozen=True, kw_only=True, repr=False)
class HotSpot:
    """Partitioning by a rule that follows the keys: balanced load for a skewed stream, warm caches.

    The rows of every micro-batch are counted and sampled while they are routed to partitions. If
    the load becomes skewed, the next micro-batch uses a new rule; while it stays what it is, the
    rule stays. The rule never changes the result of the join, only its balance. Source: the BS-Join
    paper's data partitioning based on hotspot awareness (Formulas 1 to 3 and Algorithm 2);
    docs/decisions/0007-hotspot.md lists the differences.

    The rows of a heavy key, and those without a key, are distributed by their order where tasks
    read them directly from the source of a stream. Behind a shuffle, in ``foreachBatch`` and under
    Spark Connect a hash of all their columns decides. Rows that are equal in all columns then go to
    the same partition, and the columns must be deterministic: they must not change when Spark
    computes a row again.

    In a function for ``foreachBatch`` each micro-batch is a batch of its own: a join there uses the
    last rule in ``store``, if there is one, and makes none. :func:`bsjoin.cycles` makes them there.

    Args:
        partitions: the number of partitions, 1 to 10,000. ``None`` (default): the number of cores
            that the Spark application has at the call, or in the first cycle.
        threshold: the skew DS (the paper's Formula 3: standard deviation of the partitions' rows
            over their mean) above which a new rule is computed, after random variation is
            subtracted; default 0.1. It is relative to the load for which the active rule was made.
        sample: the approximate number of rows sampled per micro-batch over all tasks, 100 to
            1,000,000; default 10,000. Samples of small micro-batches are combined until they reach
            this number. Each distinct sampled key takes about 10 bytes of the query's progress, or,
            where the JVM sends the rows, 25 of the driver's memory while Spark keeps the progress.
        rule: how a new rule is computed from the sample. ``"balanced"`` (default): ranges of equal
            weight, where each range takes its share of the remaining weight. ``"algorithm_2"``: the
            BS-Join paper's Algorithm 2, which closes a partition as soon as it reaches the mean;
            after a key with k times the mean weight, k - 1 partitions are empty.
        split_hot_keys: whether the rows of a heavy key may go to several partitions. If False, the
            partition of such a key has at least all its rows. ``None`` (default): True for
            ``"balanced"``; Algorithm 2 never splits a key.
        smoothing: the weight of earlier micro-batches in the exponential mean of the skew, 0 to
            less than 1; default 0.5. A skew that random variation cannot explain is handled
            immediately, without smoothing.
        min_cycles: the minimum number of micro-batches between two new rules; default 2.
        seed: the seed of the sample; default 0.
        store: a folder or URL for the rules that the driver and all workers can access, one folder
            per join. A restarted query continues with the last rule in it. ``None`` (default): a
            temporary folder on the driver's host, which suffices if all workers run on it, or the
            JVM sends the rows: then the driver reads it. Otherwise the query fails.

    Raises:
        ArgumentError: a value is out of its range.

    Example:
        >>> HotSpot(partitions=16).threshold
        0.1
    """

    partitions: int | None = None
    threshold: float = 0.1
    sample: int = 10_000
    rule: Literal["balanced", "algorithm_2"] = "balanced"
    split_hot_keys: bool | None = None
    smoothing: float = 0.5
    min_cycles: int = 2
    seed: int = 0
    store: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None:
            _whole("partitions", self.partitions, 1, _MOST_PARTITIONS)
        _whole("sample", self.sample, 100, MOST_SAMPLED)
        _whole("min_cycles", self.min_cycles, 1, None)
        _whole("seed", self.seed, 0, None)
        if not _is_number(self.threshold) or not self.threshold > 0:
            raise ArgumentError(
                f"threshold={self.threshold!r}: give a number above zero; at 0.1 a rule is "
                "replaced when the loads' standard deviation exceeds 10 % of their mean"
            )
        if not _is_number(self.smoothing) or not 0 <= self.smoothing < 1:
            raise ArgumentError(
                f"smoothing={self.smoothing!r}: give a number from 0 (no smoothing) to below 1"
            )
        if self.rule not in _RULES:
            raise ArgumentError(
                f"rule={self.rule!r} is not a rule of HotSpot. {suggest(str(self.rule), _RULES)}"
            )
        if self.split_hot_keys is not None and not isinstance(self.split_hot_keys, bool):
            raise ArgumentError(f"split_hot_keys={self.split_hot_keys!r}: give True, False or None")
        if self.split_hot_keys and self.rule == "algorithm_2":
            raise ArgumentError(
                "split_hot_keys=True: Algorithm 2 of the BS-Join paper leaves every key on one "
                "partition; use rule='balanced', or leave split_hot_keys out"
            )

    @property
    def splits(self) -> bool:
        """Whether the rows of a heavy key may go to several partitions, default applied."""
        return self.rule == "balanced" if self.split_hot_keys is None else self.split_hot_keys

    __repr__ = described


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _whole(name: str, value: object, least: int, most: int | None) -> None:
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ArgumentError(f"{name}={value!r}: give a whole number, {bounds}")
