"""Figure 13 of the BS-Join paper: what a search in a skip list reads, and its variance.

The paper counts comparisons as "the memory access frequency".
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.outcome import Context, Figure, Outcome, Table
from benchmarks.papers.joins.linked import LinkedSkipList
from bsjoin.index import SkipList

RANDOM, SORTED = "random skip list", "sorted skip list"
_SEARCHES, _BUILDS = 10_000, 10  # the paper's ten tests


def run(context: Context) -> Outcome:
    """Count and time the lists by size; quick: two sizes instead of six."""
    sizes = [1 << exponent for exponent in context.pick((16, 18), range(18, 24))]
    found = {size: measure(size, context.seed) for size in sizes}
    for size, one in found.items():
        shown = "   ".join(f"{kind} {one[kind]['mean']:5.2f} reads" for kind in (RANDOM, SORTED))
        context.say(f"  {size:>10,} rows  {shown}")
    return Outcome(figures(found), [table(found)], measured=found)


def measure(size: int, seed: int) -> dict[str, Any]:
    """Reads of random searches in lists that are built several times.

    bsjoin's own sorted list counts nothing; a list of nodes that finds the same does.

    Returns:
        By kind: ``mean``, the reads of a search; ``one``, the variance over the builds of the
        reads of one search, averaged over the searches; ``all``, the variance over the builds of
        the mean.
    """
    random = np.random.default_rng([seed, size])
    values = np.sort(random.integers(0, size << 20, size))
    searched = random.integers(0, size << 20, _SEARCHES)
    right = np.searchsorted(values, searched)

    def check(kind: str, rows: Any) -> None:
        if (rows != right).any():
            raise AssertionError(f"{kind} finds other rows than numpy, {size} rows")

    # The sorted list has the same shape each time, the random one is drawn anew.
    counted: dict[str, Callable[[int], LinkedSkipList]] = {
        RANDOM: lambda number: LinkedSkipList.random(values, number),
        SORTED: lambda _: LinkedSkipList.fixed(values.copy()),
    }
    check(SORTED, SkipList(values).search(searched))
    found: dict[str, Any] = {}
    for kind, build in counted.items():
        reads = np.empty((_BUILDS, _SEARCHES))
        for number in range(_BUILDS):
            rows, reads[number] = build(number).counted(searched)
            check(kind, rows)
        found[kind] = {
            "mean": float(reads.mean()),
            "one": float(reads.var(axis=0).mean()),
            "all": float(reads.sum(axis=1).var() / _SEARCHES**2),
        }
    return found


def figures(found: dict[int, Any]) -> list[Figure]:
    """Reads of random lists over those of sorted ones, and the variance of the latter."""
    sizes = f"{min(found):,} to {max(found):,}"
    times = [one[RANDOM]["mean"] / one[SORTED]["mean"] for one in found.values()]
    variance = max(one[SORTED][which] for one in found.values() for which in ("one", "all"))
    return [
        Figure(
            f"reads a search, random / fixed levels, {sizes}", statistics.mean(times), 1.33,
            spread=(min(times), max(times)), paper="about 25 % fewer with fixed ones, Fig. 13(a)",
        ),
        Figure(
            f"variance of the reads over builds, fixed levels, {sizes}", variance, 0.0,
            at_most=True, paper="always 0, Fig. 13(b)",
        ),
    ]  # fmt: skip


def table(found: dict[int, Any]) -> Table:
    """Fig. 13 as numbers."""
    rows = [
        {
            "rows": f"2^{size.bit_length() - 1}",
            "random, ours": one[RANDOM]["mean"],
            "sorted, ours": one[SORTED]["mean"],
            "fewer, paper, %": "about 25",
            "fewer, ours, %": 100 * (1 - one[SORTED]["mean"] / one[RANDOM]["mean"]),
            "variance, random, ours": one[RANDOM]["one"],
            "variance, sorted, paper": 0.0,
            "variance, sorted, ours": one[SORTED]["one"],
        }
        for size, one in found.items()
    ]
    shown = Table.of(
        "Fig. 13: comparisons of a search, and their variance over ten builds",
        rows,
        "A comparison is a stored value that is read, once per search: the paper's 'memory access "
        "frequency'. Its curves have no numbers in the text. All probes descend the random list "
        "together, each level as long as the unluckiest, so it loses by more than its reads.",
    )
    for part, what, heads in (
        ("a", "values read in a search", ("random, ours", "sorted, ours")),
        ("b", "variance over ten builds", ("variance",)),
    ):
        shown = shown.drawn("lines", "rows", *heads, title=f"Fig. 13({part}): {what}")
    return shown
