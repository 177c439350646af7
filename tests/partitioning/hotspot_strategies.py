"""Codes, samples and rules for the tests of hot keys."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from bsjoin.index import GREATEST, LEAST
from bsjoin.partitioning import HotKey, Rule, Sample

code = st.one_of(
    st.integers(LEAST, GREATEST),
    st.integers(-20, 20),
    st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]),
)
codes = st.lists(code, max_size=100)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Any rule at all: ranges without codes, hot keys on every partition or one."""
    partitions = draw(st.integers(1, 9))
    boundaries = draw(st.lists(code, min_size=partitions - 1, max_size=partitions - 1))
    hot = []
    for key in sorted(draw(st.sets(code, max_size=5))):
        first = draw(st.integers(0, partitions - 1))
        most = partitions - first
        parts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=most).filter(any))
        hot.append(HotKey(key, first, tuple(part / sum(parts) for part in parts)))
    return Rule(draw(st.integers(0, 99)), partitions, tuple(sorted(boundaries)), tuple(hot))


def contents(count: int, seed: int = 0) -> np.ndarray:
    """Hashes of so many different rows."""
    return np.random.default_rng(seed).integers(LEAST, GREATEST, count, np.int64)


def naive(rule: Rule, key: int) -> int:
    """The partition in whose range a code lies, by a loop."""
    return sum(key > boundary for boundary in rule.boundaries)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """A sample with light keys and heavy ones."""
    drawn = draw(st.dictionaries(code, st.integers(1, 50), max_size=60))
    codes_ = np.array(sorted(drawn), np.int64)
    counts = np.array([drawn[key] for key in sorted(drawn)], np.int64)
    return Sample(codes_, counts, counts * draw(st.sampled_from([1.0, 2.5, 100.0])))
