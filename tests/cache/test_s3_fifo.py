"""S3-FIFO: a key that is used once leaves soon, and an evicted one is remembered."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from test_eviction_contract import hits, opened, used

from bsjoin.cache import HostCache
from bsjoin.cache.ghosts import Ghosts
from bsjoin.cache.header import Header

HOT = list(range(800))


def filled(folder: Path) -> HostCache:
    cache = opened(folder, "s3-fifo", max_rows=1_000)
    for _ in range(2):
        used(cache, HOT)
    return cache


def test_a_scan_evicts_no_key_that_was_used_again(tmp_path: Path) -> None:
    """Nor does a batch that is larger than the cache; and a key that comes back soon stays."""
    cache = filled(tmp_path)
    for begin in range(10_000, 40_000, 500):
        used(cache, list(range(begin, begin + 500)))
    used(cache, list(range(50_000, 55_000)))
    assert hits(cache, HOT) == 800
    used(cache, list(range(10_000, 10_300)))
    used(cache, list(range(11_000, 11_100)))  # evicts the first of the 300
    gone = list(range(10_000, 10_050))
    assert hits(cache, gone) == 0
    used(cache, gone)
    for begin in range(20_000, 25_000, 500):
        used(cache, list(range(begin, begin + 500)))
    assert hits(cache, gone) == 50


def test_a_key_that_is_hot_no_more_leaves(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    for first in range(50_000, 60_000, 1_000):
        for _ in range(4):
            used(cache, list(range(first, first + 900)))
    assert hits(cache, HOT) == 0


def test_ghosts_are_shared_and_as_many_as_the_cache_has_entries(tmp_path: Path) -> None:
    header = Header(tmp_path)
    header.live = 1_000
    one, other = Ghosts(tmp_path, header), Ghosts(tmp_path, header)
    hashes = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, 3_000)
    assert not one.contain(hashes).any()
    one.add(hashes[:1_500])
    other.add(hashes[1_500:])
    assert not one.contain(hashes[:2_000]).any()
    assert one.contain(hashes[2_000:]).mean() > 0.75  # two to four slots each: some collide
    assert (one.contain(hashes) == other.contain(hashes)).all()
    header.live = 10_000  # it is outgrown: a new table
    one.add(hashes[:10])
    assert other.contain(hashes[:10]).all()
    assert not other.contain(hashes[10:]).any()
    assert len(list(tmp_path.glob("ghosts*"))) == 1


def test_without_memory_no_key_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = Header(tmp_path)
    header.live = 1_000
    ghosts = Ghosts(tmp_path, header)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    ghosts.add(np.arange(10))
    assert not ghosts.contain(np.arange(10)).any()
