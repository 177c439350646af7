"""Queries that are looked at from time to time, and what a page shows of them."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bsjoin._version import __version__
from bsjoin.metrics.progress import is_idle
from bsjoin.metrics.records import CycleProgress
from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring.totals import MicroBatch, QueryTotals, Totals, id_of, quantiles, run_of
from bsjoin.spark import compat

__all__ = ["Watched"]

_DUTY = 100
"""So many times as long as it took to look, and to write what was seen, is the pause behind it."""


class Watched:
    """Queries, and what they have done; looks cost one percent of a core at the most.

    Args:
        queries: streaming queries, and what ``bsjoin.cycles`` returned.
        every_s: the pause between two looks, at least.
    """

    def __init__(self, queries: Sequence[Any], every_s: float = 1.0):
        self.totals = Totals()
        self._queries = list(queries)
        self._every_s = every_s
        self._next = 0.0
        self._changed = time.monotonic()
        self._lock = threading.Lock()
        self._states: dict[int, tuple[str, str]] = {}
        self._ids: dict[int, str] = {}
        self._json = -1, b""
        self.number = 0
        """Rises with everything that changes."""

    def look(self) -> None:
        """Read what is new, unless that was done just before."""
        with self._lock:
            began = time.monotonic()
            if began < self._next:
                return
            for place, query in enumerate(self._queries):
                try:
                    if self._take(place, query):
                        self._note_change()
                    state = _state(query)
                except Exception as error:  # its session has ended, whatever the transport says
                    state = "gone", error_text(error)
                if self._states.get(place) != state:
                    self._states[place] = state
                    self._note_change()
            ended = time.monotonic()
            self._next = max(began + self._every_s, ended + _DUTY * (ended - began))

    def _note_change(self) -> None:
        self.number += 1
        self._changed = time.monotonic()

    @property
    def quiet_s(self) -> float:
        """The seconds since something changed."""
        return time.monotonic() - self._changed

    @property
    def is_over(self) -> bool:
        """Whether all queries have ended; cycles alone do not say so."""
        return all(self._states.get(n, ("", ""))[0] in _OVER for n in range(len(self._queries)))

    def _take(self, place: int, query: Any) -> bool:
        news = self._news(query)
        if news:
            self._ids[place] = id_of(news[-1])
        return bool(self.totals.take(*news, session=compat.session_of(query)))

    def _news(self, query: Any) -> Sequence[Any]:
        """The progress of micro-batches that may be new: all that there is only where it must."""
        if not hasattr(type(query), "lastProgress"):
            return query.recentProgress  # type: ignore[no-any-return]
        last = query.lastProgress
        if last is None:
            return []
        known = self.totals.of(id_of(last))
        if known is None or known.last_batch is None or known.run != run_of(last):
            return query.recentProgress  # type: ignore[no-any-return]
        behind = last.batchId - known.last_batch - is_idle(last)
        return [] if behind <= 0 else [last] if behind == 1 else query.recentProgress

    def as_json(self) -> bytes:
        """All that the page shows."""
        with self._lock:
            if self._json[0] != self.number:
                began = time.monotonic()
                queries = [self._described(place) for place in range(len(self._queries))]
                data = {"bsjoin": __version__, "number": self.number, "queries": queries}
                text = json.dumps(_finite(data), default=str, separators=(",", ":"))
                self._json = self.number, text.encode()
                self._next += _DUTY * (time.monotonic() - began)
            return self._json[1]

    def _described(self, place: int) -> dict[str, Any]:
        state, error = self._states.get(place, ("running", ""))
        query = self._queries[place]
        found = {"state": state, "error": error, "name": _name(query, place)}
        known = self.totals.of(self._ids.get(place, ""))
        return found | {"batches": [], "joins": [], "routes": []} | _of(known)


_OVER = ("ended", "failed", "gone")


def _name(query: Any, place: int) -> str:
    with contextlib.suppress(Exception):
        return str(getattr(query, "name", None) or query.id)
    return f"cycles {place + 1}"


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
    topics: dict[str, dict[str, int]] = {}
    for (topic, outcome), rows in known.routes.items():
        topics.setdefault(topic, {})[outcome] = rows
    return {
        "total": known.batches,
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
        "joins": [_join(cycles) for _, cycles in sorted(joins.items())],
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
    took = 0.0 if before is None else batch.timestamp - before.timestamp
    return rows / took if took > 0 else None


def _join(cycles: Sequence[CycleProgress]) -> dict[str, Any]:
    """A join: what it is, its last values, and how they changed."""
    last = cycles[-1]
    changes = [
        {"n": now.batch_id, "t": now.timestamp, "version": now.table_version}
        for before, now in zip([None, *cycles[:-1]], cycles, strict=True)
        if now.table_version is not None
        and (before is None or before.table_version != now.table_version)
    ]
    counted = next((c.partition for c in reversed(cycles) if c.partition.rows), last.partition)
    return {
        "join": last.join,
        "on": ", ".join(last.on),
        "table": last.table,
        "runtime": last.runtime,
        "reason": last.runtime_reason,
        "mode": last.mode,
        "cache": next((asdict(c.cache) for c in reversed(cycles) if c.cache), None),
        "partition": asdict(counted),
        "placement": next((asdict(c.placement) for c in reversed(cycles) if c.placement), None),
        "refresh": None if last.refresh is None else asdict(last.refresh),
        "versions": changes[-10:],
        "history": [
            {
                "n": cycle.batch_id,
                "in": cycle.rows_in,
                "out": cycle.rows_out,
                "hit": cycle.hit_rate if cycle.rows_in else None,
                "cached": cycle.cache.hit_rate if cycle.cache and cycle.rows_in else None,
                "bytes": cycle.cache.bytes if cycle.cache else None,
                "skew": cycle.partition.skew,
                "by_hash": cycle.partition.skew_by_hash,
            }
            for cycle in cycles
        ],
    }
