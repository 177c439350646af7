"""CPU shares of processes on one machine: by cgroup where that can be written, and their CPU time.

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

__all__ = ["Shares", "cpu_s"]

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
        self._top, self._limit_file = _writable(root)
        self._made: dict[str, Path] = {}
        if self._top is not None:
            _sweep(self._top)

    @property
    def enforced(self) -> bool:
        """Whether shares are limits that the kernel enforces."""
        return self._top is not None

    @property
    def how(self) -> str:
        """What makes executors fast and slow, for the output."""
        if self._top is None:
            return (
                "by the number of tasks that an executor runs at a time; no cgroup of this machine "
                "can be written, so the shares of CPU are a model"
            )
        return f"by CPU quotas of cgroups (version {2 if self._limit_file == 'cpu.max' else 1})"

    def add(self, name: str, pid: int) -> None:
        """Put a process and all its children into a group; later children inherit it."""
        if self._top is None:
            return
        group = self._group(name)
        for one in _tree(pid):
            with contextlib.suppress(OSError):
                (group / "cgroup.procs").write_text(str(one.pid))

    def limit(self, shares: Mapping[str, float]) -> None:
        """Set the cores that each group may use at most; groups that are left out are not limited.

        Args:
            shares: cores by name of the group, such as 0.15.
        """
        if self._top is None:
            return
        for name, group in self._made.items():
            quota = round(shares[name] * _PERIOD_US) if name in shares else None
            if self._limit_file == "cpu.max":
                text = f"{'max' if quota is None else quota} {_PERIOD_US}"
                (group / "cpu.max").write_text(text)
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def __enter__(self) -> Shares:
        return self

    def __exit__(self, *_: object) -> None:
        self.limit({})  # what is still there ends sooner
        until = time.monotonic() + _PATIENCE_S
        for group in self._made.values():
            while not _removed(group) and time.monotonic() < until:
                time.sleep(0.1)
            if group.is_dir():
                _empty(group)
                _removed(group)
        self._made.clear()

    def _group(self, name: str) -> Path:
        if name not in self._made:
            assert self._top is not None
            group = self._top / f"{_PREFIX}{os.getpid()}_{name}"
            group.mkdir(exist_ok=True)
            self._made[name] = group
        return self._made[name]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, its descendants, and those of them that have ended; 0 without it.

    Seconds may get less when a child that was not waited for ends.
    """
    found = 0.0
    for one in _tree(pid):
        with contextlib.suppress(psutil.Error):
            used = one.cpu_times()
            found += used.user + used.system + used.children_user + used.children_system
    return found


def _tree(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def _writable(root: Path) -> tuple[Path | None, str]:
    """The folder in which groups can be made, and the file of their limit; None if there is none.

    A group is made, and removed again, to see it.
    """
    for top, file in ((root / "cpu", "cpu.cfs_quota_us"), (root, "cpu.max")):
        trial = top / f"{_PREFIX}{os.getpid()}_trial"
        try:
            trial.mkdir()
        except OSError:
            continue
        try:
            if os.access(trial / file, os.W_OK) and os.access(trial / "cgroup.procs", os.W_OK):
                return top, file
        finally:
            _removed(trial)
    return None, ""


def _sweep(top: Path) -> None:
    """Remove the groups of runs that are gone."""
    for group in top.glob(f"{_PREFIX}*"):
        run = group.name.removeprefix(_PREFIX).partition("_")[0]
        if run.isdigit() and not psutil.pid_exists(int(run)):
            _empty(group)
            _removed(group)


def _empty(group: Path) -> None:
    """What is left in a group belongs to the groups' parent again."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.is_dir()
