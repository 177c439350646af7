"""Numbered files in a folder: created atomically, active from a time on, swept when they are old.

An entry is a file like ``00000007.json``. It is complete as soon as it exists, and it never
changes. Any number of processes may publish and read at the same time: an entry gets the next
number that no other process has taken. There are no locks and no messages.

An entry may have an activation time. Which entry a micro-batch uses is then a pure function of the
micro-batch's own timestamp, which Spark writes to its offset log and uses again when it replays
the batch. An entry activates a moment *after* it is published, so that no task of any micro-batch
can have overlooked it. One that was written after its activation is withdrawn, and published again
under another number: a worker may have read it (docs/decisions/0002-versions.md). As long as its
publisher may do that, a hidden file says so where that is asked for, and what was there before
stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from bsjoin._clock import now_us
from bsjoin.errors import StoreError
from bsjoin.host.processes import ProcessId, has_ended
from bsjoin.storage.location import Stamp, StorageLocation
from bsjoin.storage.names import numbers_in


class _Active(Protocol):
    @property
    def activates_at_us(self) -> int: ...


_LONGEST_US = 3_600_000_000  # a publisher that cannot be seen has ended after that
# The marks of publications of this process.
_deciding: set[str] = set()

Entry = TypeVar("Entry", bound=_Active)


class Superseded(Exception):  # noqa: N818
    """The entry that a new one is made from is not the newest one, or not there any more."""


class Publication(NamedTuple):
    """Number and times of an entry, the times in microseconds since the epoch."""

    number: int
    created_at_us: int
    activates_at_us: int


class Listing(NamedTuple):
    """The entries that were there at one time.

    Args:
        numbers: theirs, ascending.
        undecided: from which number on they may have been withdrawn since; None if none may. It is
            what marks say, whoever has left them: no clock decides.
        stamps: of the files, by their names in the folder: those of remote ones.
    """

    numbers: list[int]
    undecided: int | None
    stamps: Mapping[str, Stamp | None]

    def is_decided(self, number: int) -> bool:
        """Whether an entry stays until it is swept."""
        return self.undecided is None or number < self.undecided


class Parent(NamedTuple):
    """The entry that a new one is made from.

    Args:
        number: its number; 0 if there may be no entry yet.
        is_there: whether that number is still its own: one that was withdrawn is free again.
    """

    number: int
    is_there: Callable[[], bool]


@dataclass(frozen=True)
class Activation:
    """The time between the publication of an entry and its activation.

    The delay is longer than it takes until every host sees the file, and than the clocks of driver
    and publisher differ. It grows fourfold with every publication that was too late.

    Args:
        local_us: the first delay in a local folder, which machines may share.
        remote_us: the first delay elsewhere.
        tries: after so many publications that were too late, or that others were faster with,
            publishing fails.
        host_us: the first delay where only this machine has the folder: there is one clock, and
            the file is there for all at once. So it is as long as writing takes. None (default):
            as in any local folder.
    """

    local_us: int
    remote_us: int
    tries: int
    host_us: int | None = None

    def first_us(self, location: StorageLocation) -> int:
        """The first delay at a location."""
        if self.host_us is not None and location.is_of_one_machine:
            return self.host_us
        return self.local_us if location.is_local else self.remote_us


@dataclass(frozen=True)
class VersionedFolder:
    """The numbered files of one kind in a folder.

    Args:
        location: where the folder is.
        folder: its name there; empty for the location itself.
        ending: how the names of the files end.
        max_bytes: larger files are refused.
        marked: whether :meth:`publish` says meanwhile what it may withdraw, for
            :meth:`first_undecided`. Default False.
    """

    location: StorageLocation
    folder: str
    ending: str
    max_bytes: int
    marked: bool = False

    def name(self, number: int) -> str:
        """The name of an entry, relative to the location."""
        return f"{self.folder}{'/' if self.folder else ''}{number:08d}{self.ending}"

    def numbers(self) -> list[int]:
        """The numbers of the entries that are there, ascending; other files are passed over."""
        return self.listed().numbers

    def listed(self) -> Listing:
        """The entries that are there, and which of them may be withdrawn."""
        found = self.location.listed(self.folder)
        undecided = min((int(mark[1]) for mark in self._marks_in(found)), default=None)
        return Listing(numbers_in(found, self.ending), undecided, found)

    def stamp(self, number: int, listing: Listing) -> Stamp | None:
        """What tells the file of an entry from a later one of its name; None if unknown."""
        name = self.name(number)
        return listing.stamps.get(name.rpartition("/")[2]) or self.location.stamp(name)

    def _marks_in(self, names: Iterable[str]) -> Iterator[re.Match[str]]:
        """The marks of publishers: the number, a name of its own, the time and the process."""
        ending = re.escape(self.ending)
        pattern = rf"\.([0-9]{{8,9}}){ending}\.([0-9a-f]{{32}})-([0-9]{{1,18}})-(.+)"
        return filter(None, map(re.compile(pattern).fullmatch, names))

    def last(self) -> int:
        """The number of the newest entry; 0 without one."""
        return max(self.numbers(), default=0)

    def read(self, number: int) -> bytes:
        """The content of an entry.

        Raises:
            FileNotFoundError: it is not there, or not any more.
            ValueError: it is larger than bsjoin writes any.
        """
        content = self.location.read(self.name(number), self.max_bytes)
        if len(content) > self.max_bytes:
            raise ValueError(f"it has more than {self.max_bytes} bytes")
        return content

    def append(self, content: bytes, first: int = 1) -> int:
        """Publish an entry without an activation time; its number, that of the first one given.

        It is greater than those of others that were there before, whatever their first one was.
        """
        last = self.last()
        number = last + 1 if last else first
        while not self.location.create(self.name(number), content):
            number += 1
        if last or self.last() <= number:
            return number
        return self.append(content)  # after another's first one, which may have been read

    def publish(
        self,
        content: Callable[[Publication], bytes],
        activation: Activation,
        *,
        least: int = 1,
        after: Callable[[int], int] | None = None,
        clock: Callable[[], int] = now_us,
        parent: Parent | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Publication | None:
        """Publish an entry that activates a moment later; withdrawn if an error follows.

        Args:
            content: makes the file for a number and its times.
            activation: the delay.
            least: the least number that the entry may have.
            after: the activation time of the entry with some number, where each entry activates
                after the one before. The first one is then active for all earlier times, too: it
                activates at once. Without it, times are independent of each other.
            clock: microseconds since the epoch.
            parent: the entry that it is made from, which has to be the one before it; None
                (default) for any.
            check: called when it is there; raises an error if it must not stay.

        Returns:
            The entry's number and times; None where every try was too late.

        Raises:
            Superseded: there is another entry after the parent, or the parent was withdrawn.
        """
        if self.marked:  # a number that was withdrawn is free again, and would be below the mark
            least = max(least, self.last() + 1)
        with self._undecided(least) if self.marked else contextlib.nullcontext():
            delay = activation.first_us(self.location)
            for _ in range(activation.tries):
                last = self.last()
                if parent is not None and not (last == parent.number and parent.is_there()):
                    raise Superseded
                first = after is not None and not last
                # The first one is never late, and nothing is before it.
                number = 1 if first else max(last + 1, least)
                try:
                    earliest = after(last) + 1 if after is not None and last else 0
                except FileNotFoundError:
                    continue  # another process has just withdrawn it
                now = clock()
                active = now if first else _whole_ms(max(now + delay, earliest))
                published = Publication(number, now, active)

                # When the entry is made half of the delay is left: it is not there for anybody
                # before it is known to have been there in time.
                latest = active - delay // 2

                def in_time(latest: int = latest, first: bool = first) -> bool:
                    return first or clock() < latest

                if not self.location.create(self.name(number), content(published), in_time):
                    # Another process has taken this number, or the file was written too slowly.
                    delay *= 1 if in_time() else 4
                    continue
                is_seen = first or clock() < active  # by all that begins when it is active
                try:
                    check()
                    # The parent was withdrawn, perhaps, and its files are gone: who withdraws looks
                    # for followers.
                    follows = parent is None or (
                        not self._has_others(parent.number, number) and parent.is_there()
                    )
                    in_order = first or after is None or self._is_in_order(published, last, after)
                except BaseException:
                    self.sweep([number])
                    raise
                if follows and in_order and is_seen:
                    return published
                # A micro-batch may have begun without seeing it, or another entry hides it.
                self.sweep([number])
                if not follows:
                    raise Superseded
                least = number + 1
                delay *= 4
            return None

    @contextlib.contextmanager
    def _undecided(self, number: int) -> Iterator[None]:
        """Say meanwhile that entries from a number on may be withdrawn."""
        folder, slash, name = self.name(number).rpartition("/")
        process, own = ProcessId.of(os.getpid()), uuid.uuid4().hex
        mark = f"{folder}{slash}.{name}.{own}-{now_us()}-{process}"
        _deciding.add(own)
        try:
            with self.location.writing(mark) as path:
                path.write_bytes(b"")
            yield
        finally:
            _deciding.discard(own)
            with contextlib.suppress(OSError, StoreError):  # the next one who looks removes it
                self.location.remove(mark)

    def first_undecided(self) -> int | None:
        """The number from which on entries may still be withdrawn; None if none may.

        An entry that was listed before, has a lower number, and is there after that, stays. Marks
        of publishers that have ended are removed.
        """
        found, this = [], str(ProcessId.of(os.getpid()))
        for mark in self._marks_in(self.location.names(self.folder)):
            number, own, began_us, process = mark.groups()
            is_left = process == this and own not in _deciding
            if is_left or has_ended(process, now_us() - int(began_us), _LONGEST_US):
                self.location.remove(f"{self.folder}/{mark[0]}".lstrip("/"))
            else:
                found.append(int(number))
        return min(found, default=None)

    def _has_others(self, parent: int, number: int) -> bool:
        """Whether there are entries after a parent beside a new one.

        A number that was withdrawn is free again, so two processes may have got different ones
        after one parent. Both look after they have created theirs: at least one sees the other's.
        """
        return any(other > parent and other != number for other in self.numbers())

    def _is_in_order(
        self, published: Publication, last: int, activation_of: Callable[[int], int]
    ) -> bool:
        """Whether the entries that others created since a listing activate in order.

        A number that was withdrawn is free again: an entry may get a number below one that was
        published before it. Both publishers look after they have created theirs, so at least one
        of them sees the other's.
        """
        ours = published.activates_at_us
        for number in self.numbers():
            if number <= last or number == published.number:
                continue
            try:
                other = activation_of(number)
            except FileNotFoundError:
                continue  # withdrawn
            if other == ours or (other < ours) != (number < published.number):
                return False
        return True

    def sweep(self, numbers: Iterable[int]) -> None:
        """Remove some entries."""
        for number in numbers:
            self.location.remove(self.name(number))


def _whole_ms(time_us: int) -> int:
    """The next whole millisecond: Spark cuts the times of micro-batches to these."""
    return -(-time_us // 1000) * 1000


def active_at(time_us: int, entries: Iterable[Entry]) -> Entry | None:
    """The last of some entries, ascending by number, that is active at a time; None if none is."""
    chosen = None
    for entry in entries:
        if entry.activates_at_us <= time_us:
            chosen = entry
    return chosen
