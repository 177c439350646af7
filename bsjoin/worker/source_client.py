"""Asking a source: repetitions, pauses, a limit on connections, and figures of all that."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bsjoin._plan import RetryPolicy
from bsjoin.errors import BSJoinError, LookupFailedError
from bsjoin.shared import ConnectionSemaphore
from bsjoin.sources.protocol import Source

__all__ = ["Figures", "SourceClient"]

_log = logging.getLogger("bsjoin")

_LONGEST_PAUSE_S = 30.0
_IDLE_S = 60.0
_TICK_S = 0.05


@dataclass
class Figures:
    """What asking took, of one batch.

    Args:
        asked: keys asked for.
        ms: how long each look-up took, its repetitions included.
        retries: repetitions.
    """

    asked: int = 0
    ms: list[float] = field(default_factory=list)
    retries: int = 0


class SourceClient:
    """Asks one source for one process.

    The connection is kept between batches. It is given back when another process of the host
    waits for it, or after a minute without work.

    Args:
        source: the source; this process's own copy.
        retry_policy: how to ask.
        slots: the host's permits to be connected.
    """

    def __init__(self, source: Source, retry_policy: RetryPolicy, slots: ConnectionSemaphore):
        self._source = source
        self._patience = retry_policy
        self._slots = slots
        self._busy = threading.Lock()
        self._last_used = 0.0
        self._watching = False

    @property
    def max_keys(self) -> int:
        """How many keys one look-up may have."""
        return self._source.max_keys

    def ask(self, keys: pa.Table, columns: Sequence[str], figures: Figures) -> pa.Table:
        """Look keys up, again and again if need be.

        Raises:
            LookupFailedError: it failed, and so did the repetitions.
            BSJoinError: what repeating cannot help.
        """
        begun = time.perf_counter()
        with self._connected():
            try:
                return self._repeatedly(
                    lambda: self._source.lookup(keys, columns),
                    f"a look-up of {keys.num_rows} keys",
                    figures,
                )
            finally:
                figures.asked += keys.num_rows
                figures.ms.append((time.perf_counter() - begun) * 1e3)

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that a query yields; again and again if need be, as for :meth:`ask`."""
        with self._connected():
            return self._repeatedly(
                lambda: self._source.keys_of(query, columns), "the query for keys", Figures()
            )

    def _repeatedly(
        self, question: Callable[[], pa.Table], what: str, figures: Figures
    ) -> pa.Table:
        retry_policy = self._patience
        for attempt in range(retry_policy.retries + 1):
            try:
                return question()
            except BSJoinError:
                self._source.close()
                raise
            except Exception as fault:
                self._source.close()
                if attempt == retry_policy.retries:
                    raise LookupFailedError(
                        f"{self._source!r} did not answer {what}, nor its {retry_policy.retries} "
                        f"repetitions: {type(fault).__name__}: {fault}. "
                        "Spark runs a failed micro-batch again when the query is started again; "
                        "on_error= of bsjoin.Incremental says what to do instead of failing"
                    ) from None
                _log.info("bsjoin: %r: %s; asking again", self._source, fault)
                figures.retries += 1
                most = min(_LONGEST_PAUSE_S, retry_policy.backoff_s * 2**attempt)
                time.sleep(random.uniform(0, most))
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        with self._busy:
            self._slots.acquire()
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="bsjoin-idle", daemon=True).start()
            try:
                yield
            finally:
                self._last_used = time.monotonic()
                if self._slots.is_wanted():
                    self._give_back()

    def close(self) -> None:
        """Give the connection back, unless it is in use."""
        if self._busy.acquire(blocking=False):
            try:
                if self._slots.is_held:
                    self._give_back()
            finally:
                self._busy.release()

    def _give_back(self) -> None:
        self._source.close()
        self._slots.release()

    def _watch(self) -> None:
        """Give the connection back when this process does not need it and another one does."""
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
