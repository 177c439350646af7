"""What the command line prints: tables of figures, durations, lists of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.outcome import Figure, Table
from benchmarks.harness.records import Record, figures_of

__all__ = ["duration", "lines_of", "printed", "summed_up", "verdict"]


def duration(seconds: float) -> str:
    """Seconds in words: ``38 s``, ``2 min 5 s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def printed(figures: Sequence[Figure]) -> str:
    """Figures as a table: what it is, what it is to be, the spread, and whether it is missed."""
    wide = max([len("figure"), *(len(figure.name) for figure in figures)])
    lines = [f"{'figure':<{wide}} {'is':>9} {'to be':>9}"]
    for figure in figures:
        sign = "<=" if figure.at_most else ">="
        bound = "" if figure.bound is None else f"{sign} {figure.bound:6.4g}"
        spread = f"   ({figure.spread[0]:.4g} to {figure.spread[1]:.4g})" if figure.spread else ""
        unit = f" {figure.unit}" if figure.unit else ""
        simulated = "   simulated" if figure.simulated else ""
        missed = "" if figure.reached else "   MISSED"
        lines.append(
            f"{figure.name:<{wide}} {figure.value:>9.4g} {bound:>9}"
            f"{unit}{spread}{simulated}{missed}"
        )
    return "\n".join(lines)


def lines_of(table: Table) -> list[str]:
    """A table as lines of equal width; numbers to the right."""
    rows = [[_cell(value) for value in row] for row in table.rows]
    texts = [list(table.columns), *rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(table.columns))]
    right = [
        all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))
    ]
    lines = [table.title]
    for row in texts:
        cells = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def verdict(record: Record) -> str:
    """A record in a few words: ``5 figures, 1 missed``, or that it failed."""
    error: str | None = record["error"]
    if error is not None:
        return f"FAILED: {error.strip().splitlines()[-1][:120]}"
    figures = figures_of(record)
    bounded = [figure for figure in figures if figure.bound is not None]
    missed = sum(not figure.reached for figure in bounded)
    told = f"{len(figures)} figure{'' if len(figures) == 1 else 's'}"
    if not bounded:
        return f"{told}, none to reach"
    return f"{told}, {missed} MISSED" if missed else f"{told}, all reached"


def summed_up(records: Sequence[Record]) -> str:
    """The figures of several records, benchmark by benchmark, and what was missed or failed."""
    lines = []
    for record in records:
        lines += ["", f"{record['name']}: {verdict(record)}"]
        if record["figures"]:
            lines += ["  " + line for line in printed(figures_of(record)).splitlines()]
    missed = [
        f"  {record['name']}: {figure.name} is {figure.value:.4g}, to be "
        f"{'<=' if figure.at_most else '>='} {figure.bound:.4g}"
        for record in records
        for figure in figures_of(record)
        if not figure.reached
    ]
    if missed:
        lines += ["", f"MISSED, {len(missed)} in all:", *missed]
    failed = [f"  {record['name']}" for record in records if record["error"]]
    if failed:
        lines += ["", f"FAILED, {len(failed)} in all:", *failed]
    return "\n".join(lines)
