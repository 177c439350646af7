"""Temporary stores: removed when the application ends, or by the next one if it was killed."""

from __future__ import annotations

from bsjoin.host import temporary_folder
from bsjoin.store.home import Home

__all__ = ["temporary_home"]


def temporary_home() -> Home:
    """A new folder for one table, which goes when this process ends."""
    return Home.of(temporary_folder("store").path)
