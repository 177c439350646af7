"""The states of entries at a given time: bounds, times to live, classification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bsjoin.cache.generation import PENDING, Generation
from bsjoin.cache.memory import Bools, Int64s

_NEVER = np.iinfo(np.int64).max // 4


class State(IntEnum):
    """The state of a key in a cache."""

    MISS = 0  # no entry, or an expired one
    HIT = 1  # an entry with rows
    ABSENT = 2  # a negative entry
    STALE = 3  # expired, but usable while it is refreshed
    WAIT = 4  # another process is querying the source for it
    MINE = 5  # claimed: the caller must query the source for it


@dataclass(frozen=True, kw_only=True)
class CacheLimits:
    """The bounds of a cache and the times to live of its entries.

    Args:
        max_rows: the maximum number of rows; a negative entry counts as one. None (default): no
            bound.
        max_bytes: the maximum size of keys, rows and entries in bytes. None (default): no bound.
        ttl_us: time to live of an entry in microseconds. None (default): no limit.
        negative_ttl_us: time to live of a negative entry. None (default): no limit.
        idle_ttl_us: time without use in microseconds after which an entry expires. None
            (default): no limit.
        stale_us: how long an expired entry may be used while it is refreshed; default 0.
        negative: whether negative entries are stored; default True.
        eviction: the name of the eviction policy, of ``policy.POLICIES``; default "lru".
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    ttl_us: int | None = None
    negative_ttl_us: int | None = None
    idle_ttl_us: int | None = None
    stale_us: int = 0
    negative: bool = True
    eviction: str = "lru"

    @property
    def expires(self) -> bool:
        """Whether entries expire."""
        lifetimes = (self.ttl_us, self.negative_ttl_us, self.idle_ttl_us)
        return any(limit is not None for limit in lifetimes)


@dataclass(frozen=True)
class Found:
    """The result of looking up m keys in a cache.

    Args:
        view: the generation of the entries; readable as long as this object exists.
        ids: int64[m], the entry of each key, or -1. An entry may be expired.
        states: int8[m], values of :class:`State`.
        first: int64[m], the first row of each entry.
        counts: int64[m], the number of its rows; 0 if there is no entry.
    """

    view: Generation
    ids: Int64s
    states: NDArray[np.int8]
    first: Int64s
    counts: Int64s

    @property
    def usable(self) -> Bools:
        """bool[m], whether the entry may be used: hits, negative hits and stale entries."""
        return (self.states >= State.HIT) & (self.states <= State.STALE)


def classify(view: Generation, ids: Int64s, count: int, limits: CacheLimits, now_us: int) -> Found:
    """Classify entries, or -1, of :meth:`Generation.find` at a given time."""
    if not count:
        zeros = np.zeros(len(ids), np.int64)
        return Found(view, ids, zeros.astype(np.int8), zeros, zeros.copy())  # both are written
    entries = view.entries(count)
    known = ids >= 0
    records = entries.take(np.maximum(ids, 0))
    rows = np.ascontiguousarray(records["count"])
    alive = known & (records["dead"] == 0)
    waiting = alive & (rows == PENDING)
    if waiting.any():
        # The entry of the key before the pending one.
        ids = np.where(waiting, records["previous"], ids)
        known = ids >= 0
        records = entries.take(np.maximum(ids, 0))
        rows = np.ascontiguousarray(records["count"])
        alive = known & (records["dead"] == 0)
    known = alive & (rows != PENDING)
    counts = np.where(known, rows, 0).astype(np.int64)
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
    """The expired entries (None for none), and those of them that are stale but usable."""
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
