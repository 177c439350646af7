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
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_MARK = "BSJOIN_TEST_RUN_"
_ROOT = Path(__file__).resolve().parent.parent
_GRACE_S, _PAUSE_S = 5.0, 0.1
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
    os.environ[f"{_MARK}{os.getpid()}"] = mark = str(_begun(os.getpid()))
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
    with suppress(BrokenPipeError):
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
    there = {}
    for one in servers:
        if one["pid"] and one["begun"] == _begun(one["pid"]):
            there[psutil.Process(one["pid"])] = one["signal"]
    _end(mark, there)
    for one in servers:
        shutil.rmtree(one["folder"], ignore_errors=True)
    if not any("in_order" in line for line in lines):
        subprocess.run([sys.executable, "-c", _SWEEP], timeout=60, stderr=subprocess.DEVNULL)


def _end(mark: str, servers: dict[psutil.Process, int]) -> None:
    for forced in (False, True):
        asked: set[psutil.Process] = set()
        for _ in range(round(_GRACE_S / _PAUSE_S)):
            if not (left := _processes(mark, servers)):
                return
            for process in left:
                if forced or process not in asked:
                    number = signal.SIGKILL if forced else servers.get(process, signal.SIGTERM)
                    with suppress(psutil.Error):
                        process.send_signal(number)
            asked |= left
            psutil.wait_procs(left, _PAUSE_S)


def _processes(mark: str, servers: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The run's processes that are there, zombies excepted."""
    name, _, value = mark.partition("=")
    found = set(servers)
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another account's
            if process.environ().get(name) == value:
                found.add(process)
    for process in [*found]:
        with suppress(psutil.Error):
            found.update(process.children(recursive=True))
    return {one for one in found if one.pid != os.getpid() and is_alive(one)}


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that has ended may wait for its parent to notice."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _begun(pid: int) -> float | None:
    """When a process began, to tell it from a later one with its number."""
    with suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return None


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _supervise(sys.argv[1])
