"""Versions of a table: published atomically, chosen by the time of a micro-batch, vacuumed.

A version is the file ``versions/00000007.json``, an entry of a
:mod:`bsjoin.storage.versioned_folder`. A micro-batch uses the newest version that was active at its
timestamp. The first version is active for all earlier timestamps.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from cachetools import LRUCache

from bsjoin._clock import now_us
from bsjoin.errors import DamagedTableError, StoreError, TableNotFoundError, VersionNotFoundError
from bsjoin.storage import freshness
from bsjoin.storage.checksums import checksum
from bsjoin.storage.location import Stamp, StorageLocation
from bsjoin.storage.manifest import LARGEST, Manifest, no_manifest
from bsjoin.storage.names import BUILDS, MARKS, VERSIONS
from bsjoin.storage.opening import validate
from bsjoin.storage.segment_entries import StoredFile
from bsjoin.storage.versioned_folder import (
    Activation,
    Listing,
    Parent,
    Publication,
    VersionedFolder,
)

_log = logging.getLogger("bsjoin")

Settled = dict[tuple[int, object], Manifest]
"""Versions that need not be read again, by their numbers and what tells their files."""

_LONGEST_WAIT_S = 10.0
_SETTLED_US = 60_000_000
_ACTIVATION = Activation(local_us=100_000, remote_us=2_000_000, tries=10, host_us=40_000)


def _versions(location: StorageLocation) -> VersionedFolder:
    return VersionedFolder(location, VERSIONS, ".json", LARGEST, marked=True)


def numbers(location: StorageLocation) -> list[int]:
    """The numbers of the versions that are there, ascending."""
    return _versions(location).numbers()


def stamps(location: StorageLocation) -> dict[int, Stamp | None]:
    """What tells the file of each version that is there from a later one; None where unknown."""
    folder = _versions(location)
    listing = folder.listed()
    return {number: folder.stamp(number, listing) for number in listing.numbers}


def load(location: StorageLocation, version: int) -> Manifest:
    """The manifest of one version."""
    try:
        return _read(location, version)
    except FileNotFoundError:
        there = numbers(location)
        raise VersionNotFoundError(
            f"version {version} of the table in {str(location)!r} is not there (any more); "
            f"there are {there}. A result is bound to the version it was planned with: "
            "plan it again, and keep versions longer when you vacuum"
        ) from None


def _read(location: StorageLocation, version: int) -> Manifest:
    return Manifest.from_bytes(read(location, version), _where(location, version), version)


def read(location: StorageLocation, version: int) -> bytes:
    """The content of the file of one version, unchecked.

    Raises:
        FileNotFoundError: it is not there, or not any more.
        TableNotFoundError: it is larger than any manifest.
    """
    try:
        return _versions(location).read(version)
    except ValueError as error:
        raise no_manifest(_where(location, version), error) from None


def _where(location: StorageLocation, version: int) -> str:
    return f"{_versions(location).name(version)!r} in {str(location)!r}"


def latest(location: StorageLocation) -> Manifest:
    """The newest version. Raises TableNotFoundError where there is none."""
    for number in reversed(numbers(location)):
        with contextlib.suppress(FileNotFoundError):  # removed at this moment
            return _read(location, number)
    raise _no_table(location)


def check_there(location: StorageLocation) -> None:
    """Raises TableNotFoundError where there is no version; reads none."""
    if not numbers(location):
        raise _no_table(location)


def _no_table(location: StorageLocation) -> TableNotFoundError:
    todo = "Build one"
    if location.names(BUILDS):
        todo = "A build of one has begun there: wait for its end, or, if it was killed, build again"
    return TableNotFoundError(
        f"{str(location)!r} holds no table of bsjoin: there is no version in its folder "
        f"{VERSIONS!r}. {todo} with BatchTable.build(df, on=..., path=...)"
    )


def there(location: StorageLocation) -> list[Manifest]:
    """The versions that are there, ascending; without those that are removed at this moment."""
    found = []
    for number in numbers(location):
        with contextlib.suppress(FileNotFoundError):
            found.append(_read(location, number))
    return found


def publish(
    location: StorageLocation,
    draft: Manifest,
    clock: Callable[[], int] = now_us,
    parent: Manifest | None = None,
    marked_as: Manifest | None = None,
    fingerprint: str | None = None,
    *,
    first: bool = False,
    durable: bool = False,
    read_us: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> Manifest:
    """Make a built version visible; returns once every new micro-batch will use it.

    Args:
        location: the table's location.
        draft: the manifest, its version and times still open.
        clock: microseconds since the epoch.
        parent: the version that it is made from, if nothing may be published between; None
            (default) for any.
        marked_as: a version whose fingerprints are noted for the new one, before it is there, so
            that no start in between takes its source for another one; None (default) for none.
        fingerprint: one more to note, as by :func:`mark`; None (default) for none.
        first: whether there may be no version yet. Default False.
        durable: whether it stays after a loss of power, too: its files have been flushed, and the
            folder of the versions is. Default False.
        read_us: since when its rows may be out of date, microseconds since the epoch: that many
            before it is published are its ``build_s``. None (default): that of the draft.
        check: as for :meth:`bsjoin.storage.versioned_folder.VersionedFolder.publish`: that of the
            build that has written its files, which others may have taken for ended.

    Returns:
        The manifest as published.

    Raises:
        Superseded: another version was published after the parent, or the parent was withdrawn.
    """
    noted = []
    if marked_as is not None:
        prefix = _mark_prefix(marked_as.version, marked_as.created_at_us)
        names = location.names(MARKS)
        noted = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def numbered(slot: Publication) -> Manifest:
        found = draft.published_as(*slot)
        if read_us is None:
            return found
        return replace(found, build_s=max(0, slot.created_at_us - read_us) / 1e6)

    def content(slot: Publication) -> bytes:
        for digest in noted:
            location.create(f"{MARKS}/{_mark_prefix(*slot[:2])}{digest}", b"")
        if noted and durable:  # not every file system keeps the order of two folders
            location.sync(MARKS, files=False)
        published = numbered(slot)
        if fingerprint is not None:
            mark(location, published, fingerprint)
        return published.to_bytes()

    published = _versions(location).publish(
        content,
        _ACTIVATION,
        after=lambda version: _read(location, version).activates_at_us,
        clock=clock,
        parent=_parent(location, parent, first=first),
        check=check,
    )
    if published is None:
        raise StoreError(
            f"could not publish a version in {str(location)!r} after {_ACTIVATION.tries} tries: "
            "others publish there at the same time, or the file system takes seconds to write a "
            "small file"
        )
    if durable:
        location.sync(VERSIONS, files=False)
    wait_s = max(0.0, (published.activates_at_us - clock()) / 1e6)
    if wait_s > _LONGEST_WAIT_S:
        _log.warning(
            "bsjoin: micro-batches use version %d of the table in %r only in %.0f s: the store is "
            "slow, or it comes after a version of a clock that is ahead of this one, or was before "
            "this one was set back. Let the clocks agree",
            published.number,
            str(location),
            wait_s,
        )
    time.sleep(min(_LONGEST_WAIT_S, wait_s))
    return numbered(published)


def _parent(location: StorageLocation, manifest: Manifest | None, *, first: bool) -> Parent | None:
    if manifest is None:
        return Parent(0, lambda: True) if first else None

    return Parent(manifest.version, lambda: is_there(location, manifest))


def is_there(location: StorageLocation, manifest: Manifest) -> bool:
    """Whether a version is still there; another one may have the number of one withdrawn."""
    try:
        found = _read(location, manifest.version)
    except FileNotFoundError:
        return False
    return found.created_at_us == manifest.created_at_us


def confirm(location: StorageLocation, manifest: Manifest, read_us: int) -> None:
    """Note how old the rows of a version are, by :func:`freshness.confirm`, if it is still there.

    A note knows its number alone, which another version has if this one was withdrawn.
    """
    if is_there(location, manifest):
        freshness.confirm(location, manifest, read_us)


def data_folders(location: StorageLocation) -> set[str]:
    """The folders of the files of all versions, relative to the location."""
    return {folder for version in _all_held(location) for folder in version.folders}


def mark(location: StorageLocation, manifest: Manifest, fingerprint: str) -> None:
    """Note that a version holds the rows of the source that has this fingerprint.

    A failure is a warning: the next build with this fingerprint builds the table once more.
    """
    try:
        location.create(_mark(manifest, fingerprint), b"")
    except StoreError as error:
        _log.warning("bsjoin: the fingerprint of %r is not noted: %s", str(location), error)


def is_marked(location: StorageLocation, manifest: Manifest, fingerprint: str) -> bool:
    """Whether :func:`mark` has noted that."""
    return location.size(_mark(manifest, fingerprint)) is not None


def _mark(manifest: Manifest, fingerprint: str) -> str:
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:32]
    return f"{MARKS}/{_mark_prefix(manifest.version, manifest.created_at_us)}{digest}"


def _mark_prefix(version: int, created_at_us: int) -> str:
    return f"{version:08d}-{created_at_us}-"


def since(
    location: StorageLocation, time_us: int, settled: Settled | None = None
) -> list[Manifest]:
    """The version that a micro-batch of this time uses, and all after it, ascending.

    They are read from the newest one backwards, so that it is no matter how many older ones there
    are. Those that were certain to stay when they were read are kept in ``settled``, and not read
    again while their files are the same: another process may withdraw any other, and give its
    number away, and a table may be built anew.

    Raises:
        VersionNotFoundError: the version was vacuumed, or the table removed.
    """
    later: list[Manifest] = []
    settled, stamps = {} if settled is None else settled, {}
    listing = _versions(location).listed()
    for number in reversed(listing.numbers):
        stamps[number] = stamp = _versions(location).stamp(number, listing)
        manifest = settled.get((number, stamp))
        if manifest is None:
            try:
                manifest = _read(location, number)
            except FileNotFoundError:
                continue  # removed at this moment
        later.insert(0, manifest)
        if manifest.activates_at_us <= time_us:
            break
    settled.clear()
    settled.update(
        {(one.version, stamps[one.version]): one for one in later if _is_settled(one, listing)}
    )
    if later and later[0].activates_at_us <= time_us:
        return later
    if not later:
        raise VersionNotFoundError(
            f"the table in {str(location)!r} has no version any more: it was removed after the "
            "query was analysed. Build it again, and make the DataFrame or view anew"
        )
    if later[0].version != 1:  # which is active for all earlier times
        raise VersionNotFoundError(
            f"a micro-batch of time {time_us} µs needs a version of the table in "
            f"{str(location)!r} older than those that are left; it was vacuumed. "
            "Another version could give another answer, so none is taken: restart the "
            "query from a new checkpoint, and keep versions longer when you vacuum"
        )
    return later


def _is_settled(one: Manifest | _Held, listing: Listing) -> bool:
    """Whether a version that was read after a listing keeps its number.

    One that was withdrawn may be another version's a moment later. The clock alone does not tell:
    that of the publisher may be behind.
    """
    is_old = one.activates_at_us < now_us() - _SETTLED_US
    return is_old and listing.is_decided(one.version)


def first_missing(location: StorageLocation, manifest: Manifest) -> str | None:
    """The first file of a version that is not there in its size; None if all are.

    Complexity: one listing of each folder: the files may be thousands.
    """
    folders = {_folder(name) for name, _, _ in manifest.files}
    sizes = {
        f"{folder}/{name}": size
        for folder in folders
        for name, size in location.sizes(folder).items()
    }
    return next((name for name, size, _ in manifest.files if sizes.get(name) != size), None)


def verify(
    location: StorageLocation, manifest: Manifest, known: set[StoredFile] | None = None
) -> None:
    """Compare every file of a version with its checksum, and check what is in it.

    The files of a remote table are checked where they are opened, which needs a copy of them. Those
    that are ``known`` to have their checksums are not read for that; the others come to them.

    Raises:
        DamagedTableError: names the first file that differs, is missing, or is not what bsjoin
            writes.

    Complexity: reads all bytes of the version once, its indexes twice.
    """
    known = set() if known is None else known
    for stored in (one for one in manifest.files if one not in known):
        name, size, expected = stored
        found, state = location.size(name), "is missing"
        if found == size:
            with contextlib.suppress(FileNotFoundError), location.reading(name) as file:
                if checksum(file) == expected:
                    known.add(stored)
                    continue
                state = "has another checksum than when it was written"
        elif found is not None:
            state = f"has {found} bytes instead of {size}"
        raise DamagedTableError(
            f"version {manifest.version} of the table in {str(location)!r} is damaged: the segment "
            f"file {name!r} {state}. Build the table again: BatchTable.build(..., path=...)"
        )
    if location.is_local:
        validate(location, manifest)


def latest_verified(location: StorageLocation) -> Manifest:
    """The newest version, found sound by :func:`verify`, whatever is vacuumed meanwhile.

    Raises:
        DamagedTableError: as for that.
        TableNotFoundError: there is none.
    """
    while True:
        manifest = latest(location)
        try:
            verify(location, manifest)
        except DamagedTableError:
            if is_there(location, manifest):
                raise
        else:
            return manifest


def checked(location: StorageLocation) -> Iterator[tuple[int, Manifest | StoreError]]:
    """The number of each version with its manifest, or with what is wrong with it.

    Those that are removed at this moment are left out. Raises TableNotFoundError where none is.
    """
    check_there(location)
    known: set[StoredFile] = set()  # versions share files
    for number in numbers(location):
        try:
            manifest = load(location, number)
            verify(location, manifest, known)
        except StoreError as error:
            if number in numbers(location):
                yield number, error
        else:
            yield number, manifest


class _Held(NamedTuple):
    """What is remembered of a version that may be removed: its times and its folders."""

    version: int
    created_at_us: int
    activates_at_us: int
    folders: frozenset[str]


# By location, by number: a table that changes may have thousands of versions.
_held: LRUCache[str, dict[int, _Held]] = LRUCache(maxsize=16)
_held_lock = threading.Lock()


def _all_held(location: StorageLocation) -> list[_Held]:
    """All versions, ascending; those that this process has read before are not read again."""
    listing = _versions(location).listed()
    listed = listing.numbers
    with _held_lock:
        known = _held.get(location.url, {})
    oldest = _held_of(location, listed[0]) if listed else None
    if (
        oldest is None
        or known.get(oldest.version, oldest) != oldest
        or min(known, default=0) > (oldest.version)
    ):
        known = {}  # the table was built again: numbers only grow, and the oldest go first
    found = [known.get(number) or _held_of(location, number) for number in listed]
    there = [one for one in found if one is not None]
    settled = {one.version: one for one in there if _is_settled(one, listing)}
    with _held_lock:
        _held[location.url] = settled
    return there


def _held_of(location: StorageLocation, number: int) -> _Held | None:
    try:
        manifest = _read(location, number)
    except FileNotFoundError:
        return None
    folders = frozenset(_folder(name) for name, _, _ in manifest.files)
    return _Held(number, manifest.created_at_us, manifest.activates_at_us, folders)


def has_older(location: StorageLocation, keep_from_us: int) -> bool:
    """Whether there is a version that no micro-batch of ``keep_from_us`` or later can need.

    Complexity: O(1) beside the listing of the versions.
    """
    second = numbers(location)[1:2]
    found = _held_of(location, second[0]) if second else None
    return found is not None and found.activates_at_us <= keep_from_us


def vacuum(location: StorageLocation, keep_from_us: int, keep: int) -> list[int]:
    """Remove versions that no micro-batch of ``keep_from_us`` or later can need; their numbers.

    The newest ``keep``, at least one, stay in any case, and so do files that a version which stays
    shares with those that go. While the publisher of a version may withdraw it, those before stay.
    """
    there = _all_held(location)
    gone: list[_Held] = []
    for one, successor in pairwise(there):
        if len(there) - len(gone) <= max(1, keep) or successor.activates_at_us > keep_from_us:
            break
        gone.append(one)
    stays = _last_that_stays(location, there) if gone else 0
    gone = [one for one in gone if one.version < stays]
    left = there[len(gone) :]
    _versions(location).sweep(one.version for one in gone)
    # A version that is published meanwhile has its marks before it is there: numbers only grow.
    least = left[0].version if left else 0
    for name in location.names(MARKS):
        number = name.lstrip(".").partition("-")[0]  # with a dot while it is created
        if not number.isdecimal() or int(number) < least:
            location.remove(f"{MARKS}/{name}")
    freshness.remove_marks(location, least)
    kept = frozenset().union(*(one.folders for one in left))
    expendable = frozenset().union(*(one.folders for one in gone))
    for folder in sorted(expendable - kept):
        location.remove(folder)
    with contextlib.suppress(FileNotFoundError):  # removed at this moment
        # A compaction leaves segments where they are. What one version lacks later ones do, too.
        needed = {name for name, _, _ in _read(location, least).files} if gone else set()
        for folder in sorted(expendable & kept):
            for file in {f"{folder}/{name}" for name in location.names(folder)} - needed:
                location.remove(file)
    return [one.version for one in gone]


def remove_left_marks(location: StorageLocation) -> None:
    """Remove what publishers that have ended have left to say that they might withdraw versions."""
    _versions(location).first_undecided()


def _last_that_stays(location: StorageLocation, there: list[_Held]) -> int:
    """The number of the newest version that nobody withdraws any more; 0 if none is certain."""
    first = _versions(location).first_undecided()
    decided = [one for one in there if first is None or one.version < first]
    certain = bool(decided) and _held_of(location, decided[-1].version) == decided[-1]
    return decided[-1].version if certain else 0


def remove_copies(location: StorageLocation, in_use: Iterable[str]) -> None:
    """Remove this host's copies of a remote table, but for versions that may be opened again.

    A failure is a warning: they only occupy disk space. Files that are in use stay, and those of
    the two newest versions.
    """
    if location.is_local:
        return
    try:
        newest = [load(location, number) for number in numbers(location)[-2:]]
        files = {name for manifest in newest for name, _, _ in manifest.files}
        location.keep_copies(files.union(in_use))
    except VersionNotFoundError:
        pass  # vacuumed at this moment
    except (OSError, StoreError) as error:
        _log.warning("bsjoin: old copies of the table in %r stay: %s", str(location), error)


def _folder(file: str) -> str:
    return file.rsplit("/", 1)[0]
