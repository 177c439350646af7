"""Temporary stores: removed when the application ends, or by the next one if it was killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from bsjoin.store.home import Home

__all__ = ["temporary_home"]

_PREFIX = "bsjoin-store-"


def temporary_home() -> Home:
    """A new folder for one table, which goes when this process ends."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    atexit.register(_remove, folder, os.getpid())
    return Home.of(folder)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not in a child that was forked from the owner
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Remove what applications that were killed have left on this machine."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).split("-", 1)[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and not _alive(int(owner)):
                shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
