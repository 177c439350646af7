"""Archives, as any Python that is supported unpacks them."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, to: Path) -> None:
    """Write its files; with Python's filter where it has one, as the newest bugfix releases."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(to, filter="data")
    else:
        archive.extractall(to)
