"""The rows that arrive at a streaming query and those that wait, from its progress. Pure.

By source: growth of the latest offset, and latest - end, where it reports offsets that count rows,
as Kafka; else the rows of micro-batches over the time between their starts; and unknown, never 0,
where a limit hides what waits (files). Progress entries are mappings, as ``json.loads`` gives of
their JSON. ``inputRowsPerSecond`` is not used: behind a limit it is the rate of the service (1,200
for 3,000 rows per second).
"""

import datetime
import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.model.checks import is_number, number
from scheduling.scalers import Load

_FULL = 0.98  # of a limit: the micro-batch may have left something
_OVERDUE = 3.0  # windows

Progress = Mapping[str, Any]
# By source, the rows of a micro-batch at most; None or missing: no limit, 0: another kind (files).
Limits = Sequence[float | None]


@dataclass(frozen=True)
class Flow:
    """The rows that came and went in some micro-batches; what the source hides is None.

    ``seconds``, in which rows ``arrived``, are from the start of the micro-batch before them to
    that of the last, after which rows are ``waiting``. They ran for ``working_s``, with the rows
    that are ``done``.
    """

    seconds: float
    arrived: float | None
    done: float
    waiting: float | None
    working_s: float


def entry(number: int, began_s: float, took_s: float, rows: float, **source: Any) -> Progress:
    """The progress entry of a micro-batch of one source, with what the ``source`` tells."""
    return {
        "batchId": number,
        "timestamp": datetime.datetime.fromtimestamp(began_s, datetime.UTC).isoformat(),
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1e3 * took_s},
        "sources": [{"numInputRows": rows, **source}],
    }


