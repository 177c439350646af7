"""Tables that stay where they are: in a database, in files, in Redis, behind a function.

A worker imports the driver of the source that it asks, and no other.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bsjoin.sources.protocol import Source

if TYPE_CHECKING:
    from bsjoin.sources.callback import function
    from bsjoin.sources.database import sql
    from bsjoin.sources.files import parquet
    from bsjoin.sources.keyvalue import redis

__all__ = ["Source", "function", "parquet", "redis", "sql"]

# No module is named like a function: importing it would hide the function.
_HOMES = {
    "function": "bsjoin.sources.callback",
    "parquet": "bsjoin.sources.files",
    "redis": "bsjoin.sources.keyvalue",
    "sql": "bsjoin.sources.database",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bsjoin.sources' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
