"""Publishing: where to, and again where another one was first."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pyspark.sql import SparkSession

from bsjoin.errors import ArgumentError, DamagedTableError, StoreError, suggest
from bsjoin.spark.compat import failures
from bsjoin.spark.session import active_session
from bsjoin.storage import Manifest, StorageLocation, versions
from bsjoin.storage.versioned_folder import Superseded

Result = TypeVar("Result")

SHARED = "spark.bsjoin.storage.shared"
"""The setting that says that other machines have the folders of tables, whatever their disks."""

_SWITCH = ("true", "false")
_TRIES = 20
_PAUSE_S = 0.05


def stored_at(path: str | os.PathLike[str], spark: SparkSession | None = None) -> StorageLocation:
    """The location of a table that this application may write to.

    The settings of the session count; None (default): of the active one, if there is any.

    Raises:
        ArgumentError: the setting :data:`SHARED` has an unknown value.
        StoreError: the path cannot be used, or only this process has it.
    """
    location = StorageLocation.of(path)
    location.check_shared()
    try:
        given = (spark or active_session()).conf.get(SHARED, "false")
    except ArgumentError:  # there is none
        return location
    except failures():  # it has gone
        return location
    shared = str(given).strip().lower()
    if shared not in _SWITCH:
        raise ArgumentError(f"{SHARED}={shared!r} is not known. {suggest(shared, _SWITCH)}")
    return replace(location, is_shared=shared == "true")


def repeated(
    location: StorageLocation, attempt: Callable[[Manifest], Result], called: str
) -> Result:
    """Call an attempt with the newest version, and again while others publish before it does.

    It publishes what it makes with that version as its parent. That version may also be removed
    meanwhile, with its files. ``called`` is what is done to the table, for the error message:
    "changed".

    Raises:
        StoreError: another version came first each time.
    """
    for _ in range(_TRIES):
        newest = versions.latest(location)
        try:
            return attempt(newest)
        except Superseded:
            time.sleep(random.random() * _PAUSE_S)
        except DamagedTableError:
            if versions.is_there(location, newest):
                raise
    raise StoreError(
        f"the table in {str(location)!r} could not be {called}: others have published {_TRIES} "
        "versions meanwhile. Do it again when fewer write to it"
    )
