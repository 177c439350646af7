"""What arrives at a streaming query and what waits, from its progress. Pure.

Progress entries are mappings, as ``json.loads(progress.json)`` gives them. By source:

====================================  ==============================  =============================
source                                arrival                         waiting
====================================  ==============================  =============================
reports latest offsets that count     growth of the latest offset     latest - end
rows, with or without a limit (Kafka)
no limit of a micro-batch             rows / time between starts of   what came while the
                                      micro-batches that had rows     micro-batch ran
a limit, and no such offset (files)   unknown once a micro-batch is   unknown; ``backlog=`` tells
                                      as large as the limit           it, and with it the arrival
====================================  ==============================  =============================

``inputRowsPerSecond`` is not used: triggers without rows count as its beginning, and behind a
limit it is the rate of the service (1,200 for 3,000 rows per second).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.model.checks import number
from scheduling.scalers import Load

__all__ = ["Flow", "Meter", "flow", "offsets"]

_FULL = 0.98  # of a limit: the micro-batch may have left something
_OVERDUE = 3.0  # windows

Progress = Mapping[str, Any]
Limits = Sequence[float | None]


@dataclass(frozen=True)
class Flow:
    """What came and went in some micro-batches.

    Args:
        seconds: from the start of the micro-batch before them to the start of the last one.
        arrived: rows that arrived in this time; None: the source hides it.
        done: rows of the micro-batches.
        waiting: rows that wait after the last one; None: the source hides it.
        working_s: seconds in which the micro-batches ran.
    """

    seconds: float
    arrived: float | None
    done: float
    waiting: float | None
    working_s: float


def offsets(offset: Any) -> dict[str, float] | None:
    """The whole numbers of an offset by their place, as Kafka's by topic and partition.

    Args:
        offset: as in the progress of a source: JSON, as text or parsed.

    Returns:
        None where there is anything that is no number, which no difference can be taken of.

    >>> offsets('{"topic": {"0": 5, "1": 7}}'), offsets(12), offsets({"version": "x"})
    ({'/topic/0': 5.0, '/topic/1': 7.0}, {'': 12.0}, None)
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if isinstance(offset, int | float) and not isinstance(offset, bool):
        return {"": float(offset)}
    if not isinstance(offset, Mapping):
        return None
    found: dict[str, float] = {}
    for key, value in offset.items():
        inner = offsets(value) if not isinstance(value, str) else None
        if inner is None:
            return None
        found |= {f"/{key}{path}": one for path, one in inner.items()}
    return found


def flow(before: Progress, progress: Sequence[Progress], limits: Limits = ()) -> Flow | None:
    """What came and went in some micro-batches of one run of a query.

    Args:
        before: the micro-batch with rows before them.
        progress: the micro-batches, in their order; those without rows are left out.
        limits: by source, the rows of a micro-batch at most; None: no limit, 0: a limit of another
            kind, as files. Default: none has a limit.

    Returns:
        None without a micro-batch with rows, or if the clock went back.

    Complexity: O(micro-batches + partitions of the sources).
    """
    ones = [one for one in progress if one["numInputRows"] > 0]
    seconds = _started_s(ones[-1]) - _started_s(before) if ones else 0.0
    if seconds <= 0:
        return None
    working = [_working_s(one) for one in ones]
    parts = [
        _of_source(k, before, ones, limits[k] if k < len(limits) else None, working[-1] / seconds)
        for k in range(len(ones[-1]["sources"]))
    ]
    hidden = any(part is None for part in parts)
    known = [part for part in parts if part is not None]
    done = sum(part[1] for part in known) if not hidden else sum(o["numInputRows"] for o in ones)
    if hidden:
        return Flow(seconds, None, done, None, sum(working))
    arrived, waiting = sum(part[0] for part in known), sum(part[2] for part in known)
    return Flow(seconds, arrived, done, waiting, sum(working))


def _of_source(
    k: int, before: Progress, ones: Sequence[Progress], limit: float | None, share: float
) -> tuple[float, float, float] | None:
    """Rows that arrived, were done and wait, of one source; None if hidden.

    ``share``: the run of the last micro-batch, as a share of the time between the starts.
    """
    if any(len(one["sources"]) <= k for one in (before, *ones)):
        return None
    old, new = before["sources"][k], ones[-1]["sources"][k]
    rows = float(sum(one["sources"][k]["numInputRows"] for one in ones))
    found = [offsets(one.get(name)) for one in (old, new) for name in ("endOffset", "latestOffset")]
    if all(found):
        start, seen, end, latest = (one or {} for one in found)
        done = _growth(start, end)
        arrived, waiting = _growth(seen, latest), _growth(end, latest)
        # Offsets by partition count rows, though some are of other rows: markers of transactions.
        counts = done == rows or (done > 0 and all(path.count("/") > 1 for path in end))
        if counts and min(done, arrived, waiting) >= 0:
            return arrived, done, waiting + arrived * share
    if limit is None or not any(_is_full(one["numInputRows"], limit) for one in (old, new)):
        return rows, rows, rows * share
    return None


def _is_full(rows: float, limit: float) -> bool:
    return rows > 0 and rows >= _FULL * limit


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """By how much the places that both have grew."""
    return sum(after[path] - one for path, one in before.items() if path in after)


def _started_s(progress: Progress) -> float:
    return datetime.datetime.fromisoformat(progress["timestamp"]).timestamp()


def _working_s(progress: Progress) -> float:
    return float(progress["durationMs"].get("triggerExecution", 0.0)) / 1e3


