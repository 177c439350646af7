"""The shared cache against a plain model: an ordered dictionary, with the same clock."""

from __future__ import annotations

import shutil
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
from cache_invariants import check_cache
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.cache import ENTRY_BYTES
from bsjoin.cache.columns import row_bytes

ROW_TYPES = [pa.int64(), pa.string()]
KEYS = st.integers(-3, 12)
SECOND = 1_000_000


@dataclass
class Entry:
    """What the model keeps of a key."""

    rows: list[tuple[int, str | None]]
    born: int
    seen: int
    size: int


class Model:
    """What the cache must do, said as simply as possible."""

    def __init__(self, limits: CacheLimits):
        self.limits = limits
        self.entries: OrderedDict[int, Entry] = OrderedDict()

    def state(self, key: int, now: int) -> State:
        entry = self.entries.get(key)
        if entry is None:
            return State.MISS
        limits = self.limits
        ttl = limits.ttl_us if entry.rows else limits.negative_ttl_us
        if limits.idle_ttl_us is not None and now - entry.seen >= limits.idle_ttl_us:
            return State.MISS
        if ttl is not None and now - entry.born >= ttl:
            return State.STALE if now - entry.born < ttl + limits.stale_us else State.MISS
        return State.HIT if entry.rows else State.ABSENT

    def use(self, key: int, now: int) -> None:
        self.entries[key].seen = now
        self.entries.move_to_end(key)

    def keep(self, key: int, entry: Entry) -> None:
        self.entries.pop(key, None)
        limits = self.limits
        rows = max(1, len(entry.rows))
        if (
            (limits.max_rows is not None and rows > limits.max_rows)
            or (limits.max_bytes is not None and entry.size > limits.max_bytes)
            or (not entry.rows and not limits.negative)
        ):
            return
        self.entries[key] = entry

    def shrink(self) -> None:
        def over(bound: int | None, total: int) -> bool:
            return bound is not None and total > bound

        while over(
            self.limits.max_rows, sum(max(1, len(e.rows)) for e in self.entries.values())
        ) or over(self.limits.max_bytes, sum(e.size for e in self.entries.values())):
            self.entries.popitem(last=False)


def columns(rows: list[tuple[int, str | None]]) -> list[pa.Array]:
    return [
        pa.array([number for number, _ in rows], ROW_TYPES[0]),
        pa.array([text for _, text in rows], ROW_TYPES[1]),
    ]


