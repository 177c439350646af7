"""Puts the jar of the JVM runtime into the wheel; `make wheel` builds it.

It is compiled by the JDK's javac against the PySpark of this Python. Without one of them, as in an
isolated build, the wheel has no jar, and the joins of its users run in Python workers.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface[Any]):
    """Compiles the jar before a wheel is packed; an editable installation makes it when needed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run ``python -m bsjoin._spark.jvm.jar``, which writes it beside its sources."""
        if version == "editable":
            return
        command = [sys.executable, "-m", "bsjoin._spark.jvm.jar"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1]
            self.app.display_warning(f"the wheel has no jar for Spark's JVM: {reason}")
