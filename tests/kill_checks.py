"""Kills a process that applies changes, or compacts, between any two operations on files.

``python tests/kill_checks.py FOLDER [EVERY]``: of the operations every one, or every third, say;
children of this process, which has started no thread, are killed later each time; after each, a
version is there, and the changes are applied once when they come again. Prints how many operations
there are, about.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from layer_samples import Form, Sample

from bsjoin.storage import StorageLocation, builds, versions
from bsjoin.storage.layers.applying import with_changes
from bsjoin.storage.layers.compacting import compacted, rebased
from bsjoin.storage.layers.entries import Applied
from bsjoin.storage.open_table import OpenTable

os.fsync = lambda _: None  # a process is killed, not the machine
_OPERATIONS = ("create", "remove", "sync", "_writing", "make", "remove_empty")
_FORM = Form("text", "interval")


def sample(folder: Path, seed: int = 7) -> Sample:
    """A table, and what its rows have to be; the same in each process."""
    return Sample(StorageLocation.of(folder), _FORM, ("id",), False, random.Random(seed))


def begin(folder: Path) -> Sample:
    """The list of rows of the table; the table itself is built by the first process."""
    found = sample(folder)
    rows = [found.row() for _ in range(40)]
    if versions.numbers(found.location):
        found.rows = rows
    else:
        found.build(rows)
    return found


def change(folder: Path) -> None:
    """Apply a batch, unless it has been, and compact."""
    found = begin(folder)
    changes = found.changes(12)
    before = versions.latest(found.location)
    if before.changes is None:
        build = builds.begin(found.location)
        table = OpenTable(found.location, before)
        draft = with_changes(build, table, found.change_set(changes), found.identity)
        applied = Applied(1, found.identity, (("one", 1),))
        found.location.sync(build.folder)
        draft = replace(draft, changes=applied)
        versions.publish(found.location, draft, parent=before)
        build.published()
    now = versions.latest(found.location)
    if now.layers:
        build = builds.begin(found.location)
        base = compacted(build, OpenTable(found.location, now), 1 << 30)
        found.location.sync(build.folder)
        draft = rebased(now, now, base)
        assert draft is not None
        versions.publish(found.location, draft, parent=now)
        build.published()
        versions.vacuum(found.location, 1 << 60, 2)


def check(folder: Path) -> None:
    """The newest version has the rows of before the changes, or those of after them."""
    found = begin(folder)
    manifest = versions.latest(found.location)
    if manifest.changes is not None:
        found.model(found.changes(12))
        assert manifest.changes.count == 1
    found.check(manifest, found.rows)
    for number in versions.numbers(found.location):
        versions.verify(found.location, versions.load(found.location, number))


def in_child(work: Callable[[], object]) -> int:
    """Do something in a child; the number of its signal, or 0."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, status
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    try:
        work()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def killed_after(operations: int, folder: Path) -> None:
    """Apply and compact; the process is killed before one of the operations."""
    left = [operations]

    def counting(name: str) -> None:
        original = getattr(StorageLocation, name)

        def counted(*args: Any, **options: Any) -> Any:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return original(*args, **options)

        setattr(StorageLocation, name, counted)

    for name in _OPERATIONS:
        counting(name)
    change(folder)


def main(folder: Path, every: int) -> int:
    operations, died = 0, 9
    while died:
        at = folder / f"{operations}"

        def again(at: Path = at) -> None:
            change(at)
            check(at)

        in_child(partial(begin, at))
        died = in_child(partial(killed_after, operations, at))
        in_child(partial(check, at))
        in_child(again)
        operations += every
    print(operations - every)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int((sys.argv[2:] or ["1"])[0])))
