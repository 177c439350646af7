"""Hit rates of the shared cache's eviction policies on Zipf traces.

The traces come in batches, as the cache gets its keys: what is missing is loaded when the batch was
looked up, and the cache evicts then.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.zipf import scattered, zipf
from benchmarks.harness.outcome import Table
from benchmarks.harness.text import table_lines
from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.policy import POLICIES
from bsjoin.index.integer_hash import hashes_of_integers

Int64s = NDArray[np.int64]

TRACES = {
    "Zipf": "keys drawn by themselves",
    "scans": "a third of the uses are runs of keys that occur once",
    "moving": "in each of 20 parts of the trace the ranks have moved on by 1 % of the keys",
}
_PARTS = 20


def used(cache: HostCache, keys: Int64s) -> int:
    """Use keys, then store the missing ones; how many were hits."""
    hashes = hashes_of_integers(keys)
    found, ticks = cache.find(hashes, [pa.array(keys)], 0)
    missing = np.flatnonzero(found.states == State.MISS)
    _, last = np.unique(hashes[missing][::-1], return_index=True)
    new = missing[::-1][last]
    columns, ones = [pa.array(keys[new])], np.ones(len(new), np.int64)
    cache.claim(hashes[new], columns, ticks[new], 0)
    cache.put(hashes[new], columns, ones, [], ticks[new], 0, 0)
    return len(keys) - len(missing)


def trace(kind: str, z: float, keys: int, uses: int, seed: int) -> Int64s:
    """A trace of ``TRACES``; scans are added to its ``uses``."""
    ranks = zipf(keys, z, uses, seed)
    if kind == "moving":
        ranks = (ranks + np.arange(uses) * _PARTS // uses * (keys // 100)) % keys + 1
    drawn = scattered(ranks, keys)
    if kind != "scans":
        return drawn
    each = uses // _PARTS // 2
    parts = [
        np.concatenate((part, np.arange(keys + n * each, keys + (n + 1) * each)))
        for n, part in enumerate(np.array_split(drawn, _PARTS))
    ]
    return np.concatenate(parts)


def hit_rate(cache: HostCache, uses: Int64s, batch: int) -> float:
    """Percent of the uses that are hits, after the first quarter, which warms the cache up."""
    parts = np.split(uses, range(batch, len(uses), batch))
    hits = [used(cache, part) for part in parts]
    warm = -(-(len(uses) // 4) // batch)
    return 100 * sum(hits[warm:]) / sum(map(len, parts[warm:]))


def measured(keys: int, uses: int, batch: int, seed: int) -> Iterator[dict[str, str | float]]:
    """The hit rates of every policy, trace by trace."""
    for kind, z, share in product(TRACES, (0.8, 1.0, 1.2), (100, 10)):
        drawn = trace(kind, z, keys, uses, seed)
        line: dict[str, str | float] = {"trace": kind, "z": z, "cache": f"{100 // share} %"}
        for option in POLICIES:
            limits = CacheLimits(max_rows=keys // share, eviction=option)
            with tempfile.TemporaryDirectory() as folder:
                cache = HostCache(Path(folder), [pa.int64()], [], limits, exact=True)
                line[option] = hit_rate(cache, drawn, batch)
        yield line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, given in {"--keys": 20_000, "--uses": 200_000, "--batch": 500, "--seed": 1}.items():
        parser.add_argument(name, type=int, default=given, help=f"default {given}")
    lines = list(measured(**vars(parser.parse_args())))
    print("\n".join(table_lines(Table.of("Hits, percent of the uses", lines))))


if __name__ == "__main__":
    main()
