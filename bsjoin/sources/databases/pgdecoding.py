"""The keys of changed rows from PostgreSQL's log, by a temporary slot for logical decoding.

The slot lives as long as the connection: the server drops it, and with it the log that it has kept,
when that ends, in whichever way. What has been read is kept here until the table has it.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

from bsjoin.errors import SourceError
from bsjoin.sources.databases.pgoutput import Decoder, Key, Transaction
from bsjoin.sources.databases.pgrelation import Relation, read_snapshot
from bsjoin.sources.databases.statements import pieces_of, rows_of, run

_CREATE_S, _IDLE_S = 10, 600
_VISIBLE_S = 2.0


class LogicalDecoding:
    """The changes of a table since this was made; of more than ``most`` rows the keys are not kept.

    It fails where the server, or the user's rights, do not allow it.
    """

    def __init__(self, connection: Any, relation: Relation, most: int):
        self._connection, self._most = connection, most
        self._publication = relation.publications[0][0]
        key = [name for name, _ in relation.key]
        self._decoder = Decoder(relation.oids, key or None, most)
        self._slot = f"bsjoin_{uuid.uuid4().hex[:16]}"
        # It waits for transactions that are under way, which may take long.
        run(connection, f"SET statement_timeout = {_CREATE_S * 1000}")
        try:
            # In a notebook that nobody uses it must not keep the log for ever.
            with contextlib.suppress(Exception):  # before PostgreSQL 14
                run(connection, f"SET idle_session_timeout = {_IDLE_S * 1000}")
            ((lsn,),) = rows_of(
                connection,
                "SELECT lsn::text FROM pg_create_logical_replication_slot("
                f"'{self._slot}', 'pgoutput', true)",
            )
        finally:
            run(connection, "SET statement_timeout = 0")
        self._from = self._last = number_of(lsn)
        self._at_us: int | None = None
        self._pending: list[Transaction] = []
        # What was committed before the slot, and is not seen yet, comes with no message.
        self._unseen = read_snapshot(connection).running()
        self._wait()
        self._unseen = set()

    def look(self) -> tuple[str, int | None] | None:
        """The end of the last commit that has changed the table, and when it was.

        Returns:
            None if one of them is in the log, and no query sees its rows yet.
        """
        options = f"'publication_names', '{_quoted(self._publication)}'"
        statement = (
            "SELECT data FROM pg_logical_slot_get_binary_changes("
            f"'{self._slot}', NULL, NULL, 'proto_version', '1', {options})"
        )
        for piece in pieces_of(self._connection, statement):
            for message in piece.column(0):
                self._take(self._decoder.read(message.as_py()))
        if not self._wait():
            return None
        return text_of(self._last), self._at_us

    def _take(self, transaction: Transaction | None) -> None:
        if transaction is None:
            return
        self._pending.append(transaction)
        self._unseen.add(transaction.xid)
        self._last, self._at_us = transaction.lsn, transaction.committed_at_us
        if sum(len(one.keys or ()) for one in self._pending) > self._most:
            self._pending = [
                Transaction(transaction.lsn, transaction.xid, transaction.committed_at_us, None)
            ]

    def _wait(self) -> bool:
        """Whether queries see what the log has: a commit is written before it is seen."""
        end = time.monotonic() + _VISIBLE_S
        while self._unseen:
            snapshot = read_snapshot(self._connection)
            # A standby has replayed, and so shows, what it decodes.
            if snapshot.lsn is None:
                self._unseen.clear()
            self._unseen = {xid for xid in self._unseen if snapshot.lacks(xid)}
            if not self._unseen:
                break
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def keys(self, since: str) -> set[Key] | str:
        """The keys of all rows that have changed after a version; or why they are not told."""
        lsn = _position(since)
        if lsn is None or lsn < self._from:
            raise SourceError(
                f"what was committed after {since} is not kept: the replication slot begins at "
                f"{text_of(self._from)}, as it is made at each start, and after a lost connection"
            )
        self._from = lsn
        self._pending = [one for one in self._pending if one.lsn > lsn]
        found: set[Key] = set()
        for one in self._pending:
            if one.keys is None:
                return f"more than {self._most:,} rows have changed, or all, by TRUNCATE"
            found |= one.keys
        return found

    def has(self, version: str) -> bool:
        """Whether a version, perhaps another application's, is at the last commit, or after it."""
        lsn = _position(version)
        return lsn is not None and lsn >= self._last


def _position(version: str) -> int | None:
    """The position that a version is; None for one that comparing rows has told."""
    return number_of(version) if "/" in version else None


def number_of(lsn: str) -> int:
    """The number of a position in the log."""
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def text_of(lsn: int) -> str:
    """The inverse of :func:`number_of`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _quoted(name: str) -> str:
    """A name as an item of a list of names, in a text of SQL."""
    return ('"' + name.replace('"', '""') + '"').replace("'", "''")