class SharedCache(RuleBasedStateMachine):
    """Batches of keys, changes in the source, time, several processes' handles, invalidation.

    Of half of the caches the keys are texts that hashes do not tell apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bsjoin-test-"))
        self.now = 1_000 * SECOND
        self.source: dict[int, list[tuple[int, str | None]]] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(
        max_rows=st.none() | st.integers(1, 12),
        max_bytes=st.none() | st.integers(100, 1500),
        ttl=st.none() | st.just(10),
        negative_ttl=st.none() | st.just(3),
        idle_ttl=st.none() | st.just(5),
        stale=st.sampled_from([0, 4]),
        negative=st.booleans(),
        exact=st.booleans(),
    )
    def begin(self, *, exact: bool, **options: Any) -> None:
        def micro(name: str) -> int | None:
            value = options[name]
            return None if value is None else value * SECOND

        self.exact = exact
        self.limits = CacheLimits(
            max_rows=options["max_rows"],
            max_bytes=options["max_bytes"],
            ttl_us=micro("ttl"),
            negative_ttl_us=micro("negative_ttl"),
            idle_ttl_us=micro("idle_ttl"),
            stale_us=options["stale"] * SECOND,
            negative=options["negative"],
        )
        self.model = Model(self.limits)
        self.handles = [self.open(), self.open()]

    def open(self) -> HostCache:
        key_types = [pa.int64()] if self.exact else [pa.string(), pa.float64()]
        return HostCache(self.folder, key_types, ROW_TYPES, self.limits, exact=self.exact)

    def hashed(self, keys: list[int]) -> np.ndarray:
        numbers = np.array(keys, np.int64)
        # Where hashes do not suffice they collide, nearly all.
        return numbers * 0x9E3779B97F4A7C1 if self.exact else numbers % 2

    def key_columns(self, keys: list[int]) -> list[pa.Array]:
        if self.exact:
            return [pa.array(keys, pa.int64())]
        parts = [float("nan") if key == 0 else key / 2 for key in keys]
        return [pa.array([f"key {key // 3}" for key in keys]), pa.array(parts, pa.float64())]

    @rule(key=KEYS, rows=st.lists(st.tuples(st.integers(0, 99), st.none() | st.text(max_size=9))))
    def change(self, key: int, rows: list[tuple[int, str | None]]) -> None:
        self.source[key] = rows

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=20), refresh=st.booleans(), who=st.integers(0, 1)
    )
    def batch(self, keys: list[int], refresh: bool, who: int) -> None:
        cache, model = self.handles[who], self.model
        expected = [model.state(key, self.now) for key in keys]
        found, ticks = cache.find(self.hashed(keys), self.key_columns(keys), self.now)
        # A claim of a process that died shows when the key is claimed.
        states = [State.MISS if s == State.WAIT else s for s in found.states.tolist()]
        assert states == expected
        usable = [i for i, s in enumerate(expected) if s != State.MISS]
        self.same_rows(found, [keys[i] for i in usable], usable)
        for i in usable:
            model.use(keys[i], self.now)
        asked = State.STALE if refresh else State.MISS
        wanted = sorted(
            {k for k, s in zip(keys, expected, strict=True) if s in (State.MISS, asked)}
        )
        if wanted:
            self.load(cache, wanted, keys, ticks, refresh)

    def load(
        self,
        cache: HostCache,
        wanted: list[int],
        keys: list[int],
        ticks: np.ndarray,
        refresh: bool,
    ) -> None:
        hashes, key_columns = self.hashed(wanted), self.key_columns(wanted)
        # In the order in which the keys were used last.
        last = np.array([len(keys) - 1 - keys[::-1].index(key) for key in wanted])
        ticks = ticks[last]
        claimed = cache.claim(hashes, key_columns, ticks, self.now, refresh=refresh)
        assert (claimed.states == State.MINE).all()
        # Who comes now has to wait, or is served what was there before.
        other = self.handles[1 - self.handles.index(cache)].claim(
            hashes, key_columns, ticks, self.now, refresh=refresh
        )
        assert set(other.states.tolist()) <= {State.WAIT, State.STALE}
        rows = [self.source.get(key, []) for key in wanted]
        flat = columns([row for group in rows for row in group])
        counts = np.array([len(group) for group in rows], np.int64)
        cache.put(hashes, key_columns, counts, flat, ticks, self.now, cache.header.invalidations)
        sizes = row_bytes(key_columns, len(wanted)) + ENTRY_BYTES
        for i in np.argsort(last):
            size = int(sizes[i]) + int(row_bytes(columns(rows[i]), len(rows[i])).sum())
            self.model.keep(wanted[i], Entry(rows[i], self.now, self.now, size))
        # Hits of the batch that came later than a loaded key are more recent than it.
        for key in dict.fromkeys(keys[::-1]):
            if key in self.model.entries:
                self.model.entries.move_to_end(key, last=False)
        order = [key for key in self.model.entries if key not in keys]
        for key in order[::-1]:
            self.model.entries.move_to_end(key, last=False)
        self.model.shrink()

    def same_rows(self, found: Any, keys: list[int], places: list[int]) -> None:
        for key, place in zip(keys, places, strict=True):
            rows = found.first[place] + np.arange(found.counts[place])
            numbers, texts = found.view.rows.gather(rows)
            kept = list(zip(numbers.to_pylist(), texts.to_pylist(), strict=True))
            assert kept == self.model.entries[key].rows

    @rule(keys=st.lists(KEYS, min_size=1, max_size=5, unique=True))
    def ask_in_vain(self, keys: list[int]) -> None:
        cache = self.handles[0]
        hashes, key_columns = self.hashed(keys), self.key_columns(keys)
        claimed = self.claim_without_use(cache, keys)
        mine = np.flatnonzero(claimed.states == State.MINE)
        cache.release(hashes[mine], [c.take(pa.array(mine)) for c in key_columns])

    @rule(keys=st.lists(KEYS, min_size=1, max_size=5, unique=True))
    def die_during_a_query(self, keys: list[int]) -> None:
        dying = self.open()
        self.claim_without_use(dying, keys)
        del dying

    def claim_without_use(self, cache: HostCache, keys: list[int]) -> Any:
        never = np.full(len(keys), -1)
        return cache.claim(self.hashed(keys), self.key_columns(keys), never, self.now)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=5, unique=True), who=st.integers(0, 1))
    def invalidate(self, keys: list[int], who: int) -> None:
        self.handles[who].invalidate(self.hashed(keys), self.key_columns(keys))
        for key in keys:
            self.model.entries.pop(key, None)

    @rule(who=st.integers(0, 1))
    def invalidate_all(self, who: int) -> None:
        assert self.handles[who].invalidate(None, []) == len(self.model.entries)
        self.model.entries.clear()

    @precondition(lambda self: hasattr(self, "handles"))
    @rule(who=st.integers(0, 1))
    def compact(self, who: int) -> None:
        cache = self.handles[who]
        cache.header.dirty = 1  # as if a writer had died
        cache.release(np.zeros(0, np.int64), [c[:0] for c in self.key_columns([1])])

    @rule(who=st.integers(0, 1))
    def start_again(self, who: int) -> None:
        self.handles[who] = self.open()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "handles"):
            return
        cache = self.handles[0]
        check_cache(cache)
        assert cache.header.live == len(self.model.entries)
        assert cache.header.live_rows == sum(
            max(1, len(e.rows)) for e in self.model.entries.values()
        )
        assert cache.header.live_bytes == sum(e.size for e in self.model.entries.values())


TestSharedCache = SharedCache.TestCase
TestSharedCache.settings = hypothesis.settings(max_examples=3, stateful_step_count=25)
