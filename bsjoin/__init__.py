"""bsjoin: join a PySpark stream with a big table.

The cost per micro-batch does not grow with the table. Start with :func:`join`; keep a table of
your own with :class:`BatchTable`, or leave it where it is with :mod:`bsjoin.sources`; watch a
query with :func:`progress` or :func:`dashboard`, and see how a join runs with :func:`explain`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bsjoin import errors
from bsjoin._version import __version__ as __version__
from bsjoin.errors import BSJoinError

if TYPE_CHECKING:
    from bsjoin import functions, kafka, monitoring, sources
    from bsjoin._cycles import Cycles, cycles
    from bsjoin._join import join
    from bsjoin._reporting import reporting
    from bsjoin.conditions import AsOf, Band, Overlaps, Within
    from bsjoin.metrics.progress import progress
    from bsjoin.metrics.records import (
        CacheProgress,
        CycleProgress,
        PartitionProgress,
        PlacementProgress,
    )
    from bsjoin.metrics.refreshes import RefreshProgress
    from bsjoin.monitoring.dashboard import dashboard
    from bsjoin.options import Full, Incremental
    from bsjoin.partitioning import Hash, HotSpot
    from bsjoin.planner.chain import explain
    from bsjoin.runtimes.jvm.jar import jar
    from bsjoin.storage import SourceVersion, Stats
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
    "SourceVersion",
    "Stats",
    "Version",
    "Within",
    "cycles",
    "dashboard",
    "errors",
    "explain",
    "functions",
    "jar",
    "join",
    "kafka",
    "monitoring",
    "progress",
    "reporting",
    "sources",
]

# Imported when first used: a Spark worker needs none of them, and starts the sooner.
_HOMES = {
    name: home
    for home, names in {
        "bsjoin._cycles": "Cycles cycles",
        "bsjoin._join": "join",
        "bsjoin._reporting": "reporting",
        "bsjoin.conditions": "AsOf Band Overlaps Within",
        "bsjoin.metrics.progress": "progress",
        "bsjoin.metrics.records": "CacheProgress CycleProgress PartitionProgress PlacementProgress",
        "bsjoin.metrics.refreshes": "RefreshProgress",
        "bsjoin.monitoring.dashboard": "dashboard",
        "bsjoin.options": "Full Incremental",
        "bsjoin.partitioning": "Hash HotSpot",
        "bsjoin.planner.chain": "explain",
        "bsjoin.runtimes.jvm.jar": "jar",
        "bsjoin.storage": "SourceVersion Stats",
        "bsjoin.table": "BatchTable Version",
    }.items()
    for name in names.split()
}
_MODULES = {"functions", "kafka", "monitoring"}
_WITHOUT_SPARK = {
    "bsjoin.conditions",
    "bsjoin.metrics.records",
    "bsjoin.metrics.refreshes",
    "bsjoin.options",
    "bsjoin.partitioning",
    "bsjoin.storage",
}


def __getattr__(name: str) -> Any:
    if name == "sources":
        return importlib.import_module("bsjoin.sources")
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'bsjoin' has no attribute {name!r}")
    if _HOMES.get(name) not in _WITHOUT_SPARK:
        importlib.import_module("bsjoin.spark")  # which says what to do where there is none
    if name in _MODULES:
        return importlib.import_module(f"bsjoin.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES, "sources"})
