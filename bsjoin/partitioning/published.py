"""The partition rules of a join, in a folder that the driver and all workers reach.

A rule is an entry of a :mod:`bsjoin.storage.versioned_folder`: which one a micro-batch uses is a
pure function of the micro-batch's own timestamp, so that every task, a repeated one too, sends a
row where it went before. A rule that comes late, or not at all, makes a cycle slower, nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cachetools import LRUCache

from bsjoin._clock import now_us
from bsjoin.errors import StoreError
from bsjoin.partitioning.options import MOST_SAMPLED
from bsjoin.partitioning.rule import Rule
from bsjoin.storage import fields
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.versioned_folder import Activation, Publication, VersionedFolder, active_at

_log = logging.getLogger("bsjoin")

_KEPT = 50
_LARGEST = 16 << 20
_TIMES = 64
# As of versions, where machines share the folder: a client of Connect has a clock of its own.
_ACTIVATION = Activation(local_us=100_000, remote_us=2_000_000, tries=5, host_us=20_000)


@dataclass(frozen=True)
class PublishedRule:
    """A rule, and from when on it is in force.

    Args:
        rule: the rule.
        activates_at_us: microseconds since the epoch; micro-batches of this time and later use it.
        capacity: how many keys each task is to sample under it.
    """

    rule: Rule
    activates_at_us: int
    capacity: int

    def to_bytes(self) -> bytes:
        """The file's content."""
        document = {
            "activates_at_us": self.activates_at_us,
            "capacity": self.capacity,
            "rule": self.rule.to_json(),
        }
        return json.dumps(document).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> PublishedRule:
        """The inverse of :meth:`to_bytes`; a ``ValueError`` if the content is no rule."""
        try:
            read = json.loads(content)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        return cls(
            Rule.from_json(fields.text(read, "rule")),
            fields.whole(read, "activates_at_us"),
            fields.whole(read, "capacity", 1, MOST_SAMPLED),
        )


class Rules:
    """The rules in one folder, as one process sees them."""

    def __init__(self, location: StorageLocation):
        self._folder = VersionedFolder(location, "", ".rule", _LARGEST)
        self._known: dict[int, PublishedRule | None] = {}
        self._chosen: LRUCache[int, PublishedRule | None] = LRUCache(_TIMES)
        self._tried = 0

    def publish(self, rule: Rule, capacity: int, clock: Callable[[], int] = now_us) -> Rule | None:
        """Put a rule in force, from the next moment on.

        Older rules are removed but for the last fifty, which a micro-batch that is run again
        may still want.

        Returns:
            The rule that is in force then, under a later version where there were others
            meanwhile; None where writing takes seconds, again and again.
        """

        def content(slot: Publication) -> bytes:
            self._tried = slot.number
            numbered = replace(rule, version=slot.number)
            return PublishedRule(numbered, slot.activates_at_us, capacity).to_bytes()

        # A worker may have read a rule that was withdrawn: its number is not used again.
        least = max(rule.version, self._tried + 1)
        published = self._folder.publish(content, _ACTIVATION, least=least, clock=clock)
        if published is None:
            return None
        self._folder.sweep(self._folder.numbers()[:-_KEPT])
        return replace(rule, version=published.number)

    def at(self, time_us: int) -> PublishedRule | None:
        """The rule for a micro-batch of this time; None before the first.

        The folder is read once per micro-batch. A folder that cannot be read is an error: the
        task is run again, and must not meanwhile have another rule than the others.
        """
        if time_us not in self._chosen:
            self._check_there()
            numbers = self._folder.numbers()
            self._known = {
                n: self._known[n] if n in self._known else self._load(n) for n in numbers
            }
            self._chosen[time_us] = active_at(time_us, filter(None, self._known.values()))
        return self._chosen[time_us]

    def _check_there(self) -> None:
        """Refuse a folder of another machine: the driver has made it before the first task."""
        location = self._folder.location
        if location.is_local and not Path(location.url).is_dir():
            raise StoreError(
                f"the partition rules are in {str(location)!r}, and this machine has no such "
                "folder: give HotSpot(store=...) a folder or URL that the driver and all workers "
                "can access"
            )

    def last(self) -> PublishedRule | None:
        """The newest rule, in force or not yet; None without one."""
        found = (self._load(number) for number in reversed(self._folder.numbers()))
        return next((published for published in found if published), None)

    def _load(self, number: int) -> PublishedRule | None:
        """A rule; None for a file that is damaged or gone: the rows go by an older one."""
        try:
            found = PublishedRule.from_bytes(self._folder.read(number))
            if found.rule.version != number:
                raise ValueError(f"it holds the rule {found.rule.version}")
            return found
        except (ValueError, FileNotFoundError) as error:
            folder = str(self._folder.location)
            _log.warning("bsjoin: no rule %d in %r: %s", number, folder, error)
            return None
