"""Temporary stores: removed when the application ends, or by the next one if it was killed."""

from __future__ import annotations

from bsjoin.host import temporary_folder
from bsjoin.storage.location import StorageLocation


def temporary_location() -> StorageLocation:
    """A new folder for one table, removed when this process ends."""
    return StorageLocation.of(temporary_folder("store").path)
