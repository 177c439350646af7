"""Builds under way: the files of a version before it is published, and whose they are.

A build writes into a folder of its own below ``data``. As long as it runs, an empty file in
``builds`` names the folder, the time and the process. So what a killed process has left is told
from what another one writes at this moment, and is removed by the next build, or by ``vacuum``.

A folder that neither a mark nor a version names was left by who removed one of them and was killed
then. No store tells everywhere how old a folder is, by a clock that all share. So ``vacuum`` gives
it a mark of no process, which counts as any whose process cannot be seen.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bsjoin._clock import now_us
from bsjoin.errors import ArgumentError, StoreError
from bsjoin.host.processes import ProcessId, has_ended
from bsjoin.storage import versions
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.names import BUILDS, DATA, FRESH, MARKS, READERS, VERSIONS

_log = logging.getLogger("bsjoin")

_MARK = re.compile(r"([0-9a-f]{32})-([0-9]{1,18})-([0-9A-Za-z.]+)")
_FOLDER = re.compile(r"[0-9a-f]{32}")
_NOBODY = "0"
_UNKNOWN_AGE_US = 24 * 3_600_000_000
# Not those of versions that may be withdrawn: these count as long as their publishers live.
_TEMPORARY = re.compile(r"\.[0-9]{8,9}\.json\.[^-]*")
_SMALL = re.compile(r"\..*")  # of files that are written at once under a hidden name
_TEMPORARIES = {
    VERSIONS: _TEMPORARY,
    **dict.fromkeys((BUILDS, MARKS, FRESH, READERS), _SMALL),
}
_TEMPORARY_AGE_S = 3600.0
# The builds of this process, which may have been interrupted and go on.
_running: set[str] = set()


@dataclass(frozen=True)
class Build:
    """A build under way; small, picklable, for the tasks that write its files.

    Args:
        location: the table's location.
        name: of its folder.
        mark: the file that says that it runs.
        made: the folders that were made for it, innermost first: they go with it if it fails.
    """

    location: StorageLocation
    name: str
    mark: str
    made: tuple[Path, ...]

    @property
    def folder(self) -> str:
        """Its files, relative to the location."""
        return f"{DATA}/{self.name}"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A step of a task that writes; what it writes after the end of the build is removed.

        Raises:
            StoreError: the build has ended, by a failure or since it was interrupted.
        """
        self.check()
        try:
            yield
        finally:
            self.check()

    def check(self) -> None:
        """Make sure that it goes on, before and after its files are those of a version.

        Raises:
            StoreError: it has ended; what it has written is removed.
        """
        if self.location.is_local:  # by NFS others' changes are seen where it is opened
            with contextlib.suppress(FileNotFoundError):
                self.location.read(self.mark, 0)
                return
        elif self.location.size(self.mark) is not None:
            return
        _remove(self.location, self.name)
        self.location.remove_empty(self.made)
        raise StoreError(
            f"the build of a version in {str(self.location)!r} has ended, or its folder is not the "
            "same here as for the driver: give store=/path= a folder that the driver and all "
            "workers share"
        )

    def published(self) -> None:
        """Its files belong to a version now. A mark that stays is a warning."""
        with _warned(self.location):
            self._end()

    def abandon(self) -> None:
        """Remove what it has written, unless a version has it. A failure is a warning."""
        with _warned(self.location):
            # First: a task that writes later finds that the build has ended.
            self._end()
            _remove(self.location, self.name)
            self.location.remove_empty(self.made)

    def _end(self) -> None:
        _running.discard(self.name)
        self.location.remove(self.mark)


def begin(location: StorageLocation) -> Build:
    """Begin a build, in a folder of its own; remove what killed processes have left.

    Raises:
        StoreAccessError, StoreFullError: the location cannot be written to.
    """
    made = location.missing_folders([BUILDS, DATA])
    name = uuid.uuid4().hex
    mark = f"{BUILDS}/{name}-{now_us()}-{ProcessId.of(os.getpid())}"
    build = Build(location, name, mark, tuple(made))
    _running.add(name)
    try:
        location.make()
        sweep(location)
        location.create(mark, b"")
    except BaseException:
        build.abandon()
        raise
    return build


@contextlib.contextmanager
def begun(location: StorageLocation) -> Iterator[Build]:
    """Begin a build; at the end it is abandoned, unless it was published."""
    build = begin(location)
    try:
        yield build
    finally:
        if build.name in _running:
            build.abandon()


def sweep(location: StorageLocation) -> None:
    """Remove the files of builds whose process has ended. A failure is a warning.

    Of processes that cannot be told apart, as on other machines, those of builds that began more
    than a day ago.
    """
    with _warned(location):
        for mark in location.names(BUILDS):
            found = _MARK.fullmatch(mark)
            if found is not None and _is_over(found[1], int(found[2]), found[3]):
                # The mark first: a build that was taken for ended must not publish what goes.
                location.remove(f"{BUILDS}/{mark}")
                _remove(location, found[1])
        versions.remove_left_marks(location)
        for folder, temporary in _TEMPORARIES.items() if location.is_local else ():
            for name in filter(temporary.fullmatch, location.names(folder)):
                path = f"{folder}/{name}".lstrip("/")
                if (location.age_s(path) or 0) > _TEMPORARY_AGE_S:
                    location.remove(path)


def vacuum(location: StorageLocation, keep: int, from_us: int, argument: str = "keep") -> list[int]:
    """Remove old versions as :func:`bsjoin.storage.versions.vacuum`, and what was left by kills.

    That is the files of builds, as by :func:`sweep`, and folders of no version: these go with the
    first build or ``vacuum`` that comes a day after the ``vacuum`` that has found them.

    ``argument`` is what the user calls ``keep``, for the error message.

    Returns:
        The numbers of the versions that were removed.

    Raises:
        ArgumentError: ``keep`` is no whole number of 1 or more.
    """
    if type(keep) is not int or keep < 1:
        raise ArgumentError(
            f"{argument}={keep!r}: the newest version always stays; give a whole number, 1 or more"
        )
    sweep(location)
    with _warned(location):
        location.remove_probes()
    gone = versions.vacuum(location, from_us, keep)
    # Before the marks: a build has its mark before its folder, and keeps it until its version is
    # there. Whoever removes the folder later looks at the versions once more.
    _mark_left(location, location.names(DATA))
    return gone


def _mark_left(location: StorageLocation, names: list[str]) -> None:
    """Give a mark to each folder that has none and is of no version. A failure is a warning."""
    with _warned(location):
        marked = {mark.partition("-")[0] for mark in location.names(BUILDS)}
        left = {name for name in filter(_FOLDER.fullmatch, names) if name not in marked}
        known = versions.data_folders(location) if left else set()
        for name in sorted(left):
            if f"{DATA}/{name}" not in known:
                location.create(f"{BUILDS}/{name}-{now_us()}-{_NOBODY}", b"")


@contextlib.contextmanager
def _warned(location: StorageLocation) -> Iterator[None]:
    """Let a failure be a warning: the next build tries again."""
    try:
        yield
    except (OSError, StoreError) as error:
        _log.warning("bsjoin: files of no version stay in %r: %s", str(location), error)


def _is_over(name: str, began_us: int, process: str) -> bool:
    if name in _running:
        return False
    is_own = process == str(ProcessId.of(os.getpid()))
    return is_own or has_ended(process, now_us() - began_us, _UNKNOWN_AGE_US)


def _remove(location: StorageLocation, name: str) -> None:
    """Remove the files of a build, unless a version has them."""
    folder = f"{DATA}/{name}"
    if folder not in versions.data_folders(location):
        location.remove(folder)
