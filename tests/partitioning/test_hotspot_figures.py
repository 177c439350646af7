"""The figures that were promised for skew, and the streams that they are measured on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data.zipf import Shifting, hashed, zipf
from benchmarks.papers.joins.skews import SPLIT, run
from benchmarks.papers.joins.zipf_shares import TABLE_5, TOPS
from bsjoin.runtimes.python.worker.hashing import xxhash64


@pytest.mark.parametrize("z", TABLE_5)
def test_drawn_keys_have_the_shares_of_table_5(z: float) -> None:
    ranks = zipf(10**7, z, 200_000, seed=1)
    for percent, share in zip(TOPS, TABLE_5[z], strict=True):
        found = 100 * (ranks <= 10**5 * percent).mean()
        assert found == pytest.approx(share, abs=4 * np.sqrt(share * (100 - share) / 200_000))


def test_keys_have_the_codes_that_spark_gives_them() -> None:
    keys = np.array([0, 1, -1, 42, 10**7, 2**63 - 1, -(2**63)])
    assert (hashed(keys) == xxhash64([pa.array(keys)])).all()


def hottest(stream: Shifting, index: int) -> set[int]:
    return set(np.argsort(-np.bincount(stream.cycle(index), minlength=stream.n))[:3].tolist())


@pytest.mark.parametrize("every", [1, 3])
def test_other_keys_are_hot_after_every_few_cycles(every: int) -> None:
    stream = Shifting(100_000, 1.16, rows=20_000, every=every, seed=5)
    assert (stream.cycle(2) == stream.cycle(2)).all()
    for index in range(1, 7):
        stays = hottest(stream, index) & hottest(stream, index - 1)
        assert (not stays) == (index % every == 0)


@pytest.mark.parametrize("partitions", [6, 128])
def test_the_first_adapted_cycle_is_even(partitions: int) -> None:
    """Zipf 1.16 over 10^7 keys, cycles of 10^6 rows: DS is 0.05 or less, and so it stays."""
    stream = Shifting(10**7, 1.16, rows=10**6, seed=1)
    cycles = [hashed(stream.cycle(index)) for index in range(3)]
    found = run(SPLIT, partitions, cycles)
    assert found[0]["skew"] > 0.4
    assert found[1]["version"] == found[2]["version"] == 1
    assert max(one["skew"] for one in found[1:]) <= 0.05
    assert found[1]["note_bytes"] < 20_000
    assert found[1]["rule_bytes"] < 5_000
