"""Queries a source with retries, backoff, a limit on connections, and metrics.

Backoff is exponential with full jitter: the pause before retry k = 0, 1, ... is uniform between 0
and min(30 s, backoff x 2^k) (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015).
"""

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
    """Metrics of the queries for one batch.

    Args:
        keys: the number of queried keys.
        ms: the duration of each look-up in milliseconds, retries included.
        retries: the number of retries.
    """

    keys: int = 0
    ms: list[float] = field(default_factory=list)
    retries: int = 0


class SourceClient:
    """Queries one source for one process.

    The connection stays open between batches. It is closed when another process of the host waits
    for a permit, or after a minute without use.

    Args:
        source: this process's copy of the source.
        retry_policy: retries, backoff and the policy for failures.
        slots: the host's semaphore for connections.
    """

    def __init__(self, source: Source, retry_policy: RetryPolicy, slots: ConnectionSemaphore):
        self._source = source
        self._retry_policy = retry_policy
        self._slots = slots
        self._busy = threading.Lock()
        self._last_used = 0.0
        self._watching = False

    @property
    def max_keys(self) -> int:
        """The maximum number of keys per look-up."""
        return self._source.max_keys

    def look_up(self, keys: pa.Table, columns: Sequence[str], figures: Figures) -> pa.Table:
        """Look up keys, with retries.

        Raises:
            LookupFailedError: the look-up and all its retries failed.
            BSJoinError: a permanent error of the source.
        """
        begun = time.perf_counter()
        with self._connected():
            try:
                return self._with_retries(
                    lambda: self._source.lookup(keys, columns),
                    f"a look-up of {keys.num_rows} keys",
                    figures,
                )
            finally:
                figures.keys += keys.num_rows
                figures.ms.append((time.perf_counter() - begun) * 1e3)

    def keys_of(self, query: str, columns: Sequence[str]) -> pa.Table:
        """The keys that a query returns, with retries as in :meth:`look_up`."""
        with self._connected():
            return self._with_retries(
                lambda: self._source.keys_of(query, columns), "the query for keys", Figures()
            )

    def _with_retries(self, query: Callable[[], pa.Table], what: str, figures: Figures) -> pa.Table:
        retry_policy = self._retry_policy
        for attempt in range(retry_policy.retries + 1):
            try:
                return query()
            except BSJoinError:
                self._source.close()
                raise
            except Exception as fault:
                self._source.close()
                if attempt == retry_policy.retries:
                    raise LookupFailedError(
                        f"{self._source!r} did not answer {what}, nor its {retry_policy.retries} "
                        f"retries: {type(fault).__name__}: {fault}. "
                        "Spark repeats a failed micro-batch when the query is restarted; on_error= "
                        "of bsjoin.Incremental selects another behaviour than failing"
                    ) from None
                _log.info("bsjoin: %r: %s; retrying", self._source, fault)
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
        """Close the connection, unless it is in use."""
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
