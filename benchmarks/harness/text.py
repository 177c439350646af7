"""Numbers, durations, tables and verdicts as the command line and the report print them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.outcome import Cell, Figure, Table
from benchmarks.harness.records import Record, figures_of


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.31), duration(42.3), duration(200), duration(3900)
    ('0.3 s', '42 s', '3 min 20 s', '1 h 05 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def table_lines(table: Table) -> list[str]:
    """A table as lines of equal width; columns of numbers are aligned to the right."""
    columns = []
    for i, head in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        texts = [head, *map(_cell, cells)]
        width = max(map(len, texts))
        left = any(isinstance(cell, str) for cell in cells)
        columns.append([text.ljust(width) if left else text.rjust(width) for text in texts])
    lines = ["  " + "  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return [table.title, *lines]


def _cell(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def figure_lines(figures: Sequence[Figure]) -> list[str]:
    """Figures as a table: value, bound, spread, and whether the bound is missed."""
    rows = []
    for figure in figures:
        spread = f"({figure.spread[0]:.4g} to {figure.spread[1]:.4g})" if figure.spread else ""
        notes = [figure.unit, spread, "simulated" if figure.simulated else ""]
        notes.append("" if figure.reached else "MISSED")
        row = {"figure": figure.name, "value": figure.value, "bound": _bound(figure)}
        rows.append({**row, "": "   ".join(filter(None, notes))})
    return table_lines(Table.of("", rows))[1:]


def _bound(figure: Figure) -> str:
    sign = "<=" if figure.at_most else ">="
    return "" if figure.bound is None else f"{sign} {figure.bound:.4g}"


def verdict(record: Record) -> str:
    """A record in a few words: ``5 figures, 1 MISSED``, or that it failed."""
    error: str | None = record["error"]
    if error is not None:
        return f"FAILED: {error.strip().splitlines()[-1][:120]}"
    figures = figures_of(record)
    count = f"{len(figures)} figure{'' if len(figures) == 1 else 's'}"
    if all(figure.bound is None for figure in figures):
        return f"{count}, no bounds"
    missed = sum(not figure.reached for figure in figures)
    return f"{count}, {missed} MISSED" if missed else f"{count}, all reached"


def overview(records: Sequence[Record]) -> str:
    """The figures of several records, and which are missed or failed."""
    lines, missed = [], []
    for record in records:
        figures = figures_of(record)
        lines += ["", f"{record['name']}: {verdict(record)}"]
        lines += figure_lines(figures) if figures else []
        missed += [
            f"  {record['name']}: {figure.name} is {figure.value:.4g}, bound {_bound(figure)}"
            for figure in figures
            if not figure.reached
        ]
    failed = [f"  {record['name']}" for record in records if record["error"]]
    for word, listed in (("MISSED", missed), ("FAILED", failed)):
        if listed:
            lines += ["", f"{word}, {len(listed)} in all:", *listed]
    return "\n".join(lines)
