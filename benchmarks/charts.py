"""The charts of all benchmarks: tables drawn as lines or bars, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.harness.outcome import Table

_OURS = "#d1495b"  # bsjoin's first series; the others have matplotlib's colours
_OTHERS = ("C0", "C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9")
_KINDS = {"line": {"marker": "o", "ms": 4}, "bar": {"width": 0.8, "edgecolor": "white"}}


def draw(tables: Sequence[Table], file: Path) -> list[str]:
    """The tables that have a chart, a panel for each, in one picture; its name, if there is any."""
    drawn = [(table, chart) for table in tables for chart in table.charts]
    if not drawn:
        return []
    columns = min(len(drawn), 2)
    rows = -(-len(drawn) // columns)
    size = (7.2 * columns, 4.6 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    try:
        for axes, (table, chart) in zip(grid.flat, drawn, strict=False):
            frame, options = series(table, chart), {"title": table.title, **chart["options"]}
            kind, colors = chart["kind"], _colors(list(frame))
            frame.plot(kind=kind, ax=axes, color=colors, fontsize=8, **_KINDS[kind], **options)
            axes.grid(alpha=0.25)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=8)
        for axes in grid.flat[len(drawn) :]:
            axes.set_visible(False)
        with mpl.rc_context({"svg.hashsalt": "bsjoin"}):
            figure.savefig(file, dpi=130, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)
    return [file.name]


def series(table: Table, chart: Mapping[str, Any]) -> pd.DataFrame:
    """What a chart shows of its table (see :meth:`Table.drawn`): a column per series."""
    cells, x, by = pd.DataFrame(table.rows, columns=table.columns), chart["x"], chart["by"]
    shown = [head for head in table.columns if head != x and head.startswith(chart["y"])]
    cells[shown] = cells[shown].apply(pd.to_numeric, errors="coerce")
    if by is None:
        return cells.set_index(x)[shown]
    names = {
        (head, way): f"{way}, {head}" if len(shown) > 1 else str(way)
        for way in cells[by].unique()
        for head in shown
    }
    frame = cells.pivot(index=x, columns=by, values=shown)
    frame = frame.reindex(index=cells[x].unique(), columns=list(names))
    return frame.set_axis(list(names.values()), axis=1)


def _colors(names: Sequence[object]) -> list[str]:
    ours = next((at for at, name in enumerate(names) if str(name).startswith("bsjoin")), None)
    return [_OURS if at == ours else _OTHERS[at % len(_OTHERS)] for at in range(len(names))]
