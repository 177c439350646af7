"""Processes, told apart from those that get their number later, elsewhere or after a restart."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessId", "application"]


class ProcessId(NamedTuple):
    """What identifies a process beyond its number.

    Args:
        pid: its number, in its own namespace.
        begun: when it started, in ticks since the machine did; "0" where unknown.
        space: its namespace of process numbers: a container's own.
        machine: this start of this machine, the same in all of its containers.
    """

    pid: int
    begun: str
    space: str
    machine: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of a process of this namespace, whether it lives or not."""
        return cls(pid, _begun(pid), _space(), _machine())

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """The inverse of ``str``. Raises ValueError."""
        pid, begun, space, machine = text.split(".")
        return cls(int(pid), begun, space, machine)

    def __str__(self) -> str:
        return ".".join(map(str, self))

    def is_of_this_machine(self) -> bool:
        """Whether the process runs, or ran, under the kernel that runs this one."""
        return self.machine == _machine()

    def is_alive(self) -> bool | None:
        """Whether it lives; None where that cannot be seen: in other containers and machines."""
        if not self.is_of_this_machine() or self.space != _space():
            return None
        return _exists(self.pid) and _begun(self.pid) == self.begun


def application() -> int:
    """The process for which a host keeps what this process needs.

    Spark's workers come and go, an idle one ends after a minute, so it is their parent: Spark's
    Python daemon, or the executor. Every other process keeps things for itself.
    """
    if "pyspark.worker" in sys.modules:
        return os.getppid() or os.getpid()  # 0: the parent is outside of this container
    return os.getpid()


def _exists(pid: int) -> bool:
    if os.name == "nt":
        return True  # there is no signal that only looks
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _begun(pid: int) -> str:
    try:
        # A /proc that was mounted for another namespace counts processes by other numbers.
        if os.readlink("/proc/self") == str(os.getpid()):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return "ended" if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        pass
    return "0"


def _space() -> str:
    try:
        return "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid"))) or "0"
    except OSError:
        return "0"


@cache
def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        return "0"