def offsets(offset: Any) -> dict[str, float] | None:
    """The numbers of an offset (a text or parsed) by their place; None if one is no number."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if is_number(offset):
        return {"": float(offset)}
    if not isinstance(offset, Mapping) or any(isinstance(one, str) for one in offset.values()):
        return None
    found: dict[str, float] = {}
    for key, value in offset.items():
        if (inner := offsets(value)) is None:
            return None
        found |= {f"/{key}{path}": one for path, one in inner.items()}
    return found


def flow(before: Progress, progress: Sequence[Progress], limits: Limits = ()) -> Flow | None:
    """Add up the micro-batches with rows after the one ``before``, of one run.

    None without any, or if the clock went back. O(micro-batches + partitions of the sources).
    """
    ones = [one for one in progress if one["numInputRows"] > 0]
    seconds = _started_s(ones[-1]) - _started_s(before) if ones else 0.0
    if seconds <= 0:
        return None
    working = [float(one["durationMs"].get("triggerExecution", 0.0)) / 1e3 for one in ones]
    sources = range(len(ones[-1]["sources"]))
    most = [*limits, *(None for _ in sources)]
    parts = [_of_source(k, [before, *ones], most[k]) for k in sources]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Flow(seconds, None, sum(one["numInputRows"] for one in ones), None, sum(working))
    arrived, done, left = (sum(part[at] for part in known) for at in range(3))
    waiting = left + arrived * working[-1] / seconds  # what came while the last one ran, too
    return Flow(seconds, arrived, done, waiting, sum(working))


def _sampled(before: Progress, progress: Sequence[Progress], limits: Limits) -> Flow | None:
    """As :func:`flow`, where more has run after ``before`` than is told: as much as of the rest."""
    part, seconds = flow(progress[0], progress[1:], limits), _started_s(progress[-1])
    seconds -= _started_s(before)
    if part is None or seconds <= 0:
        return None
    by = seconds / part.seconds
    arrived = None if part.arrived is None else part.arrived * by
    return Flow(seconds, arrived, part.done * by, part.waiting, part.working_s * by)


def _of_source(
    k: int, ones: Sequence[Progress], limit: float | None
) -> tuple[float, float, float] | None:
    """Rows of a source that arrived, were done, and were left by the last start; None: hidden."""
    if any(len(one["sources"]) <= k for one in ones):
        return None
    first, *new = (one["sources"][k] for one in ones)
    last, rows = new[-1], float(sum(one["numInputRows"] for one in new))
    start, seen, end, latest = (
        offsets(one.get(name)) for one in (first, last) for name in ("endOffset", "latestOffset")
    )
    if start and seen and end and latest:
        done, arrived, left = _growth(start, end), _growth(seen, latest), _growth(end, latest)
        # Offsets by partition count rows, though some are of other rows: markers of transactions.
        counts = done == rows or (done > 0 and all(path.count("/") > 1 for path in end))
        if counts and min(done, arrived, left) >= 0:
            return arrived, done, left
    largest = max(first["numInputRows"], last["numInputRows"])
    is_full = limit is not None and largest > 0 and largest >= _FULL * limit
    return None if is_full else (rows, rows, 0.0)


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """By how much the places that both have grew."""
    return sum(after[path] - one for path, one in before.items() if path in after)


def _started_s(progress: Progress) -> float:
    return datetime.datetime.fromisoformat(progress["timestamp"]).timestamp()


class Meter:
    """The load of a query, from its progress and the run times of its executors.

    Rates are smoothed over a sliding window of ``window_s``. ``backlog`` returns the rows that wait
    at sources that hide it, or None. What tasks cost without a row counts as work of their rows: at
    low load ``per_core`` is small, and the need is overestimated.
    """

    def __init__(
        self, window_s: float = 30.0, *, backlog: Callable[[], float | None] | None = None
    ) -> None:
        self._window_s, self._backlog = number("window_s", window_s), backlog
        self.limits: Limits = ()
        self._before: Progress | None = None
        self._heard_s, self._busy_s = 0.0, 0.0
        self._told: tuple[float, float] | None = None  # when the backlog was told, and what
        # When each was seen, and for how long cores were busy with it and could be (0: not known).
        self._seen = deque[tuple[float, Flow, float, float]]()
        self._last: Load | None = None

    def forget(self) -> None:
        """Forget how busy the cores were, after a change of their number; arrivals stay."""
        self._seen = deque((seen_s, one, 0.0, 0.0) for seen_s, one, *_ in self._seen)

    def load(
        self, now: float, progress: Sequence[Progress], busy_s: float, cores: float,
        status: Mapping[str, Any] | None = None,
    ) -> Load | None:  # fmt: skip
        """The load now, in seconds from any start; None where nothing new is known.

        ``progress`` has the recent micro-batches in order, known ones, too; the ``cores`` were busy
        for ``busy_s`` since the last call; the query's ``status`` tells a silent source from a
        micro-batch that takes long.
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
        return self._smoothed(found, cores)

    def _news(self, now: float, progress: Sequence[Progress]) -> Flow | None:
        """Return what came since the last look; None where nothing did, or a run begins."""
        before, ones = self._before, [one for one in progress if one["numInputRows"] > 0]
        if not ones:
            return None
        last = self._before = ones[-1]
        if before is not None and before.get("runId") == last.get("runId"):
            if last["batchId"] == before["batchId"]:
                return None
            if new := [one for one in ones if one["batchId"] > before["batchId"]]:
                known = progress[0]["batchId"] <= before["batchId"] + 1
                return (flow if known else _sampled)(before, new, self.limits)
        self._heard_s, self._busy_s, self._told = now, 0.0, None
        return None

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
        return replace(found, arrived=arrived, waiting=float(waits))

    def _smoothed(self, found: Flow, cores: float) -> Load | None:
        """The load in the window; None where no work is known that cores were busy with."""
        known = [(one.done, busy, room) for _, one, busy, room in self._seen if busy > 0]
        done, busy_s, room_s = (sum(each[at] for each in known) for at in range(3))
        if not (busy_s and room_s and done and cores):
            return None
        use, arrival, newest = busy_s / room_s, None, None
        if found.arrived is not None:
            flows = [one for _, one, *_ in self._seen if one.arrived is not None]
            arrival = sum(one.arrived or 0.0 for one in flows) / sum(one.seconds for one in flows)
            newest = found.arrived / found.seconds
        else:  # a query that works all the time is at its limit, whatever its cores wait for
            use = max(use, found.working_s / found.seconds)
        per_core, use = done / busy_s, min(1.0, use)
        self._last = Load(found.seconds, arrival, per_core, use, found.waiting, cores, newest)
        return self._last

    def _without_news(self, now: float, cores: float, status: Mapping[str, Any]) -> Load | None:
        last, quiet_s = self._last, now - self._heard_s
        if last is None or not cores or quiet_s < max(self._window_s, 1e-9):
            return None
        if status.get("isDataAvailable") is False:
            self._heard_s = now - self._window_s  # what comes from now on may wait
            return Load(quiet_s, 0.0, last.per_core, 0.0, 0.0, cores)
        # What came since a micro-batch began that runs for several windows waits.
        late = quiet_s >= _OVERDUE * self._window_s and status.get("isTriggerActive") is True
        if not late or last.arrival is None:
            return None
        return Load(quiet_s, last.arrival, last.per_core, 1.0, last.arrival * quiet_s, cores)
