"""Maintenance of an incremental cache: warm-up, refresh, invalidation."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bsjoin._clock import host_us
from bsjoin.cache import HostCache, State, only_one
from bsjoin.errors import DataError, LookupFailedError
from bsjoin.index import Int64s
from bsjoin.plan import SourceTable
from bsjoin.runtimes.python.worker.batch import Batch, Loaded, Tally
from bsjoin.runtimes.python.worker.loading import Loader
from bsjoin.runtimes.python.worker.matching import canonical, distinct
from bsjoin.runtimes.python.worker.null_keys import hashed, without_nulls
from bsjoin.runtimes.python.worker.source_client import SourceClient
from bsjoin.values.retype import whole

_log = logging.getLogger("bsjoin")


_REMOTE_LOG_S = 1.0


class Upkeep:
    """Maintains the cache of one join, for one process."""

    def __init__(self, table: SourceTable, cache: HostCache, client: SourceClient, loader: Loader):
        self._table = table
        self._cache = cache
        self._client = client
        self._loader = loader
        self._refreshing: threading.Thread | None = None
        self._refreshed: Tally | None = None
        self._read_log_at = 0.0
        if cache.header.last_invalidation == 0:
            # Invalidations before the cache was created do not apply to it.
            cache.begin_invalidations(table.invalidation_log.last())

    def take_tally(self) -> Tally:
        """The metrics of the last refresh, returned once; afterwards an empty tally."""
        tally, self._refreshed = self._refreshed or Tally(), None
        return tally

    def refresh_later(self, batch: Batch, ticks: Int64s) -> None:
        """Refresh stale keys in the background while their old rows are used (RFC 5861)."""
        if self._refreshing is not None and self._refreshing.is_alive():
            return

        def run() -> None:
            keys, last, _ = batch.distinct(ticks, exact=self._table.exact)
            tally = Tally()
            try:
                claimed = self._cache.claim(keys.hashes, keys.keys, last, host_us(), refresh=True)
                mine = np.flatnonzero(claimed.states == State.MINE)
                if len(mine):
                    size = len(mine)
                    nowhere = Loaded.nothing(size)
                    self._loader.query_in_pieces(
                        keys.take(mine), last[mine], nowhere, np.arange(size), [], tally
                    )
            except Exception as error:
                _log.warning("bsjoin: refreshing %d keys failed: %s", len(keys.hashes), error)
            self._refreshed = tally

        self._refreshing = threading.Thread(target=run, name="bsjoin-refresh", daemon=True)
        self._refreshing.start()

    def apply_invalidations(self) -> None:
        """Apply the new records of the invalidation log to the cache of the host."""
        invalidation_log, header = self._table.invalidation_log, self._cache.header
        if not invalidation_log.location.is_local:
            if time.monotonic() - self._read_log_at < _REMOTE_LOG_S:
                return
            self._read_log_at = time.monotonic()
        for number, keys in invalidation_log.since(header.last_invalidation - 1):
            if keys is None:
                self._cache.invalidate(None, [])
            else:
                columns = [canonical(column.combine_chunks()) for column in keys.columns]
                self._cache.invalidate(*hashed(columns, self._table.nulls_equal))
            header.last_invalidation = number + 1

    def warm_up(self, lock: Path) -> None:
        """Load the keys of the warm-up, once per host."""
        with only_one(lock) as alone:
            # While one process loads the keys, the others query the keys that they need.
            if alone and not self._cache.header.warm:
                try:
                    self._load_keys(self._warm_keys())
                except (DataError, LookupFailedError) as error:
                    _log.warning("bsjoin: warming up failed: %s", error)
                self._cache.header.warm = 1

    def _warm_keys(self) -> pa.Table:
        warm_up = self._table.warm_up
        if isinstance(warm_up, str):
            return self._client.keys_of(warm_up, self._table.keys.names)
        assert warm_up is not None
        return warm_up

    def _load_keys(self, table: pa.Table) -> None:
        columns = [canonical(whole(table[name])) for name in self._table.keys.names]
        if not len(columns[0]):
            return
        which, _ = distinct(without_nulls(columns, self._table.nulls_equal))
        # Earlier keys are evicted last, so they get the most recent uses.
        chosen = pa.array(np.sort(which)[::-1])
        columns = [column.take(chosen) for column in columns]
        keys = Batch(*hashed(columns, self._table.nulls_equal), None)
        _, ticks = self._cache.find(keys.hashes, keys.keys, host_us())
        self._loader.load(keys, ticks, [], Tally())
