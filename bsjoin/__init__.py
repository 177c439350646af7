"""bsjoin: join a PySpark stream with a big table.

The cost per micro-batch does not grow with the table. Start with :func:`join`; keep a table of
your own with :class:`BatchTable`, or leave it where it is with :mod:`bsjoin.sources`; watch a
query with :func:`progress`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bsjoin import errors
from bsjoin.errors import BSJoinError

if TYPE_CHECKING:
    from bsjoin import sources
    from bsjoin._api import join
    from bsjoin._spark.metrics import CacheProgress, CycleProgress, progress
    from bsjoin.conditions import AsOf, Band, Overlaps, Within
    from bsjoin.options import Full, Incremental
    from bsjoin.store import Stats
    from bsjoin.table import BatchTable, Version

__all__ = [
    "AsOf",
    "BSJoinError",
    "Band",
    "BatchTable",
    "CacheProgress",
    "CycleProgress",
    "Full",
    "Incremental",
    "Overlaps",
    "Stats",
    "Version",
    "Within",
    "errors",
    "join",
    "progress",
    "sources",
]

__version__ = "0.1.0"

# Imported when first used: a Spark worker needs none of them, and starts the sooner.
_HOMES = {
    "AsOf": "bsjoin.conditions",
    "Band": "bsjoin.conditions",
    "BatchTable": "bsjoin.table",
    "CacheProgress": "bsjoin._spark.metrics",
    "CycleProgress": "bsjoin._spark.metrics",
    "Full": "bsjoin.options",
    "Incremental": "bsjoin.options",
    "Overlaps": "bsjoin.conditions",
    "Stats": "bsjoin.store",
    "Version": "bsjoin.table",
    "Within": "bsjoin.conditions",
    "join": "bsjoin._api",
    "progress": "bsjoin._spark.metrics",
}


def __getattr__(name: str) -> Any:
    if name == "sources":
        return importlib.import_module("bsjoin.sources")
    if name not in _HOMES:
        raise AttributeError(f"module 'bsjoin' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "sources"})
