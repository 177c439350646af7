"""External tables: in a database, a lake, Parquet files, Redis, or behind a Python function.

A worker imports only the driver of the source that it queries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bsjoin.sources.protocol import Source

if TYPE_CHECKING:
    from bsjoin.sources.callback import function
    from bsjoin.sources.databases.adbc import adbc
    from bsjoin.sources.databases.database import sql
    from bsjoin.sources.keyvalue import redis
    from bsjoin.sources.lakes.delta import delta
    from bsjoin.sources.lakes.iceberg import iceberg
    from bsjoin.sources.parquet_files.source import parquet

__all__ = ["Source", "adbc", "delta", "function", "iceberg", "parquet", "redis", "sql"]

# No module has the name of a function: importing it would hide the function.
_MODULES = {
    "adbc": "bsjoin.sources.databases.adbc",
    "delta": "bsjoin.sources.lakes.delta",
    "function": "bsjoin.sources.callback",
    "iceberg": "bsjoin.sources.lakes.iceberg",
    "parquet": "bsjoin.sources.parquet_files.source",
    "redis": "bsjoin.sources.keyvalue",
    "sql": "bsjoin.sources.databases.database",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'bsjoin.sources' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
