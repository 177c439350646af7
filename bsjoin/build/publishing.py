"""Publishing what is made from the newest version: again, where another one was first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from bsjoin.errors import StoreError
from bsjoin.storage import Manifest, StorageLocation, versions
from bsjoin.storage.versioned_folder import Superseded

__all__ = ["repeated"]

Result = TypeVar("Result")

_TRIES = 20
_PAUSE_S = 0.05


def repeated(
    location: StorageLocation, attempt: Callable[[Manifest], Result], called: str
) -> Result:
    """Call an attempt with the newest version, and again while others publish before it does.

    It publishes what it makes with that version as its parent. ``called`` is what is done to the
    table, for the error message: "changed".

    Raises:
        StoreError: another version came first each time.
    """
    for _ in range(_TRIES):
        try:
            return attempt(versions.latest(location))
        except Superseded:
            time.sleep(random.random() * _PAUSE_S)
    raise StoreError(
        f"the table in {str(location)!r} could not be {called}: others have published {_TRIES} "
        "versions meanwhile. Do it again when fewer write to it"
    )
