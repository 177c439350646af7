"""Temporary stores: removed when the application ends, or by the next one if it was killed."""

from __future__ import annotations

from bsjoin.host import HostFolder, temporary_folder
from bsjoin.storage.location import StorageLocation

_folders: dict[str, HostFolder] = {}  # those of this process, by the URLs of their locations


def temporary_location() -> StorageLocation:
    """A new folder for one table, removed when this process ends."""
    folder = temporary_folder("store")
    location = StorageLocation.of(folder.path)
    _folders[location.url] = folder
    return location


def is_temporary(location: StorageLocation) -> bool:
    """Whether it is such a folder of this process: its name says nothing to a user."""
    return location.url in _folders


def remove_temporary(location: StorageLocation) -> None:
    """Remove such a folder earlier, and let go of the lock that kept it from others."""
    location.remove("")
    folder = _folders.pop(location.url, None)
    if folder is not None:
        folder.remove()