class Meter:
    """The load of a query, from its progress and the run times of its executors.

    Rates are smoothed over a sliding window; the newest micro-batches are told apart.

    Args:
        window_s: the window; default 30.
        limits: by source, the rows of a micro-batch at most; see :func:`flow`. Default: none has a
            limit.
        backlog: returns the rows that wait at sources that hide it, or None where it does not
            know. None (default): they stay unknown.

    >>> def batch(number, second, rows):
    ...     return {"batchId": number, "timestamp": f"2026-01-01T00:00:{second:02}.000Z",
    ...             "numInputRows": rows, "durationMs": {"triggerExecution": 2000},
    ...             "sources": [{"numInputRows": rows}]}
    >>> meter = Meter()
    >>> meter.load(3, [batch(0, 0, 500)], busy_s=0, cores=2)
    >>> load = meter.load(13, [batch(0, 0, 500), batch(1, 10, 4000)], busy_s=8, cores=2)
    >>> load.arrival, load.per_core, load.busy, load.waiting
    (400.0, 500.0, 0.4, 800.0)
    """

    def __init__(
        self,
        window_s: float = 30.0,
        *,
        limits: Limits = (),
        backlog: Callable[[], float | None] | None = None,
    ) -> None:
        self._window_s, self.limits, self._backlog = number("window_s", window_s), limits, backlog
        self._before: Progress | None = None
        self._heard_s, self._busy_s = 0.0, 0.0
        self._told: tuple[float, float] | None = None  # when the backlog was told, and what
        self._seen: deque[tuple[float, Flow, float, float]] = deque()  # when, busy, core seconds
        self._last: Load | None = None

    def forget(self) -> None:
        """Forget how busy the cores were, after a change of their number; arrivals stay."""
        self._seen = deque((when, one, 0.0, 0.0) for when, one, _, _ in self._seen)

    def load(
        self,
        now: float,
        progress: Sequence[Progress],
        busy_s: float,
        cores: float,
        status: Mapping[str, Any] | None = None,
    ) -> Load | None:
        """The load now; None where nothing new is known.

        Args:
            now: seconds, from any start.
            progress: the recent micro-batches in their order, with known ones or without.
            busy_s: seconds for which the executors' cores were busy since the last call.
            cores: the observed cores.
            status: ``StreamingQuery.status``: tells a silent source from a micro-batch that takes
                long. None (default): unknown.
        """
        self._busy_s += max(0.0, busy_s)
        found = self._news(now, progress)
        while self._seen and self._seen[0][0] < now - self._window_s:
            self._seen.popleft()
        if found is None:
            return self._without_news(now, cores, status or {})
        found = self._told_of(found, now)
        self._seen.append((now, found, self._busy_s, found.seconds * cores))
        self._heard_s, self._busy_s = now, 0.0
        flows = [one for _, one, _, _ in self._seen if one.arrived is not None]
        known = [(one, busy, room) for _, one, busy, room in self._seen if busy > 0]
        busy, room = sum(one[1] for one in known), sum(one[2] for one in known)
        done = sum(one.done for one, _, _ in known)
        if not (busy and room and done):
            return None
        arrival = newest = None
        use = busy / room
        if found.arrived is not None:
            newest = found.arrived / found.seconds
            arrival = sum(one.arrived or 0.0 for one in flows) / sum(one.seconds for one in flows)
        else:  # a query that works all the time is at its limit, whatever its cores wait for
            use = max(use, found.working_s / found.seconds)
        use = min(1.0, use)
        self._last = Load(found.seconds, arrival, done / busy, use, found.waiting, cores, newest)
        return self._last

    def _news(self, now: float, progress: Sequence[Progress]) -> Flow | None:
        ones = [one for one in progress if one["numInputRows"] > 0]
        if not ones:
            return None
        before, last = self._before, ones[-1]
        new = [one for one in ones if before is None or one["batchId"] > before["batchId"]]
        if before is not None and last["batchId"] == before["batchId"] and _same(before, last):
            return None
        self._before = last
        if before is None or not _same(before, last) or not new:  # a start, or a restart
            self._heard_s, self._busy_s, self._told = now, 0.0, None
            return None
        return flow(before, new, self.limits)

    def _told_of(self, found: Flow, now: float) -> Flow:
        """With what the user's function tells, where the source hides it."""
        waits = None if self._backlog is None or found.arrived is not None else self._backlog()
        if waits is None or not 0 <= waits < math.inf:
            self._told = None
            return found
        before, self._told = self._told, (now, waits)
        arrived = None
        if before is not None and now > before[0]:
            rate = max(0.0, found.done + waits - before[1]) / (now - before[0])
            arrived = rate * found.seconds
        return dataclasses.replace(found, arrived=arrived, waiting=float(waits))

    def _without_news(self, now: float, cores: float, status: Mapping[str, Any]) -> Load | None:
        last, quiet_s = self._last, now - self._heard_s
        if last is None or not cores or quiet_s <= 0:
            return None
        if quiet_s >= self._window_s and status.get("isDataAvailable") is False:
            return Load(quiet_s, 0.0, last.per_core, 0.0, 0.0, cores)
        # What came since a micro-batch began that runs for several windows waits.
        late = quiet_s >= _OVERDUE * self._window_s and status.get("isTriggerActive") is True
        if not late or last.arrival is None:
            return None
        waits = last.arrival * quiet_s
        return Load(quiet_s, last.arrival, last.per_core, 1.0, waits, cores)


def _same(one: Progress, other: Progress) -> bool:
    """Whether two entries are of the same run of a query."""
    return bool(one.get("runId") == other.get("runId"))
