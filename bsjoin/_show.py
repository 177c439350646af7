"""Tables to look at: as text for terminals, and as HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def columns(rows: Iterable[Sequence[object]]) -> str:
    """Rows of cells as lines, their columns aligned; numbers to the right.

    Example:
        >>> print(columns([("version", "rows"), (1, 1000)]))
        version  rows
              1  1000
    """
    listed = list(rows)
    cells = [[printable(str(cell)) for cell in row] for row in listed]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row, texts in zip(listed, cells, strict=True):
        aligned = [
            text.rjust(width) if isinstance(cell, int | float) else text.ljust(width)
            for cell, text, width in zip(row, texts, widths, strict=True)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    r"""The text on one line; what moves a terminal's cursor, or does worse, is escaped.

    Example:
        >>> print(printable("two\nlines"))
        two\nlines
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_bytes(size: float) -> str:
    """A number of bytes for people.

    Example:
        >>> in_bytes(3 * 1024**3 // 2)
        '1.5 GiB'
    """
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


@dataclass(frozen=True)
class Shown:
    """A table that ``print`` shows as text, and a notebook as HTML.

    Args:
        caption: what it shows.
        head: the names of the columns; empty where the first cell of a row names the second one.
        rows: cells; None for an empty one.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __str__(self) -> str:
        if not self.head:
            return columns([[name, str(value)] for name, value in self.rows])
        return columns(
            [["" if cell is None else cell for cell in row] for row in [self.head, *self.rows]]
        )

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in self.head)
        lines = [f"<thead><tr>{head}</tr></thead>"] if head else []
        lines += [f"<tr>{''.join(self._cells(row))}</tr>" for row in self.rows]
        return f"<table><caption>{_escaped(self.caption)}</caption>{''.join(lines)}</table>"

    def _cells(self, row: Sequence[object]) -> Iterable[str]:
        for number, cell in enumerate(row):
            if not self.head and number == 0:
                yield f'<th scope="row" style="text-align: left">{_escaped(cell)}</th>'
            else:
                side = "right" if self.head and isinstance(cell, int | float) else "left"
                yield f'<td style="text-align: {side}">{_escaped(cell)}</td>'


def _escaped(cell: object) -> str:
    return "" if cell is None else html.escape(str(cell))
