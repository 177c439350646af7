"""Where a figure was measured: the machine, versions, the state of the code; what processes use."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]

_CODE = (
    "benchmarks", "bsjoin", "scheduling", "examples/road_data.py", "examples/_kafka.py",
    *(f"tests/{name}.py" for name in ("real_time_queries", "servers", "standalone", "supervisor")),
    ":(exclude)benchmarks/figures.json",
)  # fmt: skip
PACKAGES = ("bsjoin", "pyspark", "pyarrow", "numpy", "pandas", "duckdb", "polars")


@lru_cache
def machine() -> dict[str, Any]:
    """Cores, memory (GiB), architecture, processor, Python and Java; None for what is unknown."""
    cpu = None
    with contextlib.suppress(OSError):
        cpu = re.search(r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"))
    home = os.environ.get("JAVA_HOME")
    java = _output(os.path.join(home, "bin", "java") if home else "java", "-version")
    named = re.search(r'version "([^"]+)"', java or "")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "machine": platform.machine(),
        "cpu": cpu[1].strip() if cpu else platform.processor() or None,
        "python": platform.python_version(),
        "java": named[1] if named else None,
    }


@lru_cache
def versions() -> dict[str, str]:
    """The versions of the compared packages; those that are not installed are left out."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def commit(root: Path = ROOT) -> str | None:
    """The commit, with ``+`` if files of the code differ from it or are new; None if unknown."""
    git = ("git", "-C", str(root))
    head = _output(*git, "rev-parse", "HEAD")
    changes = _output(*git, "status", "--porcelain", "--untracked-files=all", "--", *_CODE)
    return None if head is None or changes is None else head + "+" * bool(changes)


def tree(pid: int | None = None) -> list[psutil.Process]:
    """A process, this one by default, and all that it has started; none if it has ended."""
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def cpu_s(pid: int | None = None) -> float:
    """Seconds of CPU that a process and all that it has started have used so far.

    They may get less when a child that was not waited for ends.
    """
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def anonymous_bytes(process: psutil.Process | None = None) -> int:
    """A process's memory without pages of files, which are in the page cache, once per host.

    (The "unique set size" counts a page of a file as private while only one process has it mapped.)
    """
    used = (process or psutil.Process()).memory_info()
    return int(used.rss - used.shared)


def _output(*command: str) -> str | None:
    """What a program prints; None if it fails."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return None
