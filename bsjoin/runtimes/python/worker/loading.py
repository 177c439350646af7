"""Loads keys that are not cached: claims them, queries the source, matches and caches the rows.

Only one process of the host queries the source for a key; the others wait for it (single flight).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bsjoin._clock import host_us
from bsjoin.cache import Found, HostCache, State
from bsjoin.errors import DataError, DuplicateKeyError, LookupFailedError, SourceError
from bsjoin.index import Int64s
from bsjoin.plan import SourceTable
from bsjoin.runtimes.python.worker.batch import Batch, Loaded, Tally
from bsjoin.runtimes.python.worker.grouping import CacheRows, grouped, places_of, range_columns
from bsjoin.runtimes.python.worker.matching import canonical, owners
from bsjoin.runtimes.python.worker.null_keys import with_nulls, without_nulls
from bsjoin.runtimes.python.worker.source_client import SourceClient
from bsjoin.values.durations import microseconds
from bsjoin.values.python_values import reprs
from bsjoin.values.retype import retyped, whole

_log = logging.getLogger("bsjoin")


_WAIT_S = (0.0005, 0.005)
_FAULTS = 1000
"""How many queries of a batch may fail with a fault of the data, besides one for each answered key.

Where the fault is of the table and not of some keys, a query for each key would take minutes.
"""


class CircuitOpenError(LookupFailedError):
    """The source has failed recently and is not queried until the cooldown has ended.

    The open state of a circuit breaker (M. T. Nygard, "Release It!", 2007).
    """


class Loader:
    """Loads keys from one source into the cache of the host, for one process."""

    def __init__(self, table: SourceTable, cache: HostCache, client: SourceClient):
        self._table = table
        self._cache = cache
        self._client = client

    def load(self, keys: Batch, ticks: Int64s, places: list[CacheRows], tally: Tally) -> Loaded:
        """Load d distinct keys: query them, or wait for the process that does.

        ``ticks`` has the last use of each, ``places`` the row sources known so far; others are
        added.
        """
        count = len(keys.hashes)
        loaded = Loaded.nothing(count)
        todo, pause = np.arange(count), _WAIT_S[0]
        while len(todo):
            part = keys.take(todo)
            claimed = self._cache.claim(part.hashes, part.keys, ticks[todo], host_us())
            known = np.flatnonzero(claimed.usable)
            self._from_cache(loaded, todo, claimed, known, places)
            mine = np.flatnonzero(claimed.states == State.MINE)
            if len(mine):
                unanswered, fault = self.query_in_pieces(
                    part.take(mine), ticks[todo[mine]], loaded, todo[mine], places, tally
                )
                if len(unanswered):
                    rest = mine[unanswered]
                    self._check_without_source(claimed, rest, tally, fault)
                    self._from_cache(loaded, todo, claimed, rest, places)
                pause = _WAIT_S[0]
            todo = todo[claimed.states == State.WAIT]
            if len(todo) and not len(mine):
                time.sleep(pause)
                pause = min(1.5 * pause, _WAIT_S[1])
        return loaded

    @staticmethod
    def _from_cache(
        loaded: Loaded,
        todo: Int64s,
        found: Found,
        which: Int64s,
        places: list[CacheRows],
    ) -> None:
        if not len(which):
            return
        rows = found.view.rows
        number = next((n for n, place in enumerate(places) if place is rows), len(places))
        if number == len(places):
            places.append(rows)
        loaded.note(todo[which], number, found.first[which], found.counts[which])

    def query_in_pieces(
        self,
        keys: Batch,
        ticks: Int64s,
        loaded: Loaded,
        where: Int64s,
        places: list[CacheRows],
        tally: Tally,
    ) -> tuple[Int64s, DataError | None]:
        """Query claimed keys in pieces of the source's ``max_keys``, and cache the results.

        Unless the plan fails with the source, a piece with a fault of the data is queried without
        the keys concerned, or, if they are not known, halved until they are alone: large pieces
        first, and no longer than ``_FAULTS`` says.

        Returns:
            The positions of the keys without an answer: none, unless the plan continues without the
            source; and the last fault of the data.
        """
        count, fault = len(keys.hashes), None
        waiting = np.ones(count, np.bool_)
        try:
            pieces = -(-count // self._client.max_keys)
            todo, faults = deque(np.array_split(np.arange(count), pieces)), 0
            while todo and faults <= _FAULTS + count - int(waiting.sum()):
                piece = todo.popleft()
                part, now = keys.take(piece), host_us()
                invalidations = self._cache.header.invalidations
                try:
                    counts, columns = self._query(part, tally)
                except DataError as error:
                    if self._table.retry_policy.on_error == "fail":
                        raise
                    if fault is None:
                        _log.warning("bsjoin: a key counts as unanswered: %s", error)
                    fault, faults = error, faults + 1
                    safe = self._table.nulls_equal
                    todo += [piece[rest] for rest in _without_fault(part, error, safe)]
                    continue
                tally.evicted += self._cache.put(
                    part.hashes, part.keys, counts, columns, ticks[piece], now, invalidations
                )
                waiting[piece] = False
                loaded.note(where[piece], len(places), np.cumsum(counts) - counts, counts)
                places.append(_Piece(columns))
            if todo:
                _log.warning(
                    "bsjoin: %d keys count as unanswered after %d queries with a fault of the data",
                    sum(map(len, todo)),
                    faults,
                )
        except LookupFailedError as error:
            if self._table.retry_policy.on_error == "fail":
                raise
            if not isinstance(error, CircuitOpenError):
                _log.warning("bsjoin: %s", error)
                rest_us = microseconds(self._table.retry_policy.failure_cooldown_s)
                self._cache.header.down_until_us = host_us() + rest_us
        finally:
            unanswered = np.flatnonzero(waiting)
            if len(unanswered):
                rest = keys.take(unanswered)
                self._cache.release(rest.hashes, rest.keys)
        return unanswered, fault

    def _query(self, keys: Batch, tally: Tally) -> tuple[Int64s, list[pa.Array]]:
        """Query some keys: the number of rows of each, and the rows' columns, key after key."""
        table = self._table
        if table.retry_policy.on_error != "fail" and host_us() < self._cache.header.down_until_us:
            raise CircuitOpenError(
                f"{table.source!r} failed recently and is not queried until the cooldown ends"
            )
        asked = pa.Table.from_arrays(with_nulls(keys.keys, table.nulls_equal), schema=table.keys)
        wanted = table.queried_columns
        answered = self._client.look_up(asked, wanted, tally.queries).combine_chunks()
        lacking = [n for n in (*table.keys.names, *wanted) if n not in answered.column_names]
        if lacking:
            raise SourceError(
                f"{table.source!r} returned no column {lacking[0]!r}, which is in its schema"
            )
        theirs = [canonical(whole(answered[name])) for name in table.keys.names]
        whose = owners(keys.keys, without_nulls(theirs, table.nulls_equal))
        payload = [
            retyped(whole(answered[name]), dtype)
            for name, dtype in zip(table.payload.names, table.payload.types, strict=True)
        ]
        if table.order is None:
            order = np.argsort(whose, kind="stable")
        else:
            points = range_columns(table.order, [whole(answered[n]) for n in table.order.names])
            row = [
                retyped(whole(answered[name]), dtype)
                for name, dtype in zip(table.order.row.names, table.order.row.types, strict=True)
            ]
            whose, order = grouped(whose, points, row, table.order.ties)
            payload += points
            if table.order.ordered:
                payload.append(places_of(whose, order, row, table.order.ties))
        order = order[int((whose < 0).sum()) :]
        counts = np.bincount(whose[order], minlength=len(keys.hashes)).astype(np.int64)
        if table.unique and counts.max(initial=0) > 1:
            double = int(counts.argmax())
            pairs = zip(table.keys.names, keys.keys, strict=True)
            key = ", ".join(f"{name!r}: {reprs(k[double : double + 1])[0]}" for name, k in pairs)
            raise DuplicateKeyError(
                f"{table.source!r} has {counts[double]} rows of the key {{{key}}}, and was "
                "declared unique: create it with unique=False"
            )
        chosen = pa.array(order)
        return counts, [column.take(chosen) for column in payload]

    def _check_without_source(
        self, claimed: Found, rest: Int64s, tally: Tally, fault: DataError | None
    ) -> None:
        """Handle keys whose query has failed, according to ``on_error``.

        ``claimed`` is their state before the query: expired rows, or none; ``fault`` is of their
        data.
        """
        if self._table.retry_policy.on_error == "null":
            claimed.counts[rest] = 0
            tally.failed += len(rest)
            return
        unknown = int((claimed.ids[rest] < 0).sum())
        if unknown and fault is not None:
            raise fault
        if unknown:
            raise LookupFailedError(
                f"{self._table.source!r} does not answer, and {unknown} of the requested keys were "
                'never in the cache, so on_error="stale" has no rows for them. '
                'on_error="null" would treat them as not found'
            )
        tally.outdated += len(rest)


def _without_fault(
    keys: Batch, fault: DataError, nulls_equal: Sequence[bool] | None
) -> list[Int64s]:
    """The parts in which some keys are to be queried after a fault of their data."""
    count = len(keys.hashes)
    concerned = np.zeros(count, np.bool_)
    if fault.keys is not None:
        theirs = [canonical(whole(fault.keys[n])) for n in fault.keys.column_names]
        whose = owners(keys.keys, without_nulls(theirs, nulls_equal))
        concerned[whose[whose >= 0]] = True
    if concerned.any():
        rest = np.flatnonzero(~concerned)
        return [rest] if len(rest) else []
    return np.array_split(np.arange(count), 2) if count > 1 else []


class _Piece:
    """The rows of a query's result."""

    def __init__(self, columns: Sequence[pa.Array]):
        self._columns = columns

    def gather(self, rows: Int64s, numbers: Sequence[int] | None = None) -> list[pa.Array]:
        chosen = pa.array(rows)
        wanted = range(len(self._columns)) if numbers is None else numbers
        return [self._columns[number].take(chosen) for number in wanted]

    def codes(self, number: int, count: int) -> Int64s:
        return np.asarray(self._columns[number].slice(0, count).to_numpy())
