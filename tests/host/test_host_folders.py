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
from bsjoin.host import HostRoot, private_folder, processes, temporary_folder
from bsjoin.host.processes import ProcessId
from bsjoin.storage.temporary import temporary_location

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
def test_every_folder_that_is_made_is_private(tmp_path: Path) -> None:
    os.umask(0o377)
    made = HostRoot(tmp_path / "a" / "b").use("store-x").path
    os.umask(0)
    made_too = HostRoot(tmp_path / "c").use("store-x").path
    for folder in (made, made / "owners", made.parent, tmp_path / "a", made_too, made_too.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"bsjoin-{os.geteuid()}"

    def refused(message: str) -> None:
        with pytest.raises(StoreAccessError, match=message) as caught:
            HostRoot(tmp_path).use("store-x")
        assert str(tmp_path) in str(caught.value)
        assert "TMPDIR" in str(caught.value)

    folder.symlink_to(tmp_path / "elsewhere")
    refused("is a link to .*elsewhere")
    folder.unlink()
    folder.write_text("")
    refused("is not a folder")
    folder.unlink()
    folder.mkdir()
    for mode in (0o777, 0o770):
        folder.chmod(mode)
        refused(f"mode 0{mode:o}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(StoreAccessError, match="mode 0770"):
        temporary_location()  # of a store
    folder.chmod(0o700)
    if os.geteuid() == 0:  # only root gives folders away
        os.chown(folder, OTHER, OTHER)
        refused(f"belongs to user {OTHER}, and this process runs as user 0")
        os.chown(folder, 0, 0)
    one, other = temporary_location(), temporary_location()
    one.create("versions/1", b"")
    assert other.names("versions") == []
    assert one.is_local
    assert Path(one.url).parent == folder


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreAccessError, match=r"cannot create the folder '.*/file/x'.*directory"):
        private_folder(tmp_path / "file" / "x")


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


def test_owners_of_another_container_or_machine_count_for_a_while(tmp_path: Path) -> None:
    """An hour for a container, and a week for an earlier start of the machine."""
    with running(DAEMON, tmp_path) as (_, pid):
        (cache,) = folders(tmp_path, "cache")
        (owner,) = (cache / "owners").iterdir()
        alive = ProcessId.of(int(pid))
        for other, counts_s in (
            (alive._replace(space="1"), 3_600),
            (alive._replace(machine="another"), 7 * 86_400),
        ):
            owner = owner.rename(owner.with_name(f"parent-{other}"))
            for age_s, stays in ((counts_s - 60, True), (counts_s + 60, False)):
                os.utime(owner, (0, time.time() - age_s))
                HostRoot(tmp_path).use(f"other-{counts_s}-{age_s}")
                assert cache.exists() == stays
                if not stays:
                    owner.parent.mkdir(parents=True)
                    owner.touch()


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


def test_the_first_process_places_a_folder_and_the_others_find_it(tmp_path: Path) -> None:
    root, near, far = (HostRoot(tmp_path / name) for name in ("root", "near", "far"))
    first = root.use("cache-x", place=lambda: near)
    assert first.path.parent == near.path
    assert root.use("cache-x", place=lambda: far).path == first.path
    assert root.use("cache-y", place=lambda: root).path.parent == root.path
    assert root.use("cache-y", place=lambda: far).path.parent == root.path
    # One that was removed is noticed, and made again.
    assert first.is_there()
    root.remove("cache-x")
    assert not first.is_there()
    assert not first.path.exists()
    again = root.use("cache-x", place=lambda: far)
    assert again.is_there()
    assert again.path.parent == far.path


def test_machines_without_a_boot_id_are_told_apart_by_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    found = []
    for name in ("one", "other"):
        monkeypatch.setattr("platform.node", lambda name=name: name)
        found.append(processes._machine.__wrapped__())
    assert found[0] != found[1]
    assert all(one.isalnum() for one in found)  # as part of a file's name


def test_a_process_whose_start_is_not_known_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of other users, which /proc may hide."""
    known = ProcessId.of(os.getpid())
    unknown = known._replace(begun="0")
    assert (known.is_alive(), unknown.is_alive()) == (True, None)
    monkeypatch.setattr(processes, "_begun", lambda _: "0")
    assert (known.is_alive(), unknown.is_alive()) == (None, True)
    assert [processes.has_ended(str(known), age, 2) for age in (1, 3)] == [False, True]


def test_the_name_of_a_process_may_end_in_the_middle_of_a_letter(tmp_path: Path) -> None:
    """As that of a script with a long name: the kernel keeps 15 bytes."""
    rename = "open('/proc/self/comm', 'wb').write('プログラム'.encode()[:14])\n"
    with running(rename + MAKE, tmp_path) as (process, folder):
        assert ProcessId.of(process.pid).is_alive()
        sweep(tmp_path)
        assert Path(folder, "rows").exists()


def test_a_temporary_folder_goes_when_its_process_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{MAKE}\nraise RuntimeError"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()).parent.parent == tmp_path
    assert folders(tmp_path) == []
