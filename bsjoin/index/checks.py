"""Helpers of the ``validate`` methods of the stored structures.

Files of a table may be damaged or hostile. Each structure checks its invariants once, in
``validate``; a probe relies on them and does not check its offsets again. All checks process the
arrays in chunks: their memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bsjoin.index.arrays import Bools, Int32s, Int64s

MAX_ROWS = int(np.iinfo(np.int32).max)
"""An index has fewer rows: their positions are int32."""

_CHUNK = 1 << 16  # so that what a chunk needs stays in the CPU's cache


def chunks(length: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each chunk of ``length`` entries."""
    for begin in range(0, length, _CHUNK):
        yield begin, min(begin + _CHUNK, length)


def refuse(wrong: Bools, begin: int, what: str) -> None:
    """Raise if any entry is invalid.

    Args:
        wrong: bool[chunk], whether each entry is invalid.
        begin: the position of the chunk's first entry.
        what: a description of the error; the position of the entry is appended.

    Raises:
        ValueError: names the first invalid position.
    """
    if wrong.any():
        raise ValueError(f"{what} {begin + int(wrong.argmax())}")


def check_directory(directory: Int32s, rows: int, name: str) -> None:
    """Check that a directory of rows starts with 0, never decreases, and ends with their number.

    Raises:
        ValueError: it does not.

    Complexity: O(entries).
    """
    if directory[0] != 0 or directory[-1] != rows:
        raise ValueError(
            f"the {name} goes from {directory[0]} to {directory[-1]} instead of 0 to {rows}"
        )
    for begin, end in chunks(len(directory) - 1):
        falls = directory[begin + 1 : end + 1] < directory[begin:end]
        refuse(falls, begin + 1, f"the {name} falls at entry")


def check_entries(directory: Int32s, slots: Int64s, begin: int, name: str) -> None:
    """Check the directory's entries for a chunk of rows.

    A directory that never decreases is correct if every row is between the entry of its slot and
    the next entry: then each entry is the first row whose slot is not below it.

    Args:
        directory: of :func:`check_directory`.
        slots: int64[chunk], the slot of each row.
        begin: the first row of the chunk.
        name: what to call the directory.

    Raises:
        ValueError: names the first row that is not in its slot.
    """
    rows = np.arange(begin, begin + len(slots), dtype=directory.dtype)
    wrong = directory[slots] > rows
    wrong |= directory[1:][slots] <= rows
    refuse(wrong, begin, f"the {name} does not lead to row")
