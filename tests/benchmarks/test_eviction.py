"""Models of eviction policies: what each is known for, and the shared cache beside its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.eviction import MODELS, TRACES, Shared, hit_rate, trace

KEYS, USES, BATCH = 8_000, 24_000, 800
AS_ITS_MODEL = {"LRU": "lru", "S3-FIFO": "s3-fifo"}


@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize("name", AS_ITS_MODEL)
def test_the_shared_cache_has_the_hits_of_its_model(name: str, kind: str, tmp_path: Path) -> None:
    uses = trace(kind, 1.0, KEYS, USES, seed=1)
    model = hit_rate(MODELS[name](KEYS // 10), uses, BATCH)
    shared = hit_rate(Shared(tmp_path, KEYS // 10, AS_ITS_MODEL[name]), uses, BATCH)
    # LRU is exact; S3-FIFO chooses many at once, and forgets some keys that it has evicted.
    assert shared == pytest.approx(model, abs=0 if name == "LRU" else 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_no_more_than_its_size_and_finds_what_it_keeps(name: str) -> None:
    cache = MODELS[name](100)
    assert cache.batch(list(range(50))) == 0
    assert cache.batch(list(range(50))) == 50
    for begin in range(1_000, 5_000, 60):
        cache.batch(list(range(begin, begin + 60)))
    assert cache.batch(list(range(5_000))) <= 100


def test_scans_are_runs_of_keys_that_occur_once() -> None:
    uses = trace("scans", 1.0, KEYS, USES, seed=1)
    scanned = uses[uses >= KEYS]
    assert len(uses) == 3 * USES // 2
    assert len(set(scanned.tolist())) == len(scanned) == USES // 2
