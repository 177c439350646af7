"""The accounts of a cache, its files, and claims, whatever goes wrong beside it."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cache_invariants import check_cache

from bsjoin.cache import CacheLimits, HostCache, State, compaction, memory
from bsjoin.cache.generation import Generation


def opened(folder: Path, **limits: int) -> HostCache:
    return HostCache(folder, [pa.int64()], [pa.string()], CacheLimits(**limits), exact=True)


def cells(keys: list[int]) -> tuple[np.ndarray, list[pa.Array]]:
    return np.array(keys, np.int64), [pa.array(keys, pa.int64())]


def load(
    cache: HostCache,
    keys: list[int],
    values: list[str],
    now_us: int = 0,
    ticks: np.ndarray | None = None,
) -> None:
    """One row of each key."""
    hashes, columns = cells(keys)
    if ticks is None:
        _, ticks = cache.find(hashes, columns, now_us)
    cache.claim(hashes, columns, ticks, now_us)
    ones, rows = np.ones(len(keys), np.int64), [pa.array(values, pa.string())]
    cache.put(hashes, columns, ones, rows, ticks, now_us, cache.header.invalidations)


def states(cache: HostCache, keys: list[int], now_us: int = 0) -> list[State]:
    found, _ = cache.find(*cells(keys), now_us)
    return [State(state) for state in found.states]


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("ttl_us", [None, pytest.param(10, marks=pytest.mark.long)])
def test_the_files_of_large_rows_take_little_more_than_twice_the_bound(
    tmp_path: Path, ttl_us: int | None
) -> None:
    bound = 4 << 20
    cache = opened(tmp_path, max_bytes=bound, ttl_us=ttl_us)
    text, most = "x" * (64 << 10), 0
    for n in range(30):
        first = 0 if ttl_us else 20 * n  # keys that have expired, or other ones
        load(cache, list(range(first, first + 20)), [text] * 20, now_us=20 * n)
        most = max(most, size(tmp_path))
    assert bound / 4 < cache.held()[1] <= bound
    assert most <= 2 * bound + (1 << 20)


def test_large_texts_are_copied_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(compaction, "_CHUNK", 4)
    sizes = [0, 100, 500, 100, 0, 0]
    cache = opened(tmp_path, max_rows=100)
    texts = [str(n) * count for n, count in enumerate(sizes)]
    load(cache, list(range(6)), texts)
    with cache._writing():
        cache._content.compact()
    check_cache(cache)
    found, _ = cache.find(*cells(list(range(6))), 0)
    assert found.view.rows.gather(found.first)[0].to_pylist() == texts


def test_what_cannot_be_copied_empties_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened(tmp_path, max_rows=100)
    load(cache, [1, 2], ["a", "b"])

    def too_large(*_: object) -> list[pa.Array]:
        raise pa.ArrowInvalid("input array too large")

    with monkeypatch.context() as patched:
        patched.setattr("bsjoin.cache.columns.Columns.gather", too_large)
        with cache._writing():
            cache._content.compact()
    assert states(cache, [1, 2]) == [State.MISS] * 2
    load(cache, [1], ["a"])
    check_cache(cache)


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_the_cache_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = opened(tmp_path, max_rows=1 << 20)
    keys = list(range(50_000))
    with monkeypatch.context() as patched:
        patched.setattr(memory, "_allocate", full)
        load(cache, keys, ["a"] * len(keys))
    assert "no room" in caplog.text
    assert cache.header.live == 0
    load(cache, keys, ["a"] * len(keys))
    check_cache(cache)
    assert cache.header.live == 50_000


def test_an_entry_that_was_long_in_loading_is_evicted_in_its_turn(tmp_path: Path) -> None:
    cache = opened(tmp_path, max_rows=10)
    _, late = cache.find(*cells([100]), 0)
    load(cache, list(range(10)), ["a"] * 10)
    load(cache, [10], ["a"])  # evicts 0: there is a queue now
    load(cache, [100], ["a"], ticks=late)  # used before all others, loaded after them
    assert states(cache, [100, 1]) == [State.MISS, State.HIT]


def test_a_writer_that_died_half_way_costs_what_it_was_writing(tmp_path: Path) -> None:
    cache, keys = opened(tmp_path, max_rows=1_000), list(range(10))
    load(cache, keys, ["a"] * 10)
    # Rows are written, but not yet linked and counted, when it dies.
    cache._content.view()[0].rows.append(cache.header.rows, [pa.array(["torn"])])
    cache.header.rows, cache.header.dirty = cache.header.rows + 1, 1
    cache.header.live_rows += 5
    again = opened(tmp_path, max_rows=1_000)
    assert states(again, keys) == [State.HIT] * 10
    again.release(*cells([]))
    check_cache(again)
    assert again.header.live_rows == 10


def test_an_invalidation_needs_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = opened(tmp_path, max_rows=100_000)
    load(cache, [1, 2], ["a", "b"])
    with monkeypatch.context() as patched:
        patched.setattr(memory, "_allocate", full)
        hashes, keys = cells(list(range(100, 5000)))
        _, ticks = cache.find(hashes, keys, 0)
        assert set(cache.claim(hashes, keys, ticks, 0).states) == {State.MINE}
        assert cache.header.dirty
        assert cache.invalidate(*cells([1, 1])) == 1
        assert states(cache, [1, 2]) == [State.MISS, State.HIT]
    load(cache, [3], ["c"])
    check_cache(cache)
    assert states(cache, [1, 2, 3]) == [State.MISS, State.HIT, State.HIT]


def test_a_generation_whose_remover_was_killed_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = opened(tmp_path, max_rows=100)
    load(cache, [1], ["a"])

    def killed(_: Generation) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Generation, "remove_others", killed)
        with pytest.raises(KeyboardInterrupt), cache._writing():
            cache._content.compact()
    other = opened(tmp_path, max_rows=100)
    load(other, [2], ["b"])  # compacts first, since the writer has not ended
    assert [path.name for path in tmp_path.glob("g*")] == [f"g{other.header.generation}"]
    assert states(other, [1, 2]) == [State.HIT] * 2


def test_a_refresh_whose_process_has_died_is_taken_over(tmp_path: Path) -> None:
    limits = {"max_rows": 100, "ttl_us": 100, "stale_us": 10_000}
    first, second = opened(tmp_path, **limits), opened(tmp_path, **limits)
    load(first, [7], ["old"])
    hashes, keys = cells([7])

    def claimed(cache: HostCache, now_us: int) -> State:
        _, ticks = cache.find(hashes, keys, now_us)
        return State(cache.claim(hashes, keys, ticks, now_us, refresh=True).states[0])

    assert claimed(first, 200) == State.MINE
    assert claimed(second, 201) == State.STALE
    del first  # its lock goes with it, as that of a killed process
    assert claimed(second, 202) == State.MINE


def test_the_first_worker_of_a_cache_begins_the_count_of_invalidations(tmp_path: Path) -> None:
    first, second = opened(tmp_path, max_rows=10), opened(tmp_path, max_rows=10)
    first.begin_invalidations(3)
    second.begin_invalidations(5)  # has listed later: the first one has yet to apply them
    assert first.header.last_invalidation == 4
