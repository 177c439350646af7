"""The partition rules of a join, in a folder that the driver and all workers reach.

A rule is a small numbered file. As with the versions of a table, which one a micro-batch uses is a
pure function of the micro-batch's own timestamp, so that every task, a repeated one too, sends a
row where it went before. A rule that comes late, or not at all, makes a cycle slower, nothing else.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from bsjoin.hotspot.rule import Rule
from bsjoin.store.home import Home

__all__ = ["PublishedRule", "Rules", "now_us"]

_log = logging.getLogger("bsjoin")

_ENDING = ".rule"
_KEPT, _TRIES = 50, 5
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
        read = json.loads(content)
        return cls(Rule.from_json(read["rule"]), read["activates_at_us"], read["capacity"])


class Rules:
    """The rules in one folder, as one process sees them.

    Args:
        home: the folder.
    """

    def __init__(self, home: Home):
        self._home = home
        self._known: dict[int, PublishedRule] = {}
        self._read_for_us = -1

    def publish(self, rule: Rule, capacity: int, clock: Callable[[], int] = now_us) -> None:
        """Put a rule in force, from the next moment on.

        Where writing takes seconds, again and again, there is no new rule. Older ones are removed
        but for the last fifty, which a micro-batch that is run again may still want.
        """
        delay = _LOCAL_DELAY_US if self._home.is_local else _REMOTE_DELAY_US
        for _ in range(_TRIES):
            published = PublishedRule(rule, clock() + delay, capacity)
            if not self._home.create(_name(rule.version), published.to_bytes()):
                return  # another driver steers here, too: its rule is as good
            if clock() < published.activates_at_us:
                break
            # A micro-batch may have begun without it, and its tasks must all have one rule.
            self._home.remove(_name(rule.version))
            delay *= 4
        for number in self._numbers()[:-_KEPT]:
            self._home.remove(_name(number))

    def at(self, time_us: int) -> PublishedRule | None:
        """The rule for a micro-batch of this time; None before the first.

        The folder is read once per micro-batch.
        """
        if time_us > self._read_for_us:
            found = (
                (number, self._known.get(number) or self._load(number))
                for number in self._numbers()
            )
            self._known = {number: published for number, published in found if published}
            self._read_for_us = time_us
        chosen = None
        for _, published in sorted(self._known.items()):
            if published.activates_at_us <= time_us:
                chosen = published
        return chosen

    def last(self) -> PublishedRule | None:
        """The newest rule, in force or not yet; None without one."""
        found = (self._load(number) for number in reversed(self._numbers()))
        return next((published for published in found if published), None)

    def _load(self, number: int) -> PublishedRule | None:
        """A rule; None for a file that is damaged or gone: the rows go by an older one."""
        try:
            return PublishedRule.from_bytes(self._home.read(_name(number)))
        except (ValueError, KeyError, TypeError, OSError) as error:
            _log.warning("bsjoin: no rule %d in %r: %s", number, str(self._home), error)
            return None

    def _numbers(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            stems = [n.removesuffix(_ENDING) for n in self._home.names("") if n.endswith(_ENDING)]
            return sorted(int(stem) for stem in stems if stem.isdigit())
        return []


def _name(number: int) -> str:
    return f"{number:08d}{_ENDING}"
