"""Puts the jar of the JVM runtime into the wheel and into the source distribution.

A source distribution has it already, so that its wheel needs neither a JDK nor Spark. In a checkout
it is compiled. Where that is impossible nothing is built: a package without the jar would be slow
for all its users.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def compiling(root: Path) -> ModuleType:
    """The module that compiles the jar, alone: what the package imports is not there."""
    file = root / "bsjoin" / "runtimes" / "jvm" / "compiling.py"
    spec = spec_from_file_location("bsjoin_compiling", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class JarHook(BuildHookInterface[Any]):
    """Adds the jar before a package is made; an editable installation compiles it when needed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Find the jar or compile it into ``build``; end the program with one sentence if not."""
        if version == "editable":
            return
        root = Path(self.root)
        jars = compiling(root)
        place: Path = jars.PACKAGED
        if jars.build_of(place) != jars.build_of_sources():
            place = root / "build" / place.name
            place.parent.mkdir(exist_ok=True)
            try:
                jars.compile_into(place)
            except (jars.JarError, OSError) as error:
                sys.exit(f"bsjoin cannot be packaged: {error}.")
        build_data["force_include"][str(place)] = str(jars.PACKAGED.relative_to(root))
