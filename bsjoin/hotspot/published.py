"""The partition rules of a join, in a folder that the driver and all workers reach.

A rule is a small numbered file. As with the versions of a table, which one a micro-batch uses is a
pure function of the micro-batch's own timestamp, so that every task, a repeated one too, sends a
row where it went before. A rule that comes late, or not at all, makes a cycle slower, nothing else.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bsjoin.hotspot.rule import Rule
from bsjoin.store import fields
from bsjoin.store.location import StorageLocation
from bsjoin.store.names import numbers_in

__all__ = ["PublishedRule", "Rules", "now_us"]

_log = logging.getLogger("bsjoin")

_ENDING = ".rule"
_KEPT, _TRIES = 50, 5
_LARGEST, _MOST_SAMPLED = 16 << 20, 1_000_000
_LOCAL_DELAY_US, _REMOTE_DELAY_US = 20_000, 1_000_000


def now_us() -> int:
    """The time, in microseconds since the epoch."""
    return time.time_ns() // 1000


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
        """The inverse of :meth:`to_bytes`.

        Raises:
            ValueError: the content is no rule.
        """
        if len(content) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        try:
            read = json.loads(content)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        return cls(
            Rule.from_json(fields.text(read, "rule")),
            fields.whole(read, "activates_at_us"),
            fields.whole(read, "capacity", 1, _MOST_SAMPLED),
        )


class Rules:
    """The rules in one folder, as one process sees them.

    Args:
        location: the folder.
    """

    def __init__(self, location: StorageLocation):
        self._location = location
        self._known: dict[int, PublishedRule | None] = {}
        self._read_for_us = -1

    def publish(self, rule: Rule, capacity: int, clock: Callable[[], int] = now_us) -> Rule | None:
        """Put a rule in force, from the next moment on.

        Older rules are removed but for the last fifty, which a micro-batch that is run again
        may still want.

        Returns:
            The rule that is in force then, under a later version where there were others
            meanwhile; None where writing takes seconds, again and again.
        """
        delay = _LOCAL_DELAY_US if self._location.is_local else _REMOTE_DELAY_US
        for _ in range(_TRIES):
            numbers = self._numbers()
            if numbers and rule.version <= numbers[-1]:
                rule = replace(rule, version=numbers[-1] + 1)
            published = PublishedRule(rule, clock() + delay, capacity)
            if not self._location.create(_name(rule.version), published.to_bytes()):
                continue  # another driver steers here, too
            if clock() < published.activates_at_us:
                for number in self._numbers()[:-_KEPT]:
                    self._location.remove(_name(number))
                return rule
            # A micro-batch may have begun without it, and its tasks must all have one rule. The
            # number is not used again: a worker may have read it.
            self._location.remove(_name(rule.version))
            rule, delay = replace(rule, version=rule.version + 1), 4 * delay
        return None

    def at(self, time_us: int) -> PublishedRule | None:
        """The rule for a micro-batch of this time; None before the first.

        The folder is read once per micro-batch. A folder that cannot be read is an error: the
        task is run again, and must not meanwhile have another rule than the others.
        """
        if time_us > self._read_for_us:
            for number in self._numbers():
                if number not in self._known:
                    self._known[number] = self._load(number)
            self._read_for_us = time_us
        chosen = None
        for _, published in sorted(self._known.items()):
            if published is not None and published.activates_at_us <= time_us:
                chosen = published
        return chosen

    def last(self) -> PublishedRule | None:
        """The newest rule, in force or not yet; None without one."""
        found = (self._load(number) for number in reversed(self._numbers()))
        return next((published for published in found if published), None)

    def _load(self, number: int) -> PublishedRule | None:
        """A rule; None for a file that is damaged or gone: the rows go by an older one."""
        try:
            found = PublishedRule.from_bytes(self._location.read(_name(number), _LARGEST))
            if found.rule.version != number:
                raise ValueError(f"it holds the rule {found.rule.version}")
            return found
        except (ValueError, FileNotFoundError) as error:
            _log.warning("bsjoin: no rule %d in %r: %s", number, str(self._location), error)
            return None

    def _numbers(self) -> list[int]:
        return numbers_in(self._location.names(""), _ENDING)


def _name(number: int) -> str:
    return f"{number:08d}{_ENDING}"
