"""Table 5 of the BS-Join paper: how much of a Zipf stream falls on the most frequent keys."""

from __future__ import annotations

import numpy as np

from benchmarks.data.zipf import shares, zipf
from benchmarks.harness.outcome import Context, Figure, Outcome, Table

KEYS = 10_000_000
TOPS = (1, 10, 20, 30, 40, 50)  # percent of the keys
TABLE_5 = {
    0.98: (69.01, 84.15, 88.85, 91.62, 93.61, 95.16),
    1.04: (78.71, 89.85, 93.00, 94.81, 96.07, 97.04),
    1.10: (86.42, 93.99, 95.95, 97.03, 97.78, 98.34),
    1.16: (91.89, 96.69, 97.82, 98.42, 98.83, 99.13),
}
"""Percent of the accesses by exponent, for each of ``TOPS``."""


def run(context: Context) -> Outcome:
    """Compute Table 5, count it in drawn keys, and compare every cell with the paper's."""
    draws = context.pick(1_000_000, 10_000_000)
    found = {
        "paper": np.array(list(TABLE_5.values())),
        "computed": np.array([_computed(z) for z in TABLE_5]),
        "drawn": np.array([_counted(z, draws, context.seed) for z in TABLE_5]),
    }
    rows = [
        {
            "Z": f"{z:g}",
            "keys": f"{top} %",
            "paper": float(theirs),
            "ours": round(ours, 2),
            "difference, points": round(ours - theirs, 3) + 0.0,
            f"in {draws:,} drawn keys": round(seen, 2),
        }
        for z, *cells in zip(TABLE_5, *found.values(), strict=True)
        for top, theirs, ours, seen in zip(TOPS, *cells, strict=True)
    ]
    said = "69.01 to 99.13 % (Table 5)"
    figures = [
        Figure(name, float(np.abs(found[how] - found["paper"]).max()), bound, True, paper=said,
               unit="points")
        for name, how, bound in (
            ("Table 5, computed: largest difference of 24 cells", "computed", 0.02),
            (f"Table 5, {draws:,} keys drawn: largest difference", "drawn", 0.2),
        )
    ]  # fmt: skip
    context.say(f"Table 5, {KEYS:,} keys: 24 cells, largest difference {figures[0].value:.3f}")
    table = Table.of(
        "Table 5: percent of the accesses that fall on the most frequent keys",
        rows,
        f"{KEYS:,} keys; rank r is drawn with a weight of r^(-Z). The paper does not say "
        "how many keys it has: 10^7 is what its numbers fit.",
    )
    table = table.drawn("line", "keys", "paper", "ours", by="Z", ylabel="% of the accesses")
    return Outcome(figures, [table])


def _computed(z: float) -> list[float]:
    """A row of the table."""
    return [float(100 * shares(KEYS, z)[KEYS * top // 100 - 1]) for top in TOPS]


def _counted(z: float, draws: int, seed: int) -> list[float]:
    """A row of the table, counted in the keys that the benchmarks' generator draws."""
    ranks = zipf(KEYS, z, draws, seed)
    return [100 * float(np.mean(ranks <= KEYS * top // 100)) for top in TOPS]
