"""bsjoin: join a PySpark stream with a big table.

The cost per micro-batch does not grow with the table. Start with :func:`join`; keep a table of
your own with :class:`BatchTable`, or leave it where it is with :mod:`bsjoin.sources`; watch a
query with :func:`progress`, and see how a join runs with :func:`explain`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bsjoin import errors
from bsjoin._version import __version__ as __version__
from bsjoin.errors import BSJoinError

if TYPE_CHECKING:
    from bsjoin import sources
    from bsjoin._api import join
    from bsjoin._cycles import Cycles, cycles
    from bsjoin._progress import progress
    from bsjoin._progress_records import (
        CacheProgress,
        CycleProgress,
        PartitionProgress,
        PlacementProgress,
    )
    from bsjoin._refreshes import RefreshProgress
    from bsjoin._reporting import reporting
    from bsjoin._spark.chain import explain
    from bsjoin._spark.jvm.jar import jar
    from bsjoin.conditions import AsOf, Band, Overlaps, Within
    from bsjoin.hotspot import Hash, HotSpot
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
    "Cycles",
    "Full",
    "Hash",
    "HotSpot",
    "Incremental",
    "Overlaps",
    "PartitionProgress",
    "PlacementProgress",
    "RefreshProgress",
    "Stats",
    "Version",
    "Within",
    "cycles",
    "errors",
    "explain",
    "jar",
    "join",
    "progress",
    "reporting",
    "sources",
]

# Imported when first used: a Spark worker needs none of them, and starts the sooner.
_HOMES = {
    "AsOf": "bsjoin.conditions",
    "Band": "bsjoin.conditions",
    "BatchTable": "bsjoin.table",
    "CacheProgress": "bsjoin._progress_records",
    "CycleProgress": "bsjoin._progress_records",
    "Cycles": "bsjoin._cycles",
    "Full": "bsjoin.options",
    "Hash": "bsjoin.hotspot",
    "HotSpot": "bsjoin.hotspot",
    "Incremental": "bsjoin.options",
    "Overlaps": "bsjoin.conditions",
    "PartitionProgress": "bsjoin._progress_records",
    "PlacementProgress": "bsjoin._progress_records",
    "RefreshProgress": "bsjoin._refreshes",
    "Stats": "bsjoin.store",
    "Version": "bsjoin.table",
    "Within": "bsjoin.conditions",
    "cycles": "bsjoin._cycles",
    "explain": "bsjoin._spark.chain",
    "jar": "bsjoin._spark.jvm.jar",
    "join": "bsjoin._api",
    "progress": "bsjoin._progress",
    "reporting": "bsjoin._reporting",
}


def __getattr__(name: str) -> Any:
    if name == "sources":
        return importlib.import_module("bsjoin.sources")
    if name not in _HOMES:
        raise AttributeError(f"module 'bsjoin' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "sources"})
