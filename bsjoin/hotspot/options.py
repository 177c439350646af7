"""How a join's rows are laid out over partitions: frozen option objects."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from bsjoin._secrets import described
from bsjoin.errors import ArgumentError, suggest

__all__ = ["Hash", "HotSpot"]

_MOST_PARTITIONS = 10_000
_MOST_SAMPLED = 1_000_000
_RULES = ("balanced", "algorithm_2")


@dataclass(frozen=True)
class Hash:
    """Partitions by the hash of the key, whatever the keys are like.

    Args:
        partitions: how many, 1 to 10,000.

    Raises:
        ArgumentError: a value is out of its range.

    Example:
        >>> Hash(8).partitions
        8
    """

    partitions: int

    def __post_init__(self) -> None:
        _whole("partitions", self.partitions, 1, _MOST_PARTITIONS)


@dataclass(frozen=True, kw_only=True, repr=False)
class HotSpot:
    """Partitions that follow the keys: even loads, however skewed the stream, and warm caches.

    Every cycle (micro-batch) is counted and sampled while it is routed. When its load is skewed,
    the next one gets another rule. Any rule gives the same rows; a rule that is late or wrong
    makes a cycle slower, nothing else.

    Rows of a heavy key are assigned by a hash of all their columns. So rows that are equal
    throughout go together, and columns must not change when Spark reads a row again, as those
    of a function that draws random numbers do.

    Args:
        partitions: how many, 1 to 10,000; ``None``: as many as Spark has cores.
        threshold: the skew DS (the paper's Formula 3: standard deviation of the partitions' rows
            over their mean) above which a new rule is made, over what is there by chance.
        sample: about how many rows of a cycle are sampled, all tasks together, 100 to 1,000,000.
            The samples of small cycles are kept together until they are so many. Each sampled
            row with a key of its own costs about 10 bytes of the query's progress.
        rule: how a new rule is made from the sample. ``"balanced"``: ranges of equal weight, made
            anew for what is left after each one. ``"algorithm_2"``: the BS-Join paper's
            Algorithm 2, which closes a partition as soon as it reaches the mean; after a key as
            heavy as k means, k - 1 partitions stay empty.
        split_hot_keys: whether the rows of a heavy key may go to several partitions. If not, a
            partition with such a key has at least that key's rows. ``None``: True for
            ``"balanced"``; Algorithm 2 never splits a key.
        smoothing: how much a cycle that is just above the threshold must be confirmed by those
            before it: the weight of the past, 0 to less than 1. A skew that cannot be chance
            is acted on at once.
        min_cycles: the fewest cycles from one new rule to the next.
        seed: of the sample and the turns.
        store: a folder, or URL, for the rules, which the driver and all workers reach; one join a
            folder. A query that is started again goes on with the last rule there. ``None``: a
            temporary folder of the driver's host, for workers on this host.

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
        _whole("sample", self.sample, 100, _MOST_SAMPLED)
        _whole("min_cycles", self.min_cycles, 1, None)
        _whole("seed", self.seed, 0, None)
        if not _is_number(self.threshold) or not self.threshold > 0:
            raise ArgumentError(
                f"threshold={self.threshold!r}: give a number above zero; at 0.1 a rule is "
                "replaced when the loads of the partitions scatter by more than 10 % of their mean"
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
        """Whether the rows of a heavy key may go to several partitions."""
        return self.rule == "balanced" if self.split_hot_keys is None else self.split_hot_keys

    __repr__ = described


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _whole(name: str, value: object, least: int, most: int | None) -> None:
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ArgumentError(f"{name}={value!r}: give a whole number, {bounds}")
