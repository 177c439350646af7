"""Where a figure was measured: the machine, the versions, the state of the code."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["CODE", "PACKAGES", "commit", "machine", "versions"]

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = ("bsjoin", "pyspark", "pyarrow", "numpy", "pandas", "duckdb", "polars")

CODE = ("bsjoin", "scheduling", "benchmarks")
"""The folders whose uncommitted changes make a figure another one."""


@lru_cache
def machine() -> dict[str, Any]:
    """Cores, memory (GiB), architecture, processor, Python and Java; None for what is unknown."""
    try:
        memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError):
        memory_gb = 0.0
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory_gb, 1) or None,
        "machine": platform.machine(),
        "cpu": _processor(),
        "python": platform.python_version(),
        "java": _java(),
    }


def _processor() -> str | None:
    try:
        told = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or None
    named = re.search(r"(?m)^model name\s*:\s*(.+)$", told)
    return named[1].strip() if named else platform.processor() or None


def _java() -> str | None:
    """The version of the Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not program:
        return None
    try:
        told = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    named = re.search(r'version "([^"]+)"', told)
    return named[1] if named else None


@lru_cache
def versions() -> dict[str, str]:
    """The versions of what is compared, by package; those that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit(root: Path = ROOT) -> str | None:
    """The commit of the code; with ``+`` and a hash of the changes where it has some; None if none.

    Two runs with the same answer ran the same code. Only changes of :data:`CODE` count.
    """
    head = _git(root, "rev-parse", "HEAD")
    if head is None:
        return None
    changed = _git(root, "diff", "HEAD", "--", *CODE) or ""
    fresh = _git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE) or ""
    if not changed and not fresh:
        return head
    digest = hashlib.sha256(changed.encode())
    for name in fresh.splitlines():
        digest.update(name.encode())
        file = root / name
        digest.update(file.read_bytes() if file.is_file() else b"")
    return f"{head}+{digest.hexdigest()[:8]}"


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None
