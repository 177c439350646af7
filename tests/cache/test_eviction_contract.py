"""What holds for every eviction policy. A new one is in ``POLICIES``, and so tested here."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from cache_invariants import check_cache
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin import Incremental
from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.generation import ENTRY
from bsjoin.cache.header import Header
from bsjoin.cache.policy import POLICIES, EvictionPolicy
from bsjoin.errors import ArgumentError
from bsjoin.options import EVICTIONS

EVERY = pytest.mark.parametrize("eviction", POLICIES)
VALUE = 1_000  # of a key's rows: VALUE * key + 0, 1, …


def opened(folder: Path, eviction: str, **limits: int | None) -> HostCache:
    bounds = CacheLimits(eviction=eviction, **limits)  # type: ignore[arg-type]
    return HostCache(folder, [pa.int64()], [pa.int64()], bounds, exact=True)


def cells(keys: list[int]) -> tuple[np.ndarray, list[pa.Array]]:
    numbers = np.array(keys, np.int64)
    return numbers * np.int64(-7046029254386353131), [pa.array(numbers)]


def used(cache: HostCache, keys: list[int], now_us: int = 0, rows: int | None = 1) -> list[State]:
    """Use keys in a batch, load what is missing (of k ``rows``; None: k % 4), check; the states."""
    hashes, columns = cells(keys)
    found, ticks = cache.find(hashes, columns, now_us)
    for place in np.flatnonzero(found.usable):
        which = found.first[place] + np.arange(found.counts[place])
        values = found.view.rows.gather(which)[0].to_pylist()
        assert values == [VALUE * keys[place] + n for n in range(len(values))]
    last = dict(zip(keys, ticks.tolist(), strict=True))
    missing = sorted({keys[place] for place in np.flatnonzero(~found.usable)})
    load(cache, missing, [last[key] for key in missing], now_us, rows)
    return [State(state) for state in found.states]


def load(
    cache: HostCache, keys: list[int], ticks: list[int], now_us: int = 0, rows: int | None = 1
) -> None:
    if keys:
        hashes, columns = cells(keys)
        claimed = cache.claim(hashes, columns, np.array(ticks), now_us)
        assert set(claimed.states.tolist()) == {State.MINE}
        counts = [key % 4 if rows is None else rows for key in keys]
        values = [
            VALUE * k + n for k, count in zip(keys, counts, strict=True) for n in range(count)
        ]
        cache.put(
            hashes, columns, np.array(counts), [pa.array(values, pa.int64())], np.array(ticks),
            now_us, cache.header.invalidations,
        )  # fmt: skip


def hits(cache: HostCache, keys: list[int]) -> int:
    """How many of the keys are cached; counts as no use."""
    view, count = cache._content.view()
    found, _ = view.find(*cells(keys), count)
    return int((view.entries(count)["dead"][found[found >= 0]] == 0).sum())


@EVERY
def test_what_was_put_is_found_while_there_is_room_and_a_full_cache_stays_full(
    tmp_path: Path, eviction: str
) -> None:
    cache = opened(tmp_path, eviction, max_rows=100)
    assert used(cache, list(range(60))) == [State.MISS] * 60
    assert used(cache, list(range(40, 100))) == [State.HIT] * 20 + [State.MISS] * 40
    assert used(cache, list(range(100))) == [State.HIT] * 100
    assert cache.header.evictions == 0
    for begin, size in ((1_000, 30), (2_000, 99), (3_000, 700)):  # the last one fits in no cache
        used(cache, list(range(begin, begin + size)))
        assert cache.held()[0] == 100
        assert hits(cache, list(range(begin, begin + size))) > 0
        check_cache(cache)


@EVERY
@settings(max_examples=5, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=50), max_size=12),
    max_rows=st.none() | st.integers(1, 40),
    max_bytes=st.integers(150, 4_000),
    ttl_us=st.none() | st.just(2),
)
def test_the_bounds_hold_and_the_answers_are_right(
    eviction: str,
    batches: list[list[int]],
    max_rows: int | None,
    max_bytes: int,
    ttl_us: int | None,
) -> None:
    limits = {"max_rows": max_rows, "max_bytes": max_bytes, "ttl_us": ttl_us}
    with tempfile.TemporaryDirectory() as folder:
        handles = [opened(Path(folder), eviction, **limits) for _ in range(2)]
        for number, batch in enumerate(batches):
            cache = handles[number % 2]
            if number % 5 == 4:
                with cache._writing():
                    cache._content.compact()
            if number % 4 == 3:
                there = [key for key in set(batch) if hits(cache, [key])]
                assert cache.invalidate(*cells(batch)) == len(there)
                assert hits(cache, batch) == 0
            used(cache, batch, number, rows=None)
            check_cache(cache)  # the bounds are part of it
            rows, held = cache.held()
            assert held <= max_bytes
            assert max_rows is None or rows <= max_rows


@EVERY
def test_what_is_used_in_every_batch_stays(tmp_path: Path, eviction: str) -> None:
    cache, hot = opened(tmp_path, eviction, max_rows=1_000), list(range(200))
    used(cache, hot)
    assert used(cache, hot) == [State.HIT] * 200
    for begin in range(10_000, 18_000, 400):
        states = used(cache, [*hot, *range(begin, begin + 400)])
        assert states[:200] == [State.HIT] * 200


@EVERY
def test_rows_that_are_being_read_and_claims_survive(tmp_path: Path, eviction: str) -> None:
    cache, other = (opened(tmp_path, eviction, max_rows=50) for _ in range(2))
    used(cache, [1, 2, 3])
    found, ticks = cache.find(*cells([1, 2, 3]), 0)
    pending = cells([900])
    assert cache.claim(*pending, ticks[:1], 0).states.tolist() == [State.MINE]
    for begin in range(1_000, 6_000, 50):
        used(other, list(range(begin, begin + 50)))
    assert cache.header.generation > found.view.number  # compacted, and its files removed
    assert found.view.rows.gather(found.first)[0].to_pylist() == [VALUE, 2 * VALUE, 3 * VALUE]
    assert other.claim(*pending, ticks[:1], 0).states.tolist() == [State.WAIT]
    cache.release(*pending)
    assert other.claim(*pending, ticks[:1], 0).states.tolist() == [State.MINE]


@EVERY
def test_what_was_learnt_outlives_a_process_and_a_compaction(tmp_path: Path, eviction: str) -> None:
    cache, hot = opened(tmp_path, eviction, max_rows=1_000), list(range(300))
    used(cache, list(range(1_000, 1_500)))
    for _ in range(3):
        used(cache, hot)
    del cache
    cache = opened(tmp_path, eviction, max_rows=1_000)
    cache.header.dirty = 1  # as if the writer had died: the next one compacts
    used(cache, list(range(2_000, 2_400)))
    assert cache.header.evictions == 200
    assert used(cache, hot) == [State.HIT] * 300
    check_cache(cache)


@EVERY
def test_a_policy_frees_what_it_is_asked_for_until_nothing_is_left(
    tmp_path: Path, eviction: str
) -> None:
    header = Header(tmp_path)
    policy: EvictionPolicy = POLICIES[eviction](tmp_path, header)
    entries = np.zeros(100, ENTRY)
    entries["count"], entries["hash"], entries["used"] = 1, np.arange(100), np.arange(100)
    policy.store(entries, entries[:0], np.full(100, -1))
    header.live, header.small = 100, int((entries["queue"] == 0).sum())
    policy.use(entries, np.repeat(np.arange(50), 2), np.arange(100, 200), newest=True)
    left = set(range(100))
    for _ in range(1_000):
        if not left:
            break
        ids = policy.victims(entries, 7, 0)
        assert len(ids) <= 7
        assert set(ids.tolist()) <= left
        assert len(set(ids.tolist())) == len(ids)
        left -= set(ids.tolist())
        entries["dead"][ids] = 1
        header.live -= len(ids)
        header.small -= int((entries["queue"][ids] == 0).sum())
    assert left == set()


def test_one_cache_has_one_policy(tmp_path: Path) -> None:
    opened(tmp_path, "lru", max_rows=9)
    opened(tmp_path, "lru", max_rows=9)
    with pytest.raises(ArgumentError, match=r"eviction='s3-fifo': the cache in .* with 'lru'"):
        opened(tmp_path, "s3-fifo", max_rows=9)


def test_the_option_has_the_names_of_the_policies() -> None:
    assert tuple(POLICIES) == EVICTIONS == get_args(get_type_hints(Incremental)["eviction"])
    with pytest.raises(ArgumentError, match="eviction='s3fifo' is none of 'lru', 's3-fifo'"):
        Incremental(max_rows=1, eviction="s3fifo")  # type: ignore[arg-type]
