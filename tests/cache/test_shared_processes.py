"""Several processes use one cache at once, and are killed in the middle of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bsjoin.cache import CacheLimits, ConnectionSemaphore, HostCache, State
from bsjoin.cache.content import Content
from bsjoin.cache.locks import Membership
from bsjoin.cache.recency import live_entries

KEYS, ROWS = [pa.int64()], [pa.int64(), pa.string()]
TICK = 1_000_000


def hashed(keys: np.ndarray) -> np.ndarray:
    return keys * np.int64(-7046029254386353131)


def open_cache(folder: Path, limits: CacheLimits) -> HostCache:
    return HostCache(folder, KEYS, ROWS, limits, exact=True)


def work(
    folder: Path,
    seed: int,
    batches: int,
    max_rows: int | None,
    keys: int,
    kind: str = "HostCache",
    eviction: str = "lru",
) -> list[int]:
    """Answer batches of random keys and assert that every answer is right; the keys asked for.

    Key k has k % 3 rows: (k, "k:0"), (k, "k:1").
    """
    rng = np.random.default_rng(seed)
    limits = CacheLimits(max_rows=max_rows, max_bytes=1 << 30, eviction=eviction)
    cache = open_cache(folder, limits)
    if kind == "Recording":
        cache = Recording(folder, KEYS, ROWS, limits, exact=True)
        cache.open_log()
    asked: list[int] = []
    for _ in range(batches):
        wanted = rng.integers(0, keys, 300)
        found, ticks = cache.find(hashed(wanted), [pa.array(wanted)], TICK)
        check(wanted[found.usable], found, found.usable)
        last_use = dict(zip(wanted.tolist(), ticks.tolist(), strict=True))
        missing = np.unique(wanted[~found.usable])
        while len(missing):
            columns = [pa.array(missing)]
            ticks = np.array([last_use[key] for key in missing.tolist()])
            claimed = cache.claim(hashed(missing), columns, ticks, TICK)
            check(missing[claimed.usable], claimed, claimed.usable)
            mine = missing[claimed.states == State.MINE]
            if len(mine):
                asked += mine.tolist()
                counts = mine % 3
                rows = np.repeat(mine, counts)
                nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
                texts = [f"{k}:{n}" for k, n in zip(rows, nth, strict=True)]
                found_rows = [pa.array(rows), pa.array(texts, pa.string())]
                columns = [pa.array(mine)]
                ticks = ticks[claimed.states == State.MINE]
                cache.put(hashed(mine), columns, counts, found_rows, ticks, TICK, 0)
            missing = missing[claimed.states == State.WAIT]
            time.sleep(0.0005)
    return asked


def check(keys: np.ndarray, found: object, which: np.ndarray) -> None:
    first, counts = found.first[which], found.counts[which]  # type: ignore[attr-defined]
    assert (counts == keys % 3).all()
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    rows = np.repeat(first - (ends - counts), counts) + np.arange(total)
    numbers, texts = found.view.rows.gather(rows)  # type: ignore[attr-defined]
    assert (numbers.to_numpy() == np.repeat(keys, counts)).all()
    prefixes = [text.split(":")[0] for text in texts.to_pylist()]
    assert prefixes == [str(key) for key in np.repeat(keys, counts)]


def start(
    folder: Path,
    seed: int,
    batches: int,
    max_rows: int | None,
    keys: int,
    kind: str = "HostCache",
    eviction: str = "lru",
) -> subprocess.Popen:  # type: ignore[type-arg]
    how = f"{seed}, {batches}, {max_rows}, {keys}, {kind!r}, {eviction!r}"
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from pathlib import Path; import test_shared_processes as t\n"
        f"print(*t.work(Path({str(folder)!r}), {how}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen) -> list[int]:  # type: ignore[type-arg]
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return [int(word) for word in out.split()]


@pytest.mark.parametrize("processes", [2, 4])
def test_together_they_query_each_key_once(tmp_path: Path, processes: int) -> None:
    running = [start(tmp_path, seed, 60, None, 3_000) for seed in range(processes)]
    asked = [key for process in running for key in finished(process)]
    assert len(asked) == len(set(asked))
    cache = open_cache(tmp_path, CacheLimits(max_bytes=1 << 30))
    cache._check()
    assert cache.header.live == len(set(asked))


def test_a_small_cache_is_right_under_constant_eviction(tmp_path: Path) -> None:
    running = [start(tmp_path, seed, 80, 500, 3_000) for seed in range(3)]
    for process in running:
        finished(process)
    cache = open_cache(tmp_path, CacheLimits(max_rows=500, max_bytes=1 << 30))
    cache._check()
    assert cache.header.evictions > 1_000


class RecordingContent(Content):
    """Writes what happens to the order of uses to a file; its methods run under the lock."""

    def open_log(self) -> None:
        self._log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _record(self, kind: str, keys: pa.Array, ticks: np.ndarray) -> None:
        os.write(self._log, f"{json.dumps([kind, keys.to_pylist(), ticks.tolist()])}\n".encode())

    def touch(
        self, view: Any, ids: np.ndarray, ticks: np.ndarray, now_us: int, *, newest: bool = False
    ) -> None:
        super().touch(view, ids, ticks, now_us, newest=newest)
        if len(ids):
            self._record("use", view.keys.gather(ids)[0], ticks)

    def last_uses(self, hashes: np.ndarray, keys: Any, ticks: np.ndarray) -> np.ndarray:
        ticks = super().last_uses(hashes, keys, ticks)
        self._record("put", keys[0], ticks)
        return ticks


class Recording(HostCache):
    """A cache whose content records its uses."""

    _content: RecordingContent

    def open_log(self) -> None:
        self._content.__class__ = RecordingContent
        self._content.open_log()


def replayed(log: Path, max_rows: int) -> dict[int, int]:
    """What an LRU cache holds in the end, and the last use of each key."""
    used: dict[int, int] = {}
    for line in log.read_text().splitlines():
        kind, keys, ticks = json.loads(line)
        for key, tick in zip(keys, ticks, strict=True):
            if kind == "put" or key in used:
                used[key] = max(tick, used.get(key, -1))
        oldest_first = sorted(used, key=lambda key: -used[key])
        while sum(max(1, key % 3) for key in used) > max_rows:
            del used[oldest_first.pop()]
    return used


@pytest.mark.parametrize(("processes", "max_rows"), [(2, 700), (4, 250)])
def test_processes_together_evict_what_was_used_least_recently(
    tmp_path: Path, processes: int, max_rows: int
) -> None:
    running = [start(tmp_path, seed, 60, max_rows, 600, "Recording") for seed in range(processes)]
    for process in running:
        finished(process)
    cache = open_cache(tmp_path, CacheLimits(max_rows=max_rows, max_bytes=1 << 30))
    assert cache.header.ticks == processes * 60 * 300  # no use is lost
    view, count = cache._content.view()
    entries = view.entries(count)
    held = live_entries(entries)
    keys = view.keys.gather(held)[0].to_pylist()
    expected = replayed(tmp_path / "log", max_rows)
    assert dict(zip(keys, entries["used"][held].tolist(), strict=True)) == expected
    assert cache.header.evictions > 1_000


def test_an_entry_that_was_long_in_loading_is_evicted_in_its_turn(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, CacheLimits(max_rows=10))

    def use(keys: list[int]) -> np.ndarray:
        return cache.find(hashed(np.array(keys)), [pa.array(keys)], TICK)[1]

    def load(keys: list[int], ticks: np.ndarray) -> None:
        hashes, columns = hashed(np.array(keys)), [pa.array(keys)]
        cache.claim(hashes, columns, ticks, TICK)
        rows = [pa.array(keys), pa.array([str(key) for key in keys])]
        cache.put(hashes, columns, np.ones(len(keys), np.int64), rows, ticks, TICK, 0)

    late = use([100])
    load(list(range(10)), use(list(range(10))))
    load([10], use([10]))  # evicts 0: there is a queue now
    load([100], late)  # used before all others, loaded after them
    found, _ = cache.find(hashed(np.array([100, 1])), [pa.array([100, 1])], TICK)
    assert found.usable.tolist() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("max_rows", [None, 800])
def test_processes_that_are_killed_spoil_nothing(tmp_path: Path, max_rows: int | None) -> None:
    chance = random.Random(max_rows)
    survivor = start(tmp_path, 1_000, 300, max_rows, 20_000)
    for seed in range(8):
        victim = start(tmp_path, seed, 10_000, max_rows, 20_000)
        time.sleep(0.45 + chance.random())  # it has to start first
        victim.send_signal(signal.SIGKILL)
        _, errors = victim.communicate()
        assert victim.returncode == -signal.SIGKILL, errors
    finished(survivor)
    assert work(tmp_path, 7, 20, max_rows, 20_000) is not None
    cache = open_cache(tmp_path, CacheLimits(max_rows=max_rows, max_bytes=1 << 30))
    cache.release(np.zeros(0, np.int64), [pa.array([], pa.int64())])  # repairs, if need be
    cache._check()


def test_a_writer_that_died_half_way_costs_what_it_was_writing(tmp_path: Path) -> None:
    limits = CacheLimits(max_rows=1_000)
    cache = open_cache(tmp_path, limits)
    keys = np.arange(10)

    def put(some: np.ndarray) -> None:
        columns = [pa.array(some)]
        _, ticks = cache.find(hashed(some), columns, TICK)
        cache.claim(hashed(some), columns, ticks, TICK)
        ones = np.ones(len(some), np.int64)
        rows = [pa.array(some), pa.array([f"{key}" for key in some])]
        cache.put(hashed(some), columns, ones, rows, ticks, TICK, 0)

    put(keys)
    # Rows and entries are written, but not yet linked and counted, when it dies.
    rows, entries = cache.header.rows, cache.header.entries
    cache._content.view()[0].rows.append(rows, [pa.array([77]), pa.array(["torn"])])
    cache.header.rows, cache.header.entries, cache.header.dirty = rows + 1, entries, 1
    cache.header.live_rows += 5
    again = open_cache(tmp_path, limits)
    found, _ = again.find(hashed(keys), [pa.array(keys)], TICK)
    assert found.states.tolist() == [State.HIT] * 10
    again.release(np.zeros(0, np.int64), [pa.array([], pa.int64())])
    again._check()
    assert again.header.live_rows == 10


def test_a_full_disk_costs_the_cache_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, CacheLimits(max_rows=1 << 20))
    keys = np.arange(50_000)
    columns = [pa.array(keys)]
    _, ticks = cache.find(hashed(keys), columns, TICK)
    cache.claim(hashed(keys), columns, ticks, TICK)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    rows = [pa.array(keys), pa.array([str(key) for key in keys])]
    ones = np.ones(len(keys), np.int64)
    assert cache.put(hashed(keys), columns, ones, rows, ticks, TICK, 0) == 0
    assert "no room" in caplog.text
    monkeypatch.undo()
    found = cache.claim(hashed(keys), columns, ticks, TICK)
    assert set(found.states.tolist()) == {State.MINE}
    cache.put(hashed(keys), columns, ones, rows, ticks, TICK, 0)
    cache._check()
    assert cache.header.live == 50_000


def test_members_know_who_is_alive(tmp_path: Path) -> None:
    first, second = Membership(tmp_path, 1), Membership(tmp_path, 2)
    assert first.is_alive(1)
    assert first.is_alive(2)
    assert not first.is_alive(3)
    del second
    assert not first.is_alive(2)


def test_processes_that_ended_leave_no_files(tmp_path: Path) -> None:
    for seed in range(6):
        process = start(tmp_path, seed, 10_000, None, 100)
        while not (tmp_path / "members" / str(seed + 1)).exists():
            time.sleep(0.01)
        process.kill()
        process.communicate()
    cache = open_cache(tmp_path, CacheLimits(max_bytes=1 << 30))
    assert [path.name for path in (tmp_path / "members").iterdir()] == [str(cache.header.members)]


def test_permits_are_handed_over(tmp_path: Path) -> None:
    one, other = (
        ConnectionSemaphore(tmp_path / "slots", 1),
        ConnectionSemaphore(tmp_path / "slots", 1),
    )
    one.acquire()
    one.acquire()
    assert one.is_held
    assert not other._try()
    assert not one.is_wanted()
    one.release()
    other.acquire()
    assert other.is_held
    assert not one.is_held
    del other
    one.acquire()
    assert one.is_held
