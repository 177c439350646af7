"""Several processes use one cache at once, and are killed in the middle of it."""

from __future__ import annotations

import json
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
from cache_invariants import check_cache
from cache_samples import until

from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.content import Content
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
    eviction: str = "lru",
) -> list[int]:
    """Answer batches of random keys and assert that every answer is right; the keys asked for.

    Key k has k % 3 rows: (k, "k:0"), (k, "k:1").
    """
    rng = np.random.default_rng(seed)
    limits = CacheLimits(max_rows=max_rows, max_bytes=1 << 30, eviction=eviction)
    cache = open_cache(folder, limits)
    if (folder / "log").exists():
        cache._content.__class__ = Recording
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


def start(folder: Path, *how: Any) -> subprocess.Popen:  # type: ignore[type-arg]
    """Do ``work`` in a process of its own."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path; import test_shared_processes as t\n"
        f"print(*t.work(Path({str(folder)!r}), *{how}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen) -> list[int]:  # type: ignore[type-arg]
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return [int(word) for word in out.split()]


def test_together_they_query_each_key_once(tmp_path: Path) -> None:
    running = [start(tmp_path, seed, 12, None, 2_000) for seed in range(2)]
    asked = [key for process in running for key in finished(process)]
    assert len(asked) == len(set(asked))
    cache = open_cache(tmp_path, CacheLimits(max_bytes=1 << 30))
    check_cache(cache)
    assert cache.header.live == len(set(asked))


class Recording(Content):
    """Writes what happens to the order of uses to a file; its methods run under the lock."""

    def _record(self, kind: str, keys: pa.Array, ticks: np.ndarray) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(f"{json.dumps([kind, keys.to_pylist(), ticks.tolist()])}\n")

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


@pytest.mark.long
def test_processes_together_evict_what_was_used_least_recently(tmp_path: Path) -> None:
    processes, max_rows = 2, 250
    (tmp_path / "log").touch()
    running = [start(tmp_path, seed, 20, max_rows, 600) for seed in range(processes)]
    for process in running:
        finished(process)
    cache = open_cache(tmp_path, CacheLimits(max_rows=max_rows, max_bytes=1 << 30))
    assert cache.header.ticks == processes * 20 * 300  # no use is lost
    view, count = cache._content.view()
    entries = view.entries(count)
    held = live_entries(entries)
    keys = view.keys.gather(held)[0].to_pylist()
    expected = replayed(tmp_path / "log", max_rows)
    assert dict(zip(keys, entries["used"][held].tolist(), strict=True)) == expected
    assert cache.header.evictions > 1_000


@pytest.mark.long
def test_processes_that_are_killed_spoil_nothing(tmp_path: Path) -> None:
    """Under constant eviction; tests/worker_checks.py kills a writer at some of its steps."""
    max_rows, policy = 800, "s3-fifo"  # LRU is held against a replay of its uses above
    survivor = start(tmp_path, 1_000, 40, max_rows, 20_000, policy)
    victim = start(tmp_path, 1, 10_000, max_rows, 20_000, policy)
    until(lambda: len([*tmp_path.glob("members/*")]) == 2, "both have begun")
    time.sleep(random.random())
    victim.send_signal(signal.SIGKILL)
    _, errors = victim.communicate()
    assert victim.returncode == -signal.SIGKILL, errors
    finished(survivor)
    work(tmp_path, 7, 20, max_rows, 20_000, policy)
    cache = open_cache(tmp_path, CacheLimits(max_rows=max_rows, max_bytes=1 << 30, eviction=policy))
    cache.release(np.zeros(0, np.int64), [pa.array([], pa.int64())])  # repairs, if need be
    check_cache(cache)
    assert cache.header.evictions > 1_000
    assert [path.name for path in (tmp_path / "members").iterdir()] == [str(cache.header.members)]
