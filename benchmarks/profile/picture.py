"""The picture of the profile: what a micro-batch is made of, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.profile.parts import OURS, PARTS, UNEXPLAINED

__all__ = ["draw"]

_COLORS = dict(
    zip(
        PARTS,
        (
            "#e8eaed", "#c4c8cd", "#9aa0a6", "#6f757b", "#dfe3ea", "#a9c4d6", "#2e6f95",
            "#6aa84f", "#d1495b", "#e9838f", "#7a1f2d", "#b0763b", "#e9a03b", "#f3c6cc", "#ffffff",
        ),
        strict=True,
    )
)  # fmt: skip
_LABELLED_MS = 0.03  # of the widest bar


def draw(middle: Mapping[str, Mapping[str, float]], path: Path, rows: int, size: int) -> Path:
    """A bar for each kind, stacked of the parts of its micro-batch.

    Args:
        middle: milliseconds, by kind and part.
        path: the file.
        rows: of a micro-batch.
        size: rows of the table.

    Returns:
        The file.
    """
    figure, axes = plt.subplots(figsize=(12, 1.9 + 0.5 * len(middle)), layout="constrained")
    widest = max(sum(one.values()) for one in middle.values())
    names = list(middle)
    for place, name in enumerate(names):
        left = 0.0
        for part in PARTS:
            value = max(middle[name][part], 0.0)
            drawn = axes.barh(place, value, left=left, height=0.66, **_style(part))
            if value >= _LABELLED_MS * widest:
                dark = part in OURS[:1] or _luminance(_COLORS[part]) < 0.5
                axes.bar_label(
                    drawn, [f"{value:.0f}"], label_type="center", fontsize=8,
                    color="white" if dark else "0.2",
                )  # fmt: skip
            left += value
        ours = sum(middle[name][part] for part in OURS)
        note = f"{left:.0f} ms" + (f", ours {ours / left:.1%}" if ours else "")
        axes.annotate(note, (left, place), (5, 0), textcoords="offset points", va="center")
    used = [p for p in PARTS if any(one[p] > 0.002 * widest for one in middle.values())]
    for part in used:
        axes.barh(0, 0, label=part, **_style(part))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds of one micro-batch (median)", xlim=(0, widest * 1.16))
    shares = [sum(one[p] for p in OURS) / sum(one.values()) for one in middle.values()]
    shares = [share for share in shares if share] or [0.0]
    axes.set_title(
        f"A micro-batch of {rows:,} rows, a table of {size:,}: our own code is "
        f"{min(shares):.1%} to {max(shares):.1%} of it.\nGrey: Spark's driver. "
        "Blue: the JVM in tasks. Green: Spark's Python worker. Red, brown and orange: our code",
        loc="left",
        fontsize=10,
    )
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8.5, ncols=5,
                  loc="outside lower center")  # fmt: skip
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def _style(part: str) -> dict[str, Any]:
    if part == UNEXPLAINED:
        return {"color": "white", "ec": "0.6", "lw": 0.5, "hatch": "////"}
    return {"color": _COLORS[part], "ec": "white", "lw": 0.5}


def _luminance(color: str) -> float:
    red, green, blue = mpl.colors.to_rgb(color)
    return 0.3 * red + 0.59 * green + 0.11 * blue
