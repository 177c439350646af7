"""Connections to databases: one for each process and database, within the limit of the host.

The sources of several joins share the connection of a process if they are tables of one database.
It stays open between batches. It is closed when another process of the host waits for a permit, or
after a minute without use.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator

from bsjoin.cache import ConnectionSemaphore
from bsjoin.sources.protocol import Source

_IDLE_S = 60.0
_TICK_S = 0.05


class SharedConnection:
    """The connection of this process to one database, for one source at a time."""

    def __init__(self, slots: ConnectionSemaphore):
        self._slots = slots
        self._sources: list[Source] = []
        self._gone: deque[Source] = deque()
        self._busy = threading.Lock()
        self._last_used = 0.0
        self._watching = False

    def add(self, source: Source) -> None:
        """Let a source use the connection from now on; all sources are of the same database."""
        with self._busy:
            self._forget()
            if self._sources:
                source.share_connection(self._sources[0])
            self._sources.append(source)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Hold the connection; waits for a permit, and for other threads of the process."""
        with self._busy:
            self._slots.acquire()
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="bsjoin-idle", daemon=True).start()
            try:
                yield
            finally:
                self._last_used = time.monotonic()
                self._forget()
                if self._slots.is_wanted():
                    self._give_back()

    def remove(self, source: Source) -> None:
        """A source is not used any more; with the last one the connection is closed.

        A connection in use stays open, and is closed when it is idle.
        """
        self._gone.append(source)
        if self._busy.acquire(blocking=False):
            try:
                self._forget()
            finally:
                self._busy.release()

    def _forget(self) -> None:
        """Forget the sources that were removed; the caller has the connection."""
        rest = self._sources
        while self._gone:
            source = self._gone.popleft()
            rest = [one for one in rest if one is not source]
        if not rest and self._slots.is_held:
            self._give_back()
        self._sources = rest

    def _give_back(self) -> None:
        try:
            for source in self._sources:
                # It may have broken; what it was asked for has been answered.
                with contextlib.suppress(Exception):
                    source.close()
        finally:
            self._slots.release()

    def _watch(self) -> None:
        """Close the connection when this process does not use it and another one waits."""
        while True:
            time.sleep(_TICK_S)
            if not self._busy.acquire(blocking=False):
                continue
            try:
                idle = time.monotonic() - self._last_used > _IDLE_S
                if self._slots.is_held and (idle or self._slots.is_wanted()):
                    self._give_back()
                if not self._slots.is_held:
                    self._watching = False
                    return
            finally:
                self._busy.release()
