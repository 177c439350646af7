"""CPU shares of processes on one machine: by cgroup where that can be written.

Both versions of cgroups are known. Without one that can be written the executors of an experiment
differ by the number of tasks that they run at a time only; :attr:`Shares.how` says which it was.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from benchmarks.harness.machine import tree

ROOT = Path("/sys/fs/cgroup")
_PREFIX = "bsjoin_live_"
_PERIOD_US = 50_000  # short, so that a small share is no pause of a tenth of a second
_PATIENCE_S = 10.0


class Shares:
    """CPU shares of named groups of processes.

    A context manager: groups are made when they are first used, and removed at the end. Those of
    runs that were killed are removed at the beginning.

    Args:
        root: where cgroups are mounted; default ``/sys/fs/cgroup``.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._top, self._version = None, 0  # type: Path | None, int
        self._made: dict[str, Path] = {}
        for version, top, file in ((1, root / "cpu", "cpu.cfs_quota_us"), (2, root, "cpu.max")):
            trial = top / f"{_PREFIX}{os.getpid()}_trial"  # a group is made to see it
            with contextlib.suppress(OSError):
                trial.mkdir()
                if all(os.access(trial / name, os.W_OK) for name in (file, "cgroup.procs")):
                    self._top, self._version = top, version
                trial.rmdir()
            if self._top is not None:
                break
        for group in self._top.glob(f"{_PREFIX}*") if self._top else ():
            run = group.name.removeprefix(_PREFIX).partition("_")[0]
            if run.isdigit() and not psutil.pid_exists(int(run)):
                _remove(group)

    @property
    def enforced(self) -> bool:
        """Whether shares are limits that the kernel enforces."""
        return self._top is not None

    @property
    def how(self) -> str:
        """What makes executors fast and slow, for the output."""
        if self.enforced:
            return f"by CPU quotas of cgroups (version {self._version})"
        return (
            "by the number of tasks that an executor runs at a time; no cgroup of this machine "
            "can be written, so the shares of CPU are a model"
        )

    def add(self, name: str, pid: int) -> None:
        """Put a process and all its children into a group; later children inherit it."""
        if self._top is None:
            return
        if name not in self._made:
            self._made[name] = self._top / f"{_PREFIX}{os.getpid()}_{name}"
            self._made[name].mkdir(exist_ok=True)
        for one in tree(pid):
            with contextlib.suppress(OSError):
                (self._made[name] / "cgroup.procs").write_text(str(one.pid))

    def limit(self, shares: Mapping[str, float]) -> None:
        """Set the cores that each group may use at most; groups that are left out are not limited.

        Args:
            shares: cores by name of the group, such as 0.15.
        """
        for name, group in self._made.items():
            quota = round(shares[name] * _PERIOD_US) if name in shares else None
            if self._version == 2:
                told = "max" if quota is None else quota
                (group / "cpu.max").write_text(f"{told} {_PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def __enter__(self) -> Shares:
        return self

    def __exit__(self, *_: object) -> None:
        self.limit({})  # what is still there ends sooner
        for group in self._made.values():
            _remove(group, _PATIENCE_S)
        self._made.clear()


def _remove(group: Path, patience_s: float = 0.0) -> None:
    """Remove a group; what is left in it after some seconds belongs to its parent again."""
    until = time.monotonic() + patience_s
    while group.is_dir():
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        if time.monotonic() >= until:
            break
        time.sleep(0.1)
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()
