"""All processes of a host find one cache, whatever room there is and whatever is temporary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import pytest
from host_samples import MOUNTS, environment, folders, needs_containers
from test_shared_processes import work

from bsjoin.cache import cache_folder
from bsjoin.errors import StoreAccessError

FILL = Path("/dev/shm/others")
KEYS = 400
OWN = "import sys, test_shared_places as t; t"


def test_a_cache_is_stored_in_the_folder_of_its_options(tmp_path: Path) -> None:
    folder = cache_folder("x", str(tmp_path / "cache"))
    assert folder.path == tmp_path / "cache" / f"bsjoin-{os.geteuid()}" / "cache-x"
    assert cache_folder("x", str(tmp_path / "cache")).path == folder.path
    folder.path.chmod(0o777)
    with pytest.raises(StoreAccessError, match="mode 0777"):
        cache_folder("x", str(tmp_path / "cache"))


@needs_containers
@pytest.mark.parametrize("scenario", ["room_comes_back", "room_changes_while_many_begin"])
def test_the_room_in_memory_decides_once(tmp_path: Path, scenario: str) -> None:
    """With a memory file system of its own that has just above 1 GiB."""
    done = subprocess.run(
        [
            *(*MOUNTS, "sh", "-ec"),
            'mount -t tmpfs -o size=1026m,mode=1777 bsjoin /dev/shm; exec "$@"',
            *("sh", sys.executable, "-c", f"{OWN}.{scenario}(t.Path(sys.argv[1]))", str(tmp_path)),
        ],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def fill() -> None:
    """Leave a little less room than 1 GiB."""
    descriptor = os.open(FILL, os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(descriptor, 0, 3 << 20)
    os.close(descriptor)


class Worker:
    """A process with its own folder for temporary files, which waits to be told to begin."""

    def __init__(self, folder: Path, number: int):
        self.temp = folder / f"container {number}"
        self.temp.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{OWN}.look_up({number})"],
            env=environment(self.temp),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    @cached_property
    def told(self) -> tuple[Path, list[int]]:
        """Where its cache lies, and the keys that it asked the source for; it goes on living."""
        assert self._process.stdout is not None
        folder, asked = json.loads(self._process.stdout.readline())
        return Path(folder), asked

    def end(self) -> None:
        self._process.communicate()


def look_up(seed: int) -> None:
    sys.stdin.readline()
    folder = cache_folder("token", None)
    asked = work(folder.path, seed, 5, None, KEYS)
    print(json.dumps([str(folder.path), asked]), flush=True)
    sys.stdin.read()


def check_together(workers: list[Worker]) -> Path:
    """They agree on one cache and have asked for each key once; where it lies."""
    (folder,) = {worker.told[0] for worker in workers}
    asked = [key for worker in workers for key in worker.told[1]]
    assert len(asked) == len(set(asked)) > 0
    made = [path for worker in workers for path in folders(worker.temp, "cache")]
    made += [path for path in folders(Path("/dev/shm"), "cache") if not path.is_symlink()]
    assert made == [folder]
    for worker in workers:
        worker.end()
    return folder


def room_comes_back(folder: Path) -> None:
    fill()
    first, second = Worker(folder, 1), Worker(folder, 2)
    first.begin()
    assert first.told
    FILL.unlink()
    second.begin()
    assert first.temp in check_together([first, second]).parents


def room_changes_while_many_begin(folder: Path) -> None:
    workers = [Worker(folder, number) for number in range(4)]
    for worker in workers:
        worker.begin()
    with ThreadPoolExecutor() as pool:
        told = [pool.submit(lambda worker: worker.told, worker) for worker in workers]
        while not all(one.done() for one in told):
            fill()
            time.sleep(0.001)
            FILL.unlink()
            time.sleep(0.001)
    check_together(workers)
