"""Checksums of files: they detect damage, but do not authenticate the writer."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
import xxhash

_CHUNK = 1 << 22


class Readable(Protocol):
    """A file that is read in pieces."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` more bytes; none at the end."""
        ...


def checksum(file: Readable) -> str:
    """The XXH3-128 checksum of a file, in hexadecimal; several GB/s."""
    digest = xxhash.xxh3_128()
    while piece := file.read(_CHUNK):
        digest.update(piece)
    return digest.hexdigest()


def checksum_of_bytes(data: pa.Buffer) -> str:
    """The same of bytes in memory."""
    return xxhash.xxh3_128_hexdigest(data)
