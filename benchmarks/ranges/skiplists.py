"""How many stored values a search reads: skip lists with fixed and with random levels (Fig. 13).

The paper counts comparisons as "the memory access frequency"; :mod:`bsjoin.index.skiplist` says
how that is counted here. A random list is built anew for every test, a list with fixed levels
has the same shape whenever it is built.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.outcome import Figure
from bsjoin.index import RandomSkipList, SkipList

__all__ = ["FIXED", "RANDOM", "figures", "measure"]

FIXED, RANDOM = "fixed levels", "random levels"

_SPREAD = 1 << 20  # values are this far apart on average


def measure(
    sizes: Sequence[int],
    searches: int,
    builds: int,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> dict[int, Any]:
    """Count the reads of random searches, in lists built several times.

    Args:
        sizes: rows of the lists.
        searches: how many random probes.
        builds: how often each list is built: the paper's 10 tests.
        seed: of values and probes.
        say: prints one line.

    Returns:
        By size and kind of list: ``mean``, the reads of a search over all builds and probes;
        ``one``, the variance over the builds of the reads of one search, averaged over the
        probes; ``all``, the variance over the builds of the mean over the probes.
    """
    found: dict[int, Any] = {}
    for size in sizes:
        random = np.random.default_rng([seed, size])
        values = np.sort(random.integers(0, size * _SPREAD, size))
        probes = random.integers(0, size * _SPREAD, searches)
        right = np.searchsorted(values, probes)
        counted: dict[str, list[Any]] = {FIXED: [], RANDOM: []}
        for build in range(builds):
            for name in counted:
                # An index of its own each time, though its shape is given by the number of rows.
                built = (
                    SkipList(values.copy())
                    if name == FIXED
                    else RandomSkipList.build(values, build)
                )
                rows, reads = built.search(probes, count=True)
                if (rows != right).any():
                    raise AssertionError(f"{name} finds other rows than numpy, {size} rows")
                counted[name].append(reads)
        found[size] = {}
        for name, reads in counted.items():
            by_build = np.array(reads, np.float64)
            found[size][name] = {
                "mean": float(by_build.mean()),
                "one": float(by_build.var(axis=0).mean()),
                "all": float(by_build.mean(axis=1).var()),
            }
        shown = "   ".join(
            f"{name} {one['mean']:5.2f} (variance {one['one']:.2f})"
            for name, one in found[size].items()
        )
        say(f"  {size:>10,} rows  {shown}   {_fewer(found[size]):.1%} fewer")
    return found


def figures(measured: dict[int, Any]) -> list[Figure]:
    """The figures of section 6 of the design about skip lists."""
    times = [one[RANDOM]["mean"] / one[FIXED]["mean"] for one in measured.values()]
    sizes = f"{min(measured):,} to {max(measured):,}"
    variance = max(one[FIXED][which] for one in measured.values() for which in ("one", "all"))
    return [
        Figure(
            f"reads a search, random / fixed levels, {sizes}",
            statistics.mean(times),
            1.33,
            False,
            (min(times), max(times)),
            "about 25 % fewer with fixed ones, Fig. 13(a)",
        ),
        Figure(
            f"variance of the reads over builds, fixed levels, {sizes}",
            variance,
            0.0,
            True,
            paper="always 0, Fig. 13(b)",
        ),
    ]


def _fewer(one: dict[str, Any]) -> float:
    """The share of the reads that fixed levels save."""
    return float(1 - one[FIXED]["mean"] / one[RANDOM]["mean"])
