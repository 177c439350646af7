"""What a command answers: as text for people, and as data for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Answer", "columns", "in_bytes"]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    Args:
        text: for people; without a line end.
        data: the same for programs, of what JSON knows, records, times and texts.
        sound: False (default: True) if a fault was found: the exit status is then 1.
    """

    text: str
    data: object
    sound: bool = True


def columns(rows: Iterable[Sequence[object]]) -> str:
    """Rows of cells as lines, their columns aligned; numbers to the right.

    Example:
        >>> print(columns([("version", "rows"), (1, 1000)]))
        version  rows
              1  1000
    """
    listed = list(rows)
    cells = [[str(cell) for cell in row] for row in listed]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row, texts in zip(listed, cells, strict=True):
        aligned = [
            text.rjust(width) if isinstance(cell, int | float) else text.ljust(width)
            for cell, text, width in zip(row, texts, widths, strict=True)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


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
