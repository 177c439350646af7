"""The table of a sample: distinct codes with their counts and the rows that they represent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.index import Float64s, Int64s
from bsjoin.partitioning.packing import pack, unpack


@dataclass(frozen=True, eq=False)
class Sample:
    """The reservoir table of pairs (K, N) in the paper, with weights.

    Args:
        codes: int64[m], distinct, ascending.
        counts: int64[m], how often each was drawn; 0 for a code that only represents others.
        weights: float64[m], above 0: how many rows of the stream each represents.

    Example:
        >>> sample = Sample.of(np.array([8, 3, 8]), rate=10.0)
        >>> sample.codes.tolist(), sample.weights.tolist(), sample.drawn
        ([3, 8], [10.0, 20.0], 3)
    """

    codes: Int64s
    counts: Int64s
    weights: Float64s

    @classmethod
    def of(cls, drawn: Int64s, rate: float = 1.0) -> Sample:
        """The table of drawn codes.

        Args:
            drawn: int64[s], any order.
            rate: rows of the stream per drawn code; default 1.

        Complexity: O(s log s).
        """
        codes, counts = np.unique(drawn, return_counts=True)
        return cls(codes, counts.astype(np.int64), counts.astype(np.float64) * rate)

    @classmethod
    def together(cls, samples: Sequence[Sample]) -> Sample:
        """Merge one or more samples; weights are added.

        Complexity: O(m log m).
        """
        if len(samples) == 1:
            return samples[0]
        codes, which = np.unique(np.concatenate([s.codes for s in samples]), return_inverse=True)
        counts, weights = np.zeros(len(codes), np.int64), np.zeros(len(codes))
        np.add.at(counts, which, np.concatenate([s.counts for s in samples]))
        np.add.at(weights, which, np.concatenate([s.weights for s in samples]))
        return cls(codes, counts, weights)

    def where(self, chosen: NDArray[np.bool_]) -> Sample:
        """The table of the chosen codes."""
        return Sample(self.codes[chosen], self.counts[chosen], self.weights[chosen])

    @property
    def drawn(self) -> int:
        """The number of codes drawn."""
        return int(self.counts.sum())

    @property
    def weight(self) -> float:
        """The number of rows of the stream that the sample represents."""
        return float(self.weights.sum())

    def to_list(self) -> list[Any]:
        """The table of codes that were drawn at one rate, for JSON.

        A code that is a hash takes about 9 characters, its count about one.
        """
        rate = self.weight / max(self.drawn, 1)
        return [pack(self.codes, ascending=True), pack(self.counts), rate]

    @classmethod
    def from_list(cls, written: Sequence[Any]) -> Sample:
        """The sample that :meth:`to_list` has written.

        Raises:
            ValueError: it is not the table of a sample.
        """
        packed, times, rate = written
        codes, counts = unpack(packed, ascending=True), unpack(times)
        if len(codes) != len(counts):
            raise ValueError("the texts of a sample are of different lengths")
        return cls(codes, counts, counts.astype(np.float64) * float(rate))
