"""Arrays of integers as short texts, for notes and rules that travel as JSON."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from bsjoin.index import Int64s

_WIDTH = 8
_MOST_BYTES = 64 << 20


def pack(values: Int64s, *, ascending: bool = False) -> str:
    """Write integers as a text.

    The bytes are shuffled before they are compressed: first byte 0 of all values, then byte 1, and
    so on, so that the leading zeros of small values are adjacent. It is the byte shuffle filter of
    HDF5 and Blosc.

    Of ``ascending`` values the differences are written, which are smaller (delta encoding).

    Returns:
        A text of letters, digits, ``+``, ``/`` and ``=`` (Base64). Counts below 256 take about one
        character each; sorted hashes of 64 bits about 9.

    Complexity: O(m).

    Example:
        >>> unpack(pack(np.array([3, -1, 2]))).tolist()
        [3, -1, 2]
    """
    written = np.diff(values, prepend=np.int64(0)) if ascending else values
    planes = written.astype("<i8").view(np.uint8).reshape(-1, _WIDTH).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def unpack(text: str, *, ascending: bool = False) -> Int64s:
    """Read what :func:`pack` wrote.

    Raises:
        ValueError: the text is not one that :func:`pack` writes.
    """
    try:
        # A short text may expand to more than the memory (a decompression bomb).
        reader = zlib.decompressobj()
        raw = reader.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"{_shown(text)} was not written by pack(): {error}") from error
    if not reader.eof:
        raise ValueError(
            f"{_shown(text)} was not written by pack(): it is cut off, or holds more than "
            f"{_MOST_BYTES} bytes"
        )
    planes = np.frombuffer(raw, np.uint8).reshape(_WIDTH, -1)
    values = np.ascontiguousarray(planes.T).view("<i8").reshape(-1).astype(np.int64)
    return np.cumsum(values, dtype=np.int64) if ascending else values


def _shown(text: str) -> str:
    return repr(text if len(text) < 30 else text[:27] + "...")
