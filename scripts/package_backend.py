"""The build backend: Hatchling, and the Spark that the jar is compiled against where one is needed.

A build in isolation has nothing but what its backend asks for. Spark is 450 MB, so it is asked for
only by a checkout that has a compiler; not by an editable installation, nor where the jar is there
already, as in a source distribution.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_jar import compiling
from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What must be installed to build a wheel."""
    return [*hatchling.get_requires_for_build_wheel(config_settings), *_spark()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What must be installed to build a source distribution."""
    return [*hatchling.get_requires_for_build_sdist(config_settings), *_spark()]


def _spark() -> list[str]:
    jars = compiling(Path.cwd())
    is_there = jars.build_of(jars.PACKAGED) == jars.build_of_sources()
    # Without a compiler the build fails, and says so; no need to download anything before.
    return [] if is_there or jars.javac() is None or jars.spark_jars() else ["pyspark>=4.1"]
