"""The order of the tests: files at random, by a seed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

__all__ = ["TESTS", "TOGETHER", "shuffle"]

TESTS = Path(__file__).resolve().parent
# Files of these folders run in one process, which starts the servers that they share.
TOGETHER = ("sources",)


def shuffle(items: list[pytest.Item], order: str, seed: str) -> None:
    """Order the files, or the tests in them too, at random; files and folders stay together."""

    def drawn(name: object) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    def file_of(item: pytest.Item) -> tuple[bytes, bytes]:
        folder = item.path.parent
        group = folder if folder.name in TOGETHER else item.path
        return drawn(os.path.relpath(group, TESTS)), drawn(item.path.name)

    if order == "tests":
        items.sort(key=lambda item: drawn(item.nodeid))
    if order != "written":
        items.sort(key=file_of)
