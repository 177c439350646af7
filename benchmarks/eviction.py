"""Hit rates of the shared cache's eviction policies on Zipf traces.

The traces come in batches, as the cache gets its keys: what is missing is loaded when the batch was
looked up, and the cache evicts then.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data.zipf import mixed, scattered, zipf
from bsjoin.cache import CacheLimits, HostCache, State
from bsjoin.cache.policy import POLICIES

Int64s = NDArray[np.int64]

TRACES = {
    "Zipf": "keys drawn by themselves",
    "scans": "a third of the uses are runs of keys that occur once",
    "moving": "in each of 20 parts of the trace the ranks have moved on by 1 % of the keys",
}
_PARTS = 20


class Shared:
    """The shared cache of a host, of so many keys, with one of its policies."""

    def __init__(self, folder: Path, size: int, eviction: str):
        limits = CacheLimits(max_rows=size, eviction=eviction)
        self.cache = HostCache(folder, [pa.int64()], [], limits, exact=True)

    def batch(self, keys: Sequence[int]) -> int:
        """Use keys, then store the missing ones; how many were hits."""
        batch = np.array(keys)
        hashes = mixed(batch)
        found, ticks = self.cache.find(hashes, [pa.array(batch)], 0)
        missing = np.flatnonzero(found.states == State.MISS)
        _, last = np.unique(hashes[missing][::-1], return_index=True)
        new = missing[::-1][last]
        columns, ones = [pa.array(batch[new])], np.ones(len(new), np.int64)
        self.cache.claim(hashes[new], columns, ticks[new], 0)
        self.cache.put(hashes[new], columns, ones, [], ticks[new], 0, 0)
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


def hit_rate(cache: Shared, uses: Int64s, batch: int) -> float:
    """Percent of the uses that are hits, after the first quarter, which warms the cache up."""
    hits = counted = 0
    for begin in range(0, len(uses), batch):
        part = uses[begin : begin + batch].tolist()
        found = cache.batch(part)
        if begin >= len(uses) // 4:
            hits, counted = hits + found, counted + len(part)
    return 100 * hits / counted


def measured(keys: int, uses: int, batch: int, seed: int) -> Iterator[dict[str, str | float]]:
    """The hit rates of every policy, trace by trace."""
    for kind in TRACES:
        for z in (0.8, 1.0, 1.2):
            drawn = trace(kind, z, keys, uses, seed)
            for share in (100, 10):
                size = keys // share
                line = {"trace": kind, "z": f"{z:g}", "cache": f"{100 // share} %"}
                rates = {}
                for option in POLICIES:
                    with tempfile.TemporaryDirectory() as folder:
                        shared = Shared(Path(folder), size, option)
                        rates[option] = hit_rate(shared, drawn, batch)
                yield line | rates


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keys", type=int, default=20_000, help="default 20000")
    parser.add_argument("--uses", type=int, default=200_000, help="default 200000")
    parser.add_argument("--batch", type=int, default=500, help="default 500")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    arguments = parser.parse_args()
    for number, row in enumerate(measured(**vars(arguments))):
        if not number:
            print("| " + " | ".join(row) + " |", "| --- " * len(row) + "|", sep="\n")
        cells = (cell if isinstance(cell, str) else f"{cell:.1f}" for cell in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
