"""What an entry is worth at a given time: bounds, times to live, states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bsjoin.shared.generation import PENDING, Generation

__all__ = ["CacheLimits", "Found", "State", "classify"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max // 4


class State(IntEnum):
    """What a cache knows of a key."""

    MISS = 0  # nothing, or nothing that may still be used
    HIT = 1  # its rows
    ABSENT = 2  # that it has no rows
    STALE = 3  # what it was; it may be used and is to be asked for again
    WAIT = 4  # another process is asking for it
    MINE = 5  # the caller has to ask for it now


@dataclass(frozen=True, kw_only=True)
class CacheLimits:
    """How much a cache may hold and for how long.

    Args:
        max_rows: rows; a key without rows counts as one.
        max_bytes: bytes of keys, rows and entries.
        ttl_us: microseconds after which an entry is outdated.
        negative_ttl_us: the same for an entry without rows.
        idle_ttl_us: microseconds without use after which an entry is outdated.
        stale_us: microseconds for which an outdated entry may still be used meanwhile.
        negative: whether entries without rows are kept.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    ttl_us: int | None = None
    negative_ttl_us: int | None = None
    idle_ttl_us: int | None = None
    stale_us: int = 0
    negative: bool = True

    @property
    def expires(self) -> bool:
        """Whether entries become outdated."""
        lifetimes = (self.ttl_us, self.negative_ttl_us, self.idle_ttl_us)
        return any(limit is not None for limit in lifetimes)


@dataclass(frozen=True)
class Found:
    """What a cache says of m keys.

    Args:
        view: the generation that the entries are in; readable for as long as this is kept.
        ids: int64[m], the entry of each key, or -1. An entry may be outdated.
        states: int8[m], of :class:`State`.
        first: int64[m], the first row of each entry.
        counts: int64[m], the number of its rows; 0 where there is no entry.
    """

    view: Generation
    ids: Int64s
    states: NDArray[np.int8]
    first: Int64s
    counts: Int64s

    @property
    def usable(self) -> Bools:
        """bool[m], whether the entry answers the key."""
        return (self.states >= State.HIT) & (self.states <= State.STALE)


def classify(view: Generation, ids: Int64s, count: int, limits: CacheLimits, now_us: int) -> Found:
    """Say what entries are worth.

    Args:
        view: the generation they are in.
        ids: int64[m], entries or -1, as :meth:`Generation.find` says them.
        count: how many entries there are.
        limits: the times to live.
        now_us: the time, in microseconds since the epoch.
    """
    if not count:
        zeros = np.zeros(len(ids), np.int64)
        return Found(view, ids, zeros.astype(np.int8), zeros, zeros.copy())  # both are written
    entries = view.entries(count)
    known = ids >= 0
    records = entries.take(np.maximum(ids, 0))
    waiting = known & (records["count"] == PENDING) & (records["dead"] == 0)
    if waiting.any():
        # What the key was before it was asked for again.
        ids = np.where(waiting, records["previous"], ids)
        known = ids >= 0
        records = entries.take(np.maximum(ids, 0))
    known &= (records["dead"] == 0) & (records["count"] != PENDING)
    counts = np.where(known, records["count"], 0).astype(np.int64)
    states = np.where(counts > 0, State.HIT, State.ABSENT).astype(np.int8)
    states[~known] = State.MISS
    outdated, usable = _outdated(records, counts, limits, now_us)
    if outdated is not None:
        outdated &= known
        states[outdated] = State.MISS
        states[outdated & usable] = State.STALE
    states[waiting & (states == State.MISS)] = State.WAIT
    return Found(view, np.where(known, ids, -1), states, records["first"], counts)


def _outdated(
    records: NDArray[np.void], counts: Int64s, limits: CacheLimits, now_us: int
) -> tuple[Bools | None, Bools]:
    """Which entries are outdated, and which of them may be used meanwhile."""
    outdated = None
    usable = np.ones(len(counts), np.bool_)
    if limits.ttl_us is not None or limits.negative_ttl_us is not None:
        positive = _NEVER if limits.ttl_us is None else limits.ttl_us
        negative = _NEVER if limits.negative_ttl_us is None else limits.negative_ttl_us
        lifetimes = np.where(counts > 0, positive, negative)
        ages = now_us - records["born"]
        outdated = ages >= lifetimes
        usable = ages < lifetimes + limits.stale_us
    if limits.idle_ttl_us is not None:
        idle = now_us - records["seen"] >= limits.idle_ttl_us
        outdated = idle if outdated is None else outdated | idle
        usable &= ~idle
    return outdated, usable
