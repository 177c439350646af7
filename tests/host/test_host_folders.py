"""Folders of a host: private, used by many processes, gone when nobody needs them. All for real."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_samples import CONTAINER, environment, folders, needs_containers, run, running

from bsjoin.errors import StoreAccessError
from bsjoin.host import HostRoot, private_folder, temporary_folder
from bsjoin.host.processes import ProcessId

OTHER = 65_534  # nobody

MAKE = """
import os, sys
from bsjoin.host import temporary_folder
folder = temporary_folder("store")
(folder.path / "rows").write_text("rows")
print(folder.path, flush=True)
"""
# What one of Spark's workers does, and the process that it belongs to.
WORKER = """
import sys, types
sys.modules["pyspark.worker"] = types.ModuleType("pyspark.worker")
from pathlib import Path
from bsjoin.host import HostRoot
folder = HostRoot(Path(sys.argv[1])).use("cache-token")
"""
DAEMON = f"""
import os, subprocess, sys
place = os.environ["TMPDIR"]
subprocess.run([sys.executable, "-c", {WORKER!r}, place], check=True)
print(os.getpid(), flush=True)
"""


def sweep(temp: Path, within: tuple[str, ...] = ()) -> None:
    """What the next application does first."""
    run("from bsjoin.host import temporary_folder\ntemporary_folder('store')", temp, within=within)


@pytest.fixture
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("permissive")
@pytest.mark.parametrize("umask", [0, 0o022, 0o377])
def test_every_folder_that_is_made_is_private(tmp_path: Path, umask: int) -> None:
    os.umask(umask)
    made = HostRoot(tmp_path / "a" / "b").use("store-x").path
    os.umask(0)
    for folder in (made, made / "owners", made.parent, tmp_path / "a" / "b", tmp_path / "a"):
        assert folder.stat().st_mode & 0o777 == 0o700


def plant(folder: Path, what: str) -> None:
    """Put something in a folder's place that must not be trusted."""
    if what == "link":
        elsewhere = folder.with_name("elsewhere")
        elsewhere.mkdir(0o700)
        folder.symlink_to(elsewhere)
    elif what == "file":
        folder.write_text("")
    else:
        folder.mkdir(0o700)
        folder.chmod({"open to all": 0o777, "open to the group": 0o770}.get(what, 0o700))
        if what == "somebody else's":
            os.chown(folder, OTHER, OTHER)


PLANTED = [
    ("link", "is a link to .*elsewhere"),
    ("file", "is not a folder"),
    ("open to all", "mode 0777"),
    ("open to the group", "mode 0770"),
    pytest.param(
        "somebody else's",
        f"belongs to user {OTHER}, and this process runs as user 0",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away"),
    ),
]


@pytest.mark.parametrize(("what", "message"), PLANTED)
def test_a_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, what: str, message: str
) -> None:
    plant(tmp_path / f"bsjoin-{os.geteuid()}", what)
    with pytest.raises(StoreAccessError, match=message) as caught:
        HostRoot(tmp_path).use("store-x")
    assert str(tmp_path) in str(caught.value)
    assert "TMPDIR" in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreAccessError, match=r"cannot create the folder '.*/file/x'.*directory"):
        private_folder(tmp_path / "file" / "x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreAccessError, match="cannot create the folder"):
        private_folder(tmp_path / "dangling" / "x")


def test_a_killed_process_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    with running(MAKE, tmp_path) as (process, folder):
        sweep(tmp_path)
        assert Path(folder, "rows").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        sweep(tmp_path)
        assert not Path(folder).exists()


def test_the_end_of_a_forked_child_leaves_the_folder_with_its_parent(tmp_path: Path) -> None:
    code = MAKE.replace(
        "print", "child = os.fork()\nif not child: sys.exit()\nos.waitpid(child, 0)\nprint"
    )
    with running(code, tmp_path) as (_, folder):
        sweep(tmp_path)
        assert Path(folder, "rows").exists()


@needs_containers
def test_a_folder_in_use_in_another_container_stays_until_that_is_killed(tmp_path: Path) -> None:
    with running(MAKE, tmp_path, within=CONTAINER) as (process, folder):
        assert Path(folder, "rows").exists()
        sweep(tmp_path)
        sweep(tmp_path, CONTAINER)
        assert Path(folder, "rows").exists()
        # The first process of a container takes all others with it.
        os.kill(int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()), 9)
        process.wait()
        assert Path(folder, "rows").exists()
        sweep(tmp_path, CONTAINER)
        assert not Path(folder).exists()


@needs_containers
def test_a_folder_in_use_outside_stays_when_a_container_sweeps(tmp_path: Path) -> None:
    with running(MAKE, tmp_path) as (_, folder):
        sweep(tmp_path, CONTAINER)
        assert Path(folder, "rows").exists()


