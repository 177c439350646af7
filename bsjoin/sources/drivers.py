"""Imports drivers where they are used; the error for a missing one says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from bsjoin.errors import SourceError


def driver(module: str, extra: str) -> Any:
    """Import a driver."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = str(error)
    raise SourceError(
        f"the driver {module.partition('.')[0]!r} cannot be imported here ({missing}): "
        f'pip install "bsjoin[{extra}]" on the driver and on every worker'
    )
