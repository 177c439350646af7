"""Messages of PostgreSQL's plugin ``pgoutput``, as far as they tell which rows have changed."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_EPOCH_US = 946_684_800_000_000  # the beginning of 2000, from 1970

Key = tuple[str, ...]


@dataclass(frozen=True)
class Transaction:
    """A transaction that has changed the table.

    Args:
        lsn: where its commit ends in the log.
        xid: its number, modulo 2^32.
        committed_at_us: when, microseconds since the epoch.
        keys: of the rows that it has changed, as texts; None where they are not known, or many.
    """

    lsn: int
    xid: int
    committed_at_us: int
    keys: frozenset[Key] | None


class Decoder:
    """Reads the messages of one table.

    Args:
        relations: the numbers of the table and of its partitions.
        key: the columns that tell a row from all others; None if nothing does.
        most: of more rows in a transaction the keys are not kept.
    """

    def __init__(self, relations: Iterable[int], key: Sequence[str] | None, most: int):
        self._relations, self._key, self._most = frozenset(relations), key, most
        self._places: dict[int, list[int] | None] = {}
        self._keys: set[Key] | None = set()
        self._is_touched, self._xid = False, 0

    def read(self, message: bytes) -> Transaction | None:
        """Take the next message; a transaction, where it ends one that has changed the table."""
        kind = message[:1]
        if kind == b"B":
            self._keys, self._is_touched = set(), False
            self._xid = struct.unpack_from(">I", message, 17)[0]
        elif kind == b"C":
            lsn, at = struct.unpack_from(">Qq", message, 10)
            if self._is_touched:
                keys = None if self._keys is None else frozenset(self._keys)
                return Transaction(lsn, self._xid, max(0, at + _EPOCH_US), keys)
        elif kind == b"R":
            self._describe(message)
        elif kind == b"T":
            count, _ = struct.unpack_from(">IB", message, 1)
            if self._relations & {*struct.unpack_from(f">{count}I", message, 6)}:
                self._is_touched, self._keys = True, None
        elif kind in (b"I", b"U", b"D"):
            relation = struct.unpack_from(">I", message, 1)[0]
            if relation in self._relations:
                self._is_touched = True
                self._note(relation, message)
        return None

    def _describe(self, message: bytes) -> None:
        """Find the key among the columns of a relation."""
        relation = struct.unpack_from(">I", message, 1)[0]
        at = message.index(b"\0", message.index(b"\0", 5) + 1) + 2  # after both names, and a byte
        count, at, names = struct.unpack_from(">H", message, at)[0], at + 2, []
        for _ in range(count):
            end = message.index(b"\0", at + 1)
            names.append(message[at + 1 : end].decode())
            at = end + 9
        places = None
        if self._key is not None and {*self._key} <= {*names}:
            places = [names.index(name) for name in self._key]
        self._places[relation] = places

    def _note(self, relation: int, message: bytes) -> None:
        """Remember the keys of a row that was changed: as it was, if that is told, and as it is."""
        places = self._places.get(relation)
        if places is None:
            self._keys = None
        if self._keys is None:
            return
        at = 5
        while at < len(message):
            values, at = _row(message, at + 1)
            key = [values[place] for place in places or ()]
            if None in key:
                self._keys = None
                return
            self._keys.add(tuple(text.decode() for text in key if text is not None))
        if len(self._keys) > self._most:
            self._keys = None


def _row(message: bytes, at: int) -> tuple[list[bytes | None], int]:
    """The texts of a row, None for those that are null or not sent, and where it ends."""
    values: list[bytes | None] = []
    count, at = struct.unpack_from(">H", message, at)[0], at + 2
    for _ in range(count):
        kind, at = message[at : at + 1], at + 1
        if kind == b"t":
            size = struct.unpack_from(">I", message, at)[0]
            values.append(message[at + 4 : at + 4 + size])
            at += 4 + size
        else:
            values.append(None)
    return values, at
