"""What the hosts of a job have cached for its partitions, so that a move has its true price.

A table that all partitions use is loaded once by each host: of its bytes every partition has an
even share, so that a host's even share of the partitions loads it once. Entries of a cache that
the partitions of a host fill are those of the partitions that loaded them, in proportion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["Cached", "CachesSeen", "EntriesSeen"]

_COUNTS = 16  # numbers of partitions whose entries are kept


@dataclass(frozen=True)
class EntriesSeen:
    """The cache of the host where a partition ran.

    Args:
        held_bytes: of all its entries, those of other partitions included.
        loaded: how many entries the partition has loaded in this cycle.
    """

    held_bytes: float
    loaded: int


@dataclass(frozen=True)
class CachesSeen:
    """What a job says of its caches after a cycle.

    Args:
        table_bytes: what each host loads once, whichever partitions it runs; default 0.
        entries: by partition, the cache of entries on its host; default none.
    """

    table_bytes: float = 0.0
    entries: Mapping[int, EntriesSeen] = field(default_factory=dict, hash=False)


class Cached:
    """The bytes that hosts have cached for partitions, from what the cycles of a job said."""

    def __init__(self) -> None:
        self._hosts: frozenset[str] = frozenset()
        self._table_bytes = 0.0
        self._open: set[str] = set()
        self._held: dict[str, float] = {}
        self._loaded: dict[int, dict[tuple[int, str], float]] = {}

    def keep(self, hosts: Collection[str]) -> None:
        """Forget the hosts that have no executor any more."""
        self._hosts = frozenset(hosts)
        self._open &= self._hosts
        self._held = {host: size for host, size in self._held.items() if host in self._hosts}
        for loaded in self._loaded.values():
            for key in [key for key in loaded if key[1] not in self._hosts]:
                del loaded[key]

    def record(self, count: int, hosts: Mapping[int, str], seen: CachesSeen) -> None:
        """Take a cycle of ``count`` partitions into account, which ran on ``hosts``. O(partitions).

        Entries are kept for each number of partitions: number 3 of 8 has other keys than 3 of 12.
        """
        self._table_bytes = seen.table_bytes
        if seen.table_bytes:
            self._open.update(hosts.values())
        held: dict[str, float] = {}
        loaded = self._loaded.pop(count, {})
        for partition, entries in seen.entries.items():
            host = hosts.get(partition)
            if host is not None:
                held[host] = max(held.get(host, 0.0), entries.held_bytes)
                key = partition, host
                loaded[key] = loaded.get(key, 0.0) + entries.loaded
        self._held |= held
        self._loaded[count] = loaded
        while len(self._loaded) > _COUNTS:
            del self._loaded[next(iter(self._loaded))]

    def of(self, count: int) -> list[dict[str, float]]:
        """By host, what is cached there of each of ``count`` partitions; see ``Task.cached``."""
        share = self._table_bytes * min(1.0, max(1, len(self._hosts)) / count)
        table = dict.fromkeys(sorted(self._open), share) if share else {}
        loaded = self._loaded.get(count, {})
        if not loaded:
            return [table] * count  # one for all: a search looks at it once
        found = [dict(table) for _ in range(count)]
        total: dict[str, float] = {}
        users: dict[str, int] = {}
        for (_, host), entries in loaded.items():
            total[host] = total.get(host, 0.0) + entries
            users[host] = users.get(host, 0) + 1
        for (partition, host), entries in loaded.items():
            # Where nothing was loaded the entries were there before, and are anybody's.
            part = entries / total[host] if total[host] else 1 / users[host]
            size = self._held.get(host, 0.0) * part
            if size and partition < count:
                found[partition][host] = found[partition].get(host, 0.0) + size
        return found
