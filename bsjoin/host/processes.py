"""Process identities that stay unique when process numbers are reused."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple


class ProcessId(NamedTuple):
    """The identity of a process, unique across restarts, containers and machines.

    Args:
        pid: its number in its own namespace.
        begun: its start time, in clock ticks since the machine booted; "0" if unknown.
        space: its PID namespace, which a container has its own.
        machine: the boot id of the machine, the same in all of its containers; a digest of its name
            where there is none.
    """

    pid: int
    begun: str
    space: str
    machine: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of a process of this namespace, alive or not."""
        return cls(pid, _begun(pid), _space(), _machine())

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """The inverse of ``str``.

        Raises:
            ValueError: the text is not an identity.
        """
        pid, begun, space, machine = text.split(".")
        return cls(int(pid), begun, space, machine)

    def __str__(self) -> str:
        return ".".join(map(str, self))

    def is_of_this_machine(self) -> bool:
        """Whether the process runs, or ran, on this boot of this machine."""
        return self.machine == _machine()

    def is_alive(self) -> bool | None:
        """Whether it is alive; None if that is not visible, as in other containers and machines."""
        if not self.is_of_this_machine() or self.space != _space():
            return None
        if not _exists(self.pid):
            return False
        begun = _begun(self.pid)
        # One of two that is not known says nothing: /proc may hide the processes of other users.
        return None if begun != self.begun and "0" in (begun, self.begun) else begun == self.begun


def has_ended(process: str, age_us: int, longest_us: int) -> bool:
    """Whether the process of a mark has ended.

    A clock decides only where the process cannot be seen: it may be wrong.

    Args:
        process: the identity that the mark has; any other text is of a process that is not seen.
        age_us: of the mark, by the clock of this machine; below 0 if that was set back.
        longest_us: how old a mark may be whose process is not seen.
    """
    try:
        owner = ProcessId.parse(process)
    except ValueError:
        return age_us > longest_us
    alive = owner.is_alive()
    # One whose start is unknown may be a later process with its number.
    if alive is None or (alive and owner.begun == "0"):
        return age_us > longest_us
    return not alive


def application() -> int:
    """The process number for which a host keeps the folders of this process.

    Spark's workers are short-lived (an idle one ends after a minute), so for them it is their
    parent: Spark's Python daemon, or the executor. For every other process it is the process
    itself.
    """
    if "pyspark.worker" in sys.modules:
        return os.getppid() or os.getpid()  # 0: the parent is not in this container
    return os.getpid()


def _exists(pid: int) -> bool:
    if os.name == "nt":
        return True  # Windows has no signal that only tests for existence
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _begun(pid: int) -> str:
    try:
        # A /proc that was mounted for another namespace has other process numbers.
        if os.readlink("/proc/self") == str(os.getpid()):
            # In bytes: the name in it is cut to 15 of them, in the middle of a letter at times.
            told = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
            fields = told.decode("ascii").split()
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
    except OSError:  # not Linux
        return hashlib.sha256(platform.node().encode()).hexdigest()[:32]
