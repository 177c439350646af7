"""Table 5 of the BS-Join paper: how much of a Zipf stream falls on the most frequent keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.data.zipf import Zipf
from benchmarks.harness.outcome import Context, Figure, Outcome, Table

__all__ = ["KEYS", "TABLE_5", "run", "shares"]

KEYS = 10_000_000
TOPS = (1, 10, 20, 30, 40, 50)  # percent of the keys
TABLE_5 = {
    0.98: (69.01, 84.15, 88.85, 91.62, 93.61, 95.16),
    1.04: (78.71, 89.85, 93.00, 94.81, 96.07, 97.04),
    1.10: (86.42, 93.99, 95.95, 97.03, 97.78, 98.34),
    1.16: (91.89, 96.69, 97.82, 98.42, 98.83, 99.13),
}
"""Percent of the accesses by exponent, for each of ``TOPS``."""

_COLORS = dict(zip(TABLE_5, ("#9aa0a6", "#6aa84f", "#2e6f95", "#d1495b"), strict=True))


def shares(keys: int = KEYS) -> dict[float, tuple[float, ...]]:
    """Percent of the accesses that fall on the most frequent keys, computed.

    Args:
        keys: how many there are; the paper's numbers are those of 10^7.

    Returns:
        By exponent, for each of ``TOPS``.

    Complexity:
        O(1) a cell: the sums come from Euler and Maclaurin's formula.

    Example:
        >>> [round(share, 2) for share in shares()[1.16]]
        [91.89, 96.68, 97.81, 98.42, 98.82, 99.13]
    """
    return {z: tuple(100 * Zipf(keys, z).share(keys * top // 100) for top in TOPS) for z in TABLE_5}


def drawn(keys: int, draws: int, seed: int) -> dict[float, tuple[float, ...]]:
    """The same, counted in the keys that the benchmarks' generator draws."""
    found = {}
    for z in TABLE_5:
        ranks = Zipf(keys, z, seed=seed).ranks(draws)
        found[z] = tuple(100 * float(np.mean(ranks <= keys * top // 100)) for top in TOPS)
    return found


def run(context: Context) -> Outcome:
    """Compute Table 5, count it in drawn keys, and compare every cell with the paper's."""
    draws = 1_000_000 if context.quick else 10_000_000
    computed, counted = shares(), drawn(KEYS, draws, context.seed)
    rows = tuple(
        (
            f"{z:g}",
            f"{top} %",
            theirs,
            round(ours, 2),
            round(ours - theirs, 3) + 0.0,
            round(seen, 2),
        )
        for z, told in TABLE_5.items()
        for top, theirs, ours, seen in zip(TOPS, told, computed[z], counted[z], strict=True)
    )
    off = _largest(computed)
    context.say(f"Table 5, {KEYS:,} keys: 24 cells, largest difference {off:.3f} points")
    return Outcome(
        figures=[
            Figure(
                "Table 5, computed: largest difference of 24 cells",
                off,
                0.02,
                True,
                paper="69.01 to 99.13 % (Table 5)",
                unit="points",
            ),
            Figure(
                f"Table 5, {draws:,} keys drawn: largest difference",
                _largest(counted),
                0.2,
                True,
                paper="69.01 to 99.13 % (Table 5)",
                unit="points",
            ),
        ],
        tables=[
            Table(
                "Table 5: percent of the accesses that fall on the most frequent keys",
                ("Z", "keys", "paper", "ours", "difference, points", f"in {draws:,} drawn keys"),
                rows,
                f"{KEYS:,} keys; rank r is drawn with a weight of r^(-Z). The paper does not say "
                "how many keys it has: 10^7 is what its numbers fit.",
            )
        ],
        pictures=[_picture(computed, context.out / "paper_zipf.png")],
        measured={
            str(z): {"paper": TABLE_5[z], "computed": computed[z], "drawn": counted[z]}
            for z in TABLE_5
        },
    )


def _largest(found: dict[float, tuple[float, ...]]) -> float:
    """The largest difference from the paper's cells, in points."""
    return max(abs(a - b) for z in TABLE_5 for a, b in zip(found[z], TABLE_5[z], strict=True))


def _picture(computed: dict[float, tuple[float, ...]], path: Path) -> Path:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    part = np.r_[np.linspace(0.1, 1.9, 19), np.linspace(2, 60, 59)]
    for z, color in _COLORS.items():
        line = [100 * Zipf(KEYS, z).share(round(KEYS * top / 100)) for top in part]
        axes.plot(part, line, color=color, lw=1.8, label=f"{z:g}, ours")
        axes.plot(TOPS, TABLE_5[z], "o", color=color, ms=6, mec="white", mew=0.8)
    axes.plot([], [], "o", color="0.4", ms=6, label="the paper's cells")
    axes.set(xlabel="most frequent keys, % of 10 million", ylabel="% of the accesses", xlim=(0, 60))
    axes.set_title(
        f"Table 5: all 24 cells within {_largest(computed):.2f} points of ours",
        loc="left",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, title="exponent Z", loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
