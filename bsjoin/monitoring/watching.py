"""Queries that are looked at from time to time, and what a page shows of them."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from bsjoin.metrics.progress import is_idle
from bsjoin.metrics.records import CycleProgress, cached_ratio, hit_ratio
from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.totals import (
    JoinTotals,
    MicroBatch,
    QueryTotals,
    Totals,
    id_of,
    number_of,
    quantiles,
    run_of,
)
from bsjoin.spark import compat

_log = logging.getLogger("bsjoin")

_DUTY = 100
"""So many times the CPU that a look, and writing what was seen, took is the pause behind it."""
_LONGEST_S = 30.0
"""But no later than this."""
_SILENT_S = 30.0
"""A look that takes longer is told: a client of Spark Connect asks again for ten minutes."""


class Watched:
    """Queries, and what they have done; looks cost about one percent of a core."""

    def __init__(self, queries: Sequence[Any], every_s: float = 1.0):
        self.totals = Totals()
        self._queries = list(queries)
        self._every_s = every_s
        self._next = 0.0
        self._changed = time.monotonic()
        self._began = math.inf
        self._is_silent = False
        self._states = [("running", "")] * len(queries)
        self._faults = [""] * len(queries)
        self._ids = [""] * len(queries)
        self._names = [_name(query, place) for place, query in enumerate(queries)]
        self._shown = -1, b""
        self.number = time.time_ns() // 1_000_000
        """Rises with everything that changes; of the next page at this port it is another one."""

    def is_looking(self) -> bool:
        """Whether a look goes on; one that takes long is told."""
        now = time.monotonic()
        self._note_silence(now - self._began > _SILENT_S)
        return self._began <= now

    def look(self) -> None:
        """Read what is new, unless that was done just before; of one thread at a time."""
        began, now = time.thread_time(), time.monotonic()
        if now < self._next:
            return
        self._began = now
        try:
            for place, query in enumerate(self._queries):
                self._look_at(place, query)
            spent = time.thread_time() - began
            self._next = time.monotonic() + max(self._every_s, min(_DUTY * spent, _LONGEST_S))
        finally:
            self._began = math.inf
            self._note_silence(False)

    def _look_at(self, place: int, query: Any) -> None:
        try:
            state = _state(query)  # first: the last micro-batch of one that has ended is read then
        except Exception as error:  # its session has ended, whatever the transport says
            state = "gone", error_text(error)
        fault = ""
        try:
            is_new = state[0] != "gone" and self._take(place, query)
            if state[0] == "running":
                is_new |= self.totals.renew(self._ids[place])
            if is_new:
                self._note_change()
        except Exception as error:
            fault = f"its figures cannot be read: {error_text(error)}"
            if self._faults[place] != fault:
                _log.warning("bsjoin: dashboard: query %s: %s", self._names[place], fault)
        if (self._states[place], self._faults[place]) != (state, fault):
            self._states[place], self._faults[place] = state, fault
            self._note_change()

    def _note_silence(self, is_silent: bool) -> None:
        if self._is_silent != is_silent:
            self._is_silent = is_silent
            self._note_change()

    def _note_change(self) -> None:
        with self.totals.lock:
            self.number += 1
            self._changed = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """The seconds since something changed."""
        return time.monotonic() - self._changed

    @property
    def is_over(self) -> bool:
        """Whether all queries have ended; cycles alone do not say so."""
        return all(state != "running" for state, _ in self._states)

    def _take(self, place: int, query: Any) -> bool:
        news = self._news(query)
        is_of_spark = _is_of_spark(query)
        if is_of_spark or news:  # the same query may be here twice, and is read once
            self._ids[place] = str(query.id) if is_of_spark else id_of(news[-1])
        name = None if is_of_spark else self._names[place]
        return bool(self.totals.take(*news, session=compat.session_of(query), name=name))

    def _news(self, query: Any) -> Sequence[Any]:
        """The progress of micro-batches that may be new: all that there is only where it must."""
        if not _is_of_spark(query):
            return query.recentProgress  # type: ignore[no-any-return]
        last = query.lastProgress
        if last is None:
            return []
        known = self.totals.of(id_of(last))
        before = None if known is None else known.runs.get(run_of(last))
        if before is None:
            return query.recentProgress  # type: ignore[no-any-return]
        idle = is_idle(last)
        behind = number_of(last) - before - idle
        if behind <= 0:
            return []
        # An idle one comes every ten seconds, and may have pushed others out of sight.
        return [last] if behind == 1 and not idle else compat.progress_since(query, before)

    def as_json(self) -> bytes:
        """All that the page shows."""
        with self.totals.lock:
            number = self.number
            if self._shown[0] != number:
                began = time.thread_time()
                queries = [self._described(place) for place in range(len(self._queries))]
                told = {"number": number, "is_silent": self._is_silent, "queries": queries}
                data = _finite(told)
                text = json.dumps(data, default=_text, separators=(",", ":"))
                self._shown = number, text.encode()
                spent = time.thread_time() - began
                self._next = min(self._next + _DUTY * spent, time.monotonic() + _LONGEST_S)
            return self._shown[1]

    def _described(self, place: int) -> dict[str, Any]:
        state, error = self._states[place]
        error = error or self._faults[place]
        found = {"state": state, "error": error, "name": self._names[place]}
        known = self.totals.of(self._ids[place])
        return found | {"batches": [], "joins": [], "routes": []} | _of(known)


def _is_of_spark(query: Any) -> bool:
    return hasattr(type(query), "lastProgress")


def _name(query: Any, place: int) -> str:
    if not _is_of_spark(query):
        return f"cycles {place + 1}"
    with contextlib.suppress(Exception):  # its session has ended
        return str(query.name or query.id)
    return f"query {place + 1}"


def _text(value: Any) -> str:
    """What JSON does not know: times as browsers read them."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _state(query: Any) -> tuple[str, str]:
    """The state of a query, and why it is so."""
    if not hasattr(type(query), "isActive") or query.isActive:
        return "running", ""
    error = query.exception()
    return ("ended", "") if error is None else ("failed", error_text(error))