def test_what_a_worker_used_stays_as_long_as_the_process_it_belongs_to(tmp_path: Path) -> None:
    with running(DAEMON, tmp_path) as (process, pid):
        (cache,) = folders(tmp_path, "cache")  # the worker has ended
        (owner,) = (cache / "owners").iterdir()
        assert owner.name.startswith(f"parent-{pid}.")
        sweep(tmp_path)
        assert cache.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        sweep(tmp_path)
        assert not cache.exists()


@needs_containers
def test_what_a_worker_of_another_container_used_stays_for_an_hour(tmp_path: Path) -> None:
    with running(DAEMON, tmp_path, within=CONTAINER):
        (cache,) = folders(tmp_path, "cache")
        sweep(tmp_path)
        assert cache.exists()
        (owner,) = (cache / "owners").iterdir()
        an_hour_ago = time.time() - 3_601
        os.utime(owner, (an_hour_ago, an_hour_ago))
        sweep(tmp_path)
        assert not cache.exists()


@needs_containers
@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses the number of a process")
def test_a_later_process_of_the_same_number_does_not_keep_a_folder(tmp_path: Path) -> None:
    code = f"""
import os, subprocess, sys
from pathlib import Path
os.environ["TMPDIR"] = {str(tmp_path)!r}
daemon = [sys.executable, "-c", {DAEMON!r} + "sys.stdin.read()"]
first = subprocess.Popen(daemon, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
first.stdout.readline()
from bsjoin.host import HostRoot
first.kill()
first.wait()
(cache,) = Path({str(tmp_path)!r}).glob("*/cache-token")
Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
later = subprocess.Popen(["sleep", "60"])
assert later.pid == first.pid
HostRoot(Path({str(tmp_path)!r})).use("cache-other")
print(cache.exists())
later.kill()
"""
    assert run(code, tmp_path, within=CONTAINER) == "False"


def test_owners_of_an_earlier_start_of_the_machine_count_for_a_week(tmp_path: Path) -> None:
    with running(DAEMON, tmp_path) as (_, pid):
        (cache,) = folders(tmp_path, "cache")
        (owner,) = (cache / "owners").iterdir()
        alive = ProcessId.of(int(pid))
        owner = owner.rename(owner.with_name(f"parent-{alive._replace(machine='another')}"))
        sweep(tmp_path)
        assert cache.exists()
        os.utime(owner, (0, time.time() - 8 * 86_400))
        sweep(tmp_path)
        assert not cache.exists()


def test_without_locks_the_number_and_the_start_of_a_process_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, here = fcntl.flock, threading.get_ident()

    def unsupported(descriptor: int, operation: int) -> None:
        if threading.get_ident() != here:  # a thread that an earlier test has left
            return flock(descriptor, operation)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)  # as on some network file systems
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine, others = temporary_folder("store"), []
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    myself = ProcessId.of(os.getpid())
    for number, owner in enumerate(
        [
            ProcessId.of(process.pid),  # ended
            myself._replace(begun="1"),  # an earlier one of my number
            myself._replace(space="1"),  # in another container
            myself._replace(machine="1"),
        ]
    ):
        others.append(mine.path.with_name(f"store-{number}"))
        (others[-1] / "owners").mkdir(parents=True)
        (others[-1] / "owners" / f"process-{owner}").touch()
    temporary_folder("store")
    assert mine.path.exists()
    assert [other.exists() for other in others] == [False, False, True, True]


def test_a_folder_that_was_removed_is_noticed_and_made_again(tmp_path: Path) -> None:
    root = HostRoot(tmp_path)
    folder = root.use("copies-x")
    assert folder.is_there()
    root.remove("copies-x")
    assert not folder.is_there()
    again = root.use("copies-x")
    assert again.is_there()
    assert not folder.is_there()


def test_the_first_process_places_a_folder_and_the_others_find_it(
    tmp_path: Path,
) -> None:
    root, near, far = (HostRoot(tmp_path / name) for name in ("root", "near", "far"))
    first = root.use("cache-x", place=lambda: near)
    assert first.path.parent == near.path
    assert root.use("cache-x", place=lambda: far).path == first.path
    assert root.use("cache-y", place=lambda: root).path.parent == root.path
    assert root.use("cache-y", place=lambda: far).path.parent == root.path
    root.remove("cache-x")
    assert not first.path.exists()
    assert root.use("cache-x", place=lambda: far).path.parent == far.path


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise RuntimeError"])
def test_a_temporary_folder_goes_when_its_process_ends(tmp_path: Path, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{MAKE}\n{end}"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()).parent.parent == tmp_path
    assert folders(tmp_path) == []
