"""Tables as text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns, the first row above a line.

    >>> print(table([("a", "b"), ("long", "1")]))
    a     b
    ----  -
    long  1
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ruled
    )