def _of(known: QueryTotals | None) -> dict[str, Any]:
    if known is None:
        return {}
    recent = list(known.recent)
    durations = [one.duration_s for one in recent if one.duration_s is not None]
    joins: dict[int, list[CycleProgress]] = {}
    for batch in recent:
        for cycle in batch.joins:
            joins.setdefault(cycle.join, []).append(cycle)
    topics: dict[str, dict[str, int | None]] = {}
    for (topic, outcome), rows in known.routes.items():
        topics.setdefault(topic, {"waiting_now": known.waiting.get(topic)})[outcome] = rows
    return {
        "unseen": known.unseen,
        "latency": quantiles(durations) if durations else None,
        "batches": [
            {
                "n": batch.number,
                "t": batch.timestamp,
                "s": batch.duration_s,
                "rate": _rate(batch, before),
            }
            for batch, before in zip(recent, [None, *recent[:-1]], strict=True)
        ],
        "joins": [_join(cycles, known.joins.get(n)) for n, cycles in sorted(joins.items())],
        "routes": [{"topic": topic, **rows} for topic, rows in sorted(topics.items())],
    }


def _finite(value: Any) -> Any:
    """Data without numbers that JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_finite, value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rate(batch: MicroBatch, before: MicroBatch | None) -> float | None:
    """Rows a second, from the start of the micro-batch before to that of this one."""
    rows = batch.rows
    if rows is None:
        rows = max((cycle.rows_in for cycle in batch.joins), default=0)
    if before is None or batch.number != before.number + 1:
        return None  # some between them are not known
    took = batch.timestamp - before.timestamp
    return rows / took if took > 0 else None


def _join(cycles: Sequence[CycleProgress], known: JoinTotals | None) -> dict[str, Any]:
    """A join: what it is, its last values, and how they changed."""
    last = cycles[-1]
    refresh = last.refresh if known is None else known.last.refresh
    caches = [cycle.cache for cycle in cycles if cycle.cache]
    # Of a cache that no task has used in a micro-batch, nothing is known there.
    cache = next((one for one in reversed(caches) if one.hosts), caches[-1] if caches else None)
    rare = ("evictions", "failed_keys", "stale_rows")
    summed = {name: sum(getattr(one, name) for one in caches) for name in rare}
    counted = next((c.partition for c in reversed(cycles) if c.partition.rows), last.partition)
    return {
        "join": last.join,
        "on": ", ".join(last.on),
        "table": last.table,
        "runtime": last.runtime,
        "reason": last.runtime_reason,
        "cache": cache and asdict(cache) | summed,
        "loaded": next((asdict(c) for c in reversed(caches) if c.lookups), None),
        "partition": asdict(counted),
        "placement": next((asdict(c.placement) for c in reversed(cycles) if c.placement), None),
        "refresh": refresh and asdict(refresh),
        "versions": [
            {
                "n": one.batch_id,
                "t": one.timestamp,
                "version": one.table_version,
                "source": one.source and one.source.version,
            }
            for one in (known.versions if known else ())
        ],
        "history": [
            {
                "n": cycle.batch_id,
                "in": cycle.rows_in,
                "out": cycle.rows_out,
                "hit": hit_ratio(cycle),
                "cached": cached_ratio(cycle),
                "bytes": cycle.cache.bytes if cycle.cache and cycle.cache.hosts else None,
                "skew": cycle.partition.skew,
                "by_hash": cycle.partition.skew_by_hash,
            }
            for cycle in cycles
        ],
    }
