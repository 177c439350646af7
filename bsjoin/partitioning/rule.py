"""The partitioning rule of a cycle: maps the code of a key to partitions."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bsjoin.index import GREATEST, LEAST, Float64s, Int64s
from bsjoin.partitioning.packing import pack, unpack

_SHARES_ADD_UP = 1e-3
_DIGITS = 6


@dataclass(frozen=True)
class HotKey:
    """A key whose rows are distributed over several partitions.

    Args:
        code: the key's code.
        first: the first of its partitions, which are consecutive.
        shares: the share of its rows for each partition from ``first`` on; they sum to 1.
    """

    code: int
    first: int
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Rule:
    """Range partitioning of codes, plus the hot keys that are split over several partitions.

    Every rule is correct: it decides where rows are processed, never what they are joined with.

    Args:
        version: 0 for the initial rule, which is not published, then 1, 2, 3, …
        partitions: n, 1 or more.
        boundaries: n - 1 int64, ascending: the last code of every partition but the last. Equal
            boundaries leave a partition without a range.
        hot: the keys that are split, ascending by code; default none. The ranges do not apply to
            them.

    Example:
        >>> rule = Rule(1, 3, (10, 20), (HotKey(15, 0, (0.25, 0.75)),))
        >>> rule.loads(np.array([9, 15, 21]), np.array([4.0, 8.0, 4.0])).tolist()
        [6.0, 6.0, 4.0]
    """

    version: int
    partitions: int
    boundaries: tuple[int, ...]
    hot: tuple[HotKey, ...] = ()

    @classmethod
    def even(cls, partitions: int, version: int = 0) -> Rule:
        """Equal ranges of all codes: equivalent to hash partitioning, as codes are hashes.

        Args:
            partitions: n, 1 or more.
            version: of the rule; default 0.

        Raises:
            ValueError: the number of partitions is below 1.

        Example:
            >>> Rule.even(2).boundaries
            (-1,)
        """
        if partitions < 1:
            raise ValueError(f"partitions={partitions!r}: a rule has 1 partition or more")
        width = GREATEST - LEAST + 1
        ends = (LEAST + width * j // partitions - 1 for j in range(1, partitions))
        return cls(version, partitions, tuple(ends))

    def partition_of(self, codes: Int64s) -> Int64s:
        """The partition whose range contains each code; hot keys are treated like others.

        Complexity: O(m log n).
        """
        return np.searchsorted(np.array(self.boundaries, np.int64), codes, "left")

    def loads(self, codes: Int64s, weights: Float64s) -> Float64s:
        """The load of each partition for a table of keys.

        Args:
            codes: int64[m], distinct.
            weights: float64[m], the load of each.

        Returns:
            float64[n].

        Complexity: O(m log n).
        """
        partitions, rest = self.partition_of(codes), weights.astype(np.float64)
        extra = np.zeros(self.partitions)
        if self.hot and len(codes):
            order = np.argsort(codes)
            wanted = np.array([key.code for key in self.hot], np.int64)
            at = order[np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)]
            for row, key in zip(at.tolist(), self.hot, strict=True):
                if codes[row] == key.code:
                    span = slice(key.first, key.first + len(key.shares))
                    extra[span] += rest[row] * np.array(key.shares) / math.fsum(key.shares)
                    rest[row] = 0.0
        return np.bincount(partitions, weights=rest, minlength=self.partitions) + extra

    def to_json(self) -> str:
        """The rule as a JSON object: about 11 characters per boundary, 30 per hot key, 9 per share.

        Shares are rounded to 6 digits.
        """
        hot = [[key.code, key.first, [round(x, _DIGITS) for x in key.shares]] for key in self.hot]
        boundaries = pack(np.array(self.boundaries, np.int64), ascending=True)
        rule = {
            "version": self.version,
            "partitions": self.partitions,
            "boundaries": boundaries,
            "hot": hot,
        }
        return json.dumps(rule, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Rule:
        """The rule that :meth:`to_json` has written.

        Raises:
            ValueError: the text is not a rule, or damaged.
        """
        try:
            read: dict[str, Any] = json.loads(text)
            rule = cls(
                int(read["version"]),
                int(read["partitions"]),
                tuple(unpack(read["boundaries"], ascending=True).tolist()),
                tuple(HotKey(code, first, tuple(shares)) for code, first, shares in read["hot"]),
            )
            if wrong := rule._wrong():
                raise ValueError(wrong)
        except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            shown = text if len(text) < 60 else text[:57] + "..."
            raise ValueError(f"{shown!r} is not a rule: {type(error).__name__} {error}") from error
        return rule

    def _wrong(self) -> str | None:
        """Return what is invalid in the rule; None for a valid one."""
        whole = (x for key in self.hot for x in (key.code, key.first))
        if any(type(number) is not int for number in whole):
            return "a code or partition of a hot key is not a whole number"
        if self.version < 0 or self.partitions < 1:
            return f"version {self.version} over {self.partitions} partitions"
        if len(self.boundaries) != self.partitions - 1:
            return f"{len(self.boundaries)} boundaries of {self.partitions} partitions"
        if any(a > b for a, b in pairwise(self.boundaries)):
            return "the boundaries do not ascend"
        if any(a.code >= b.code for a, b in pairwise(self.hot)):
            return "the hot keys do not ascend"
        codes = (*self.boundaries, *(key.code for key in self.hot))
        if not all(LEAST <= code <= GREATEST for code in codes):
            return "a code has more than 64 bits"
        for key in self.hot:
            if not 0 <= key.first <= self.partitions - len(key.shares):
                return f"the key {key.code} has partitions that are not there"
            if not all(0 <= share <= 2 for share in key.shares):
                return f"the shares of the key {key.code} are {key.shares}"
            rounded = len(key.shares) * 10**-_DIGITS
            if abs(math.fsum(key.shares) - 1) > _SHARES_ADD_UP + rounded:
                return f"the shares of the key {key.code} do not add up to 1"
        return None
