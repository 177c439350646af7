"""Ends what a run of the tests or benchmarks has started, however the run itself ends.

A run starts this file as a process of its own, and keeps a pipe to it. Whatever ends the run,
SIGKILL included, closes the pipe. Then the supervisor ends, first politely:

- all processes that have the run's mark in their environment, which is inherited: JVMs, workers,
  programs that tests start, other processes of the run;
- servers that the run has named, since these write their titles over their environment;
- the descendants of both;

and removes the folders of the servers, and those of bsjoin whose processes were killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["forget", "start", "watch"]

_MARK = "BSJOIN_TEST_RUN_"
_ROOT = Path(__file__).resolve().parent.parent
_GRACE_S = 5.0
_PROC = Path("/proc")
_SWEEP = """
import sys, tempfile
from pathlib import Path
from bsjoin.host import folders
for parent in (tempfile.gettempdir(), "/dev/shm"):
    root = folders.HostRoot(Path(parent))
    if root.path.is_dir():
        with folders._locked(root.path):
            root._sweep()
"""

_running: subprocess.Popen[bytes] | None = None
_running_for = 0


def start() -> None:
    """Begin to supervise this process, unless that is so already."""
    global _running, _running_for
    if _running_for == os.getpid():
        return
    own = {name: value for name, value in os.environ.items() if not name.startswith(_MARK)}
    os.environ[f"{_MARK}{os.getpid()}"] = mark = _begun(os.getpid()) or "?"
    # Ctrl-C reaches the terminal's processes, and not this one.
    _running = subprocess.Popen(
        [sys.executable, "-I", __file__, f"{_MARK}{os.getpid()}={mark}"],
        stdin=subprocess.PIPE, env=own, cwd=_ROOT, start_new_session=True,
    )  # fmt: skip
    _running_for = os.getpid()
    # It outlives this process, and Python would say so at the end.
    atexit.register(warnings.simplefilter, "ignore", ResourceWarning)


def watch(folder: Path, process: int | None = None, end: int = signal.SIGTERM) -> None:
    """End a server, and remove its folder, when this process has ended.

    Args:
        folder: all its files.
        process: the server's; None (default) before it is started.
        end: the signal that ends it, and all that it has started.
    """
    start()
    begun = None if process is None else _begun(process)
    _tell(folder=str(folder), pid=process, begun=begun, signal=int(end))


def forget(folder: Path) -> None:
    """A server has ended and its folder is gone."""
    if _running_for == os.getpid():
        _tell(gone=str(folder))


def leave_in_order() -> None:
    """This process ends as it is meant to: what it has made it removes itself."""
    if _running_for == os.getpid():
        _tell(in_order=True)


def _tell(**line: object) -> None:
    assert _running is not None
    assert _running.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        _running.stdin.write(json.dumps(line).encode() + b"\n")
        _running.stdin.flush()


def _supervise(mark: str) -> None:
    parent, given = os.getppid(), b""
    # A forked child of the run may keep the pipe open.
    while os.getppid() == parent:
        if not select.select([0], [], [], 0.5)[0]:
            continue
        if not (more := os.read(0, 1 << 16)):
            break
        given += more
    lines = [json.loads(line) for line in given.splitlines()]
    gone = {line["gone"] for line in lines if "gone" in line}
    servers = [line for line in lines if "folder" in line and line["folder"] not in gone]
    there = {one["pid"]: one for one in servers if one["pid"]}
    there = {pid: one for pid, one in there.items() if one["begun"] == _begun(pid)}
    _end(mark.encode(), {pid: one["signal"] for pid, one in there.items()})
    for folder in {one["folder"] for one in servers}:
        shutil.rmtree(folder, ignore_errors=True)
    if not any("in_order" in line for line in lines):
        subprocess.run([sys.executable, "-c", _SWEEP], timeout=60, stderr=subprocess.DEVNULL)


def _end(mark: bytes, servers: dict[int, int]) -> None:
    asked: set[int] = set()
    until = time.monotonic() + _GRACE_S
    while (left := set(_processes(mark, servers))) and time.monotonic() < until:
        for pid in left - asked:
            _send(pid, servers.get(pid, signal.SIGTERM))
        asked |= left
        time.sleep(0.05)
    until = time.monotonic() + _GRACE_S
    while (left := set(_processes(mark, servers))) and time.monotonic() < until:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _processes(mark: bytes, servers: Iterable[int]) -> Iterator[int]:
    """The run's processes that are there, zombies excepted."""
    parents, wanted = {}, set(servers)
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = _status(int(entry.name))[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    wanted.add(int(entry.name))
    if not _PROC.is_dir():  # a system without it: the servers alone
        yield from (pid for pid in wanted if _is_there(pid))
    for pid in parents:
        above = pid
        while above in parents and above not in wanted:
            above = parents[above]
        if above in wanted and pid != os.getpid():
            yield pid


def _status(pid: int) -> list[str]:
    """The fields of a process behind its name: state, parent and so on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _begun(pid: int) -> str | None:
    """When a process began, to tell it from a later one with its number."""
    with contextlib.suppress(OSError):
        return _status(pid)[19]
    return None


def _is_there(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _supervise(sys.argv[1])
