"""Several processes use one cache at once, and are killed in the middle of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bsjoin.shared import Bounds, HostCache, Slots, State, cache_folder
from bsjoin.shared.locks import Membership
from bsjoin.shared.places import sweep

KEYS, ROWS = [pa.int64()], [pa.int64(), pa.string()]
TICK = 1_000_000


def hashed(keys: np.ndarray) -> np.ndarray:
    return keys * np.int64(-7046029254386353131)


def open_cache(folder: Path, bounds: Bounds) -> HostCache:
    return HostCache(folder, KEYS, ROWS, bounds, exact=True)


def work(folder: Path, seed: int, batches: int, max_rows: int | None, keys: int) -> list[int]:
    """Answer batches of random keys and assert that every answer is right; the keys asked for.

    Key k has k % 3 rows: (k, "k:0"), (k, "k:1").
    """
    rng = np.random.default_rng(seed)
    cache = open_cache(folder, Bounds(max_rows=max_rows, max_bytes=1 << 30))
    asked: list[int] = []
    for _ in range(batches):
        wanted = rng.integers(0, keys, 300)
        ticks = cache.ticks(len(wanted))
        found = cache.find(hashed(wanted), [pa.array(wanted)], ticks, TICK)
        check(wanted[found.usable], found, found.usable)
        missing = np.unique(wanted[~found.usable])
        while len(missing):
            columns = [pa.array(missing)]
            claimed = cache.claim(hashed(missing), columns, TICK)
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
                ticks = cache.ticks(len(mine))
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
    folder: Path, seed: int, batches: int, max_rows: int | None, keys: int
) -> subprocess.Popen:  # type: ignore[type-arg]
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from pathlib import Path; import test_shared_processes as t\n"
        f"print(*t.work(Path({str(folder)!r}), {seed}, {batches}, {max_rows}, {keys}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen) -> list[int]:  # type: ignore[type-arg]
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return [int(word) for word in out.split()]


@pytest.mark.parametrize("processes", [2, 4])
def test_together_they_ask_for_each_key_once(tmp_path: Path, processes: int) -> None:
    running = [start(tmp_path, seed, 60, None, 3_000) for seed in range(processes)]
    asked = [key for process in running for key in finished(process)]
    assert len(asked) == len(set(asked))
    cache = open_cache(tmp_path, Bounds(max_bytes=1 << 30))
    cache._check()
    assert cache.header.live == len(set(asked))


def test_a_small_cache_is_right_under_constant_eviction(tmp_path: Path) -> None:
    running = [start(tmp_path, seed, 80, 500, 3_000) for seed in range(3)]
    for process in running:
        finished(process)
    cache = open_cache(tmp_path, Bounds(max_rows=500, max_bytes=1 << 30))
    cache._check()
    assert cache.header.evictions > 1_000


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
    cache = open_cache(tmp_path, Bounds(max_rows=max_rows, max_bytes=1 << 30))
    cache.release(np.zeros(0, np.int64), [pa.array([], pa.int64())])  # repairs, if need be
    cache._check()


def test_a_writer_that_died_half_way_costs_what_it_was_writing(tmp_path: Path) -> None:
    bounds = Bounds(max_rows=1_000)
    cache = open_cache(tmp_path, bounds)
    keys = np.arange(10)

    def put(some: np.ndarray) -> None:
        columns = [pa.array(some)]
        cache.claim(hashed(some), columns, TICK)
        ones = np.ones(len(some), np.int64)
        rows = [pa.array(some), pa.array([f"{key}" for key in some])]
        cache.put(hashed(some), columns, ones, rows, cache.ticks(len(some)), TICK, 0)

    put(keys)
    # Rows and entries are written, but not yet linked and counted, when it dies.
    rows, entries = cache.header.rows, cache.header.entries
    cache._view()[0].rows.append(rows, [pa.array([77]), pa.array(["torn"])])
    cache.header.rows, cache.header.entries, cache.header.dirty = rows + 1, entries, 1
    cache.header.live_rows += 5
    again = open_cache(tmp_path, bounds)
    assert again.claim(hashed(keys), [pa.array(keys)], TICK).states.tolist() == [State.HIT] * 10
    again._check()
    assert again.header.live_rows == 10


def test_a_full_disk_costs_the_cache_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, Bounds(max_rows=1 << 20))
    keys = np.arange(50_000)
    columns = [pa.array(keys)]
    cache.claim(hashed(keys), columns, TICK)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    rows = [pa.array(keys), pa.array([str(key) for key in keys])]
    ones = np.ones(len(keys), np.int64)
    assert cache.put(hashed(keys), columns, ones, rows, cache.ticks(50_000), TICK, 0) == 0
    assert "no room" in caplog.text
    monkeypatch.undo()
    found = cache.claim(hashed(keys), columns, TICK)
    assert set(found.states.tolist()) == {State.MINE}
    cache.put(hashed(keys), columns, ones, rows, cache.ticks(50_000), TICK, 0)
    cache._check()
    assert cache.header.live == 50_000


def test_members_know_who_is_alive(tmp_path: Path) -> None:
    first, second = Membership(tmp_path, 1), Membership(tmp_path, 2)
    assert first.is_alive(1)
    assert first.is_alive(2)
    assert not first.is_alive(3)
    del second
    assert not first.is_alive(2)


def test_permits_are_handed_over(tmp_path: Path) -> None:
    one, other = Slots(tmp_path / "slots", 1), Slots(tmp_path / "slots", 1)
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


def test_caches_of_dead_applications_are_swept(tmp_path: Path) -> None:
    folder = cache_folder("mine", str(tmp_path))
    assert folder.is_dir()
    dead = cache_folder("dead", str(tmp_path))
    (owner,) = (dead / "owners").iterdir()
    pid, _, space = owner.name.split(".")
    # The number of a living process, but of an earlier one that had it.
    owner.rename(dead / "owners" / f"{pid}.1.{space}")
    foreign = cache_folder("foreign", str(tmp_path))
    (owner,) = (foreign / "owners").iterdir()
    owner.rename(foreign / "owners" / "1.1.999")
    sweep(tmp_path)
    assert folder.is_dir()
    assert foreign.is_dir()  # of another container, that cannot be seen from here
    assert not dead.exists()
