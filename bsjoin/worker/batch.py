"""What passes through the incremental cache: batches of keys, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.worker.matching import distinct
from bsjoin.worker.source_client import Figures

__all__ = ["Batch", "Loaded", "Tally", "whole"]

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@dataclass(frozen=True)
class Batch:
    """The keys of an Arrow batch that are not null.

    Args:
        hashes: int64[m].
        keys: the m keys, column by column.
        places: int64[m], where they stand in the Arrow batch; None if that is all of it.
    """

    hashes: Int64s
    keys: list[pa.Array]
    places: Int64s | None

    @classmethod
    def of(cls, hashes: pa.Array, keys: list[pa.Array]) -> Batch:
        """Leave out null keys, whose hash is null."""
        if not hashes.null_count:
            return cls(hashes.to_numpy(), keys, None)
        places = np.flatnonzero(hashes.is_valid().to_numpy(zero_copy_only=False))
        chosen = pa.array(places)
        return cls(hashes.take(chosen).to_numpy(), [k.take(chosen) for k in keys], places)

    def take(self, where: Int64s) -> Batch:
        """Some of the keys."""
        chosen = pa.array(where)
        return Batch(self.hashes.take(where), [key.take(chosen) for key in self.keys], None)

    def distinct(self, ticks: Int64s, *, exact: bool) -> tuple[Batch, Int64s, Int64s]:
        """The distinct keys.

        Args:
            ticks: int64[m], when each key is used.
            exact: whether equal hashes mean equal keys.

        Returns:
            The d distinct keys; int64[d]: when each is used last; int64[m]: which of them each
            key is.
        """
        which, inverse = distinct([pa.array(self.hashes)] if exact else self.keys)
        last = np.zeros(len(which), np.int64)
        last[inverse] = ticks  # of several uses, the last one counts
        return self.take(which), last, inverse


@dataclass
class Loaded:
    """What is known by now of d distinct keys that were not in the cache.

    Args:
        place: int32[d], where each one's rows are.
        first: int64[d].
        counts: int64[d].
    """

    place: Int32s
    first: Int64s
    counts: Int64s

    @classmethod
    def nothing(cls, count: int) -> Loaded:
        """Nothing is known yet of so many keys."""
        zeros = np.zeros(count, np.int64)
        return cls(zeros.astype(np.int32), zeros.copy(), zeros)

    def note(self, where: Int64s, place: int, first: Int64s, counts: Int64s) -> None:
        """Say where the rows of some keys are."""
        self.place[where], self.first[where], self.counts[where] = place, first, counts


@dataclass
class Tally:
    """Figures of one batch that arise while loading."""

    asking: Figures = field(default_factory=Figures)
    evicted: int = 0
    failed: int = 0
    outdated: int = 0


def whole(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = table.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
