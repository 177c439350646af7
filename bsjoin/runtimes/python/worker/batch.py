"""Data structures of the incremental cache: batches of keys, and the state of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bsjoin.index import Int32s, Int64s
from bsjoin.runtimes.python.worker.matching import distinct
from bsjoin.runtimes.python.worker.source_client import Figures


@dataclass(frozen=True)
class Batch:
    """The keys of an Arrow batch that are not null.

    Args:
        hashes: int64[m].
        keys: the m keys, column by column.
        places: int64[m], their positions in the Arrow batch; None if the batch has no null keys.
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
        """The keys at some positions."""
        chosen = pa.array(where)
        return Batch(self.hashes.take(where), [key.take(chosen) for key in self.keys], None)

    def distinct(self, ticks: Int64s, *, exact: bool) -> tuple[Batch, Int64s, Int64s]:
        """The distinct keys.

        Args:
            ticks: int64[m], when each key is used.
            exact: whether equal hashes mean equal keys.

        Returns:
            The d distinct keys; int64[d]: the last use of each; int64[m]: the index of each key
            among them.
        """
        which, inverse = distinct([pa.array(self.hashes)] if exact else self.keys)
        last = np.zeros(len(which), np.int64)
        last[inverse] = ticks  # the last of several uses wins
        return self.take(which), last, inverse


@dataclass
class Loaded:
    """The rows loaded so far for d distinct keys that were not in the cache.

    Args:
        place: int32[d], the row source of each key's rows.
        first: int64[d].
        counts: int64[d].
    """

    place: Int32s
    first: Int64s
    counts: Int64s

    @classmethod
    def nothing(cls, count: int) -> Loaded:
        """The initial state of ``count`` keys: nothing loaded."""
        zeros = np.zeros(count, np.int64)
        return cls(zeros.astype(np.int32), zeros.copy(), zeros)

    def note(self, where: Int64s, place: int, first: Int64s, counts: Int64s) -> None:
        """Record the rows of some keys."""
        self.place[where], self.first[where], self.counts[where] = place, first, counts


@dataclass
class Tally:
    """Metrics of loading one batch."""

    queries: Figures = field(default_factory=Figures)
    evicted: int = 0
    failed: int = 0
    outdated: int = 0
