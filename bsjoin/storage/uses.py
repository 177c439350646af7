"""Columns that running queries use, noted beside the table: they may not be taken away.

The process that plans a query notes the columns that the query brings, in a file in ``readers``
whose name has the process and the time. While queries run, the process writes it anew every
few minutes. A note counts until its process has ended, where that can be seen, and everywhere
until it is three times as old. So a killed application keeps nothing for long, and nobody waits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from bsjoin._clock import now_us
from bsjoin.errors import StoreError
from bsjoin.host.processes import ProcessId
from bsjoin.storage import fields
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.names import READERS

_log = logging.getLogger("bsjoin")

RENEWED_EVERY_S = 300.0
_COUNTS_FOR_US = 3 * round(RENEWED_EVERY_S * 1e6)
_NAME = re.compile(r"([0-9a-f]{32})-([0-9A-Za-z.]+)-([0-9]{1,18})")
_LARGEST = 4 << 20
_TRIES = 3


@dataclass(frozen=True)
class Uses:
    """The uses of a table by queries.

    Args:
        columns: the columns that they bring.
        unique: whether one of them relies on keys that do not repeat.
    """

    columns: frozenset[str] = frozenset()
    unique: bool = False

    def __or__(self, other: Uses) -> Uses:
        return Uses(self.columns | other.columns, self.unique or other.unique)

    def to_bytes(self) -> bytes:
        """As a JSON document."""
        return json.dumps({"columns": sorted(self.columns), "unique": self.unique}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Uses:
        """The inverse of :meth:`to_bytes`, of a file that is not trusted.

        Raises:
            ValueError: it is not one.
        """
        try:
            data = json.loads(content)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        return cls(frozenset(fields.texts(data, "columns")), fields.flag(data, "unique"))


class Note:
    """The note of this process beside one table.

    Args:
        location: the table's location.
        ends_with_process: whether the queries end with this process: those of a Spark Connect
            client go on.
    """

    def __init__(self, location: StorageLocation, *, ends_with_process: bool):
        self._location = location
        process = str(ProcessId.of(os.getpid())) if ends_with_process else "0"
        self.writer = uuid.uuid4().hex
        self._prefix = f"{READERS}/{self.writer}-{process}"
        self._name: str | None = None
        self._written_s = -RENEWED_EVERY_S  # of the monotonic clock: the other may be set back

    @property
    def is_due(self) -> bool:
        """Whether it is to be written anew by now."""
        return time.monotonic() - self._written_s >= RENEWED_EVERY_S

    def write(self, uses: Uses) -> None:
        """Write it anew; a failure is logged, since one who only reads may not be able to write."""
        self._written_s = time.monotonic()
        name = f"{self._prefix}-{now_us()}"
        try:
            self._location.create(name, uses.to_bytes())
            if self._name is not None:
                self._location.remove(self._name)
            self._name = name
        except (OSError, StoreError) as error:
            _log.info("bsjoin: what queries use of %r is not noted: %s", str(self._location), error)


def others(location: StorageLocation, writers: Iterable[str]) -> Uses:
    """Return what queries of other processes use now; notes that no longer count are removed.

    ``writers`` are those of the notes of this process.
    """
    found, own = Uses(), set(writers)
    for _ in range(_TRIES):
        more, is_whole = _others(location, own)
        found |= more
        if is_whole:
            break
    return found


def _others(location: StorageLocation, own: set[str]) -> tuple[Uses, bool]:
    """The uses, and whether no note was written anew meanwhile: there is one of another name."""
    found, is_whole = Uses(), True
    for name in location.names(READERS):
        parts = _NAME.fullmatch(name)
        if parts is None or parts[1] in own:
            continue
        if not _counts(parts[2], int(parts[3])):
            with contextlib.suppress(OSError, StoreError):
                location.remove(f"{READERS}/{name}")
            continue
        try:
            found |= Uses.from_bytes(location.read(f"{READERS}/{name}", _LARGEST))
        except FileNotFoundError:
            is_whole = False
        except (TypeError, ValueError) as error:
            _log.warning(
                "bsjoin: %r in %r does not say what queries use: %s", name, str(location), error
            )
    return found, is_whole


def _counts(process: str, written_us: int) -> bool:
    with contextlib.suppress(ValueError):
        if ProcessId.parse(process).is_alive() is False:
            return False
    return now_us() - written_us < _COUNTS_FOR_US
