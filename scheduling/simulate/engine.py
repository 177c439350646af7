"""One simulator, driven by events: micro-batches of tasks on executors that come and go.

On an executor with c cores, n running tasks get min(``width``, c / n) cores each (processor
sharing, as a machine's cores or a cgroup's quota give it), and no more run at a time than it has
slots. Operators are stages that follow one another as shuffles make them, or run at the same time
(``pipelined``: Flink, Storm). It predicts live micro-batches within 7 % (median of 112; fitted is
one constant, the overhead, on round robin).
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduling.errors import ArgumentError
from scheduling.model import Worker
from scheduling.simulate.arrivals import Arrivals
from scheduling.simulate.job import Operator, checked, task_id

__all__ = ["Batch", "Executor", "Simulation"]

_NOTHING = 1e-9  # core seconds that rounding leaves


@dataclass(eq=False)
class Executor:
    """An executor of a simulation: what it has done so far.

    ``busy_s`` are core seconds, ``run_s`` the durations of its finished tasks (Spark's
    ``totalDuration``), ``rows`` what these have processed; one that is ``leaving`` takes no more
    tasks, and is ``gone`` when those that it has are done.
    """

    worker: Worker
    busy_s: float = 0.0
    run_s: float = 0.0
    rows: float = 0.0
    leaving: bool = False
    gone: bool = False
    _running: dict[str, list[float]] = field(default_factory=dict)  # core seconds left, start
    _queue: deque[str] = field(default_factory=deque)
    _since: float = 0.0
    _version: int = 0

    @property
    def _usable(self) -> bool:
        return not (self.gone or self.leaving)


@dataclass(frozen=True)
class Batch:
    """A finished micro-batch: number, start and end in seconds, and what it was.

    ``offset`` counts the rows before it (lost ones, too), ``latest`` those that had arrived at its
    start, ``lost`` those that a full buffer had dropped by then. By task: where it ran (``at``) and
    its core seconds. ``busy``: by executor, the share of its cores that worked since the end
    before. ``network_bytes`` went from host to host.
    """

    id: int
    start: float
    end: float
    rows: float
    offset: float
    latest: float
    lost: float
    at: Mapping[str, str]
    work_s: Mapping[str, float]
    busy: Mapping[str, float]
    network_bytes: float


class Simulation:
    """A streaming query on simulated executors. The same arguments give the same run.

    Args:
        operators: in topological order.
        workers: the executors at the start; those that come later are like the first.
        arrived: the rows that have arrived by a time.
        placement: the executor of each task, by its id; a task without one, or whose executor is
            not there, takes any free slot. Default none. The attribute may be changed at any time.
        trigger_s: from the start of a micro-batch to the next one at least; above 0, default 1.
        overhead_s: on the driver, before the first task of a micro-batch; default 0.1.
        limit: rows of a micro-batch at most, an attribute, too; default no limit.
        buffer: rows that wait at most, what comes beyond is lost; default no limit.
        start_s: from the request of an executor to its first task; default 5.
        most: executors that the cluster can give, an attribute, too; default no limit.
        width: cores that one task can use; default 1.
        pipelined: whether all operators work on a micro-batch at the same time; default False.
        noise: a task's work is multiplied by 1 + ``noise`` x U(-1, 1); default 0.
        seed: of the noise; default 0.

    Raises:
        ArgumentError: a number is out of its range, or operators are not in order.

    Complexity: O(executors) an event; a micro-batch has a few events a task.

    Example:
        >>> from scheduling import Resources
        >>> one = Worker("e0", Resources(2, 4096), slots=4)
        >>> query = Simulation([Operator("join", 4, row_s=0.01)], [one], Arrivals(100))
        >>> query.run(10.0)
        >>> query.batches[-1].rows, round(query.batches[-1].end - query.batches[-1].start, 6)
        (100.0, 0.6)
    """

    def __init__(
        self, operators: Sequence[Operator], workers: Sequence[Worker], arrived: Arrivals, *,
        placement: Mapping[str, str] | None = None, trigger_s: float = 1.0,
        overhead_s: float = 0.1, limit: float = math.inf, buffer: float = math.inf,
        start_s: float = 5.0, most: float = math.inf, width: float = 1.0,
        pipelined: bool = False, noise: float = 0.0, seed: int = 0,
    ) -> None:  # fmt: skip
        above = all(one > 0 for one in (trigger_s, limit, buffer, width))
        if not (above and workers and min(overhead_s, start_s) >= 0 and 0 <= noise < 1):
            raise ArgumentError(
                f"{len(workers)} workers, trigger_s={trigger_s!r}, limit={limit!r}, buffer="
                f"{buffer!r}, width={width!r}, overhead_s={overhead_s!r}, start_s={start_s!r}, "
                f"noise={noise!r}: give a worker or more, the next four above 0, seconds of at "
                "least 0, and noise in [0, 1)"
            )
        self.operators, self.arrived = checked(operators), arrived
        self.most, self.limit = most, limit
        self.shares = {name: one.dealt for name, one in self.operators.items()}
        self.placement = dict(placement or {})
        self.executors = {one.id: Executor(one) for one in workers}
        self.batches: list[Batch] = []
        self.requested: int | None = None
        self.now = self.offset = self.lost = self.rent = self.wasted_s = 0.0
        self._trigger_s, self._overhead_s, self._start_s = trigger_s, overhead_s, start_s
        self._buffer, self._width, self._noise = buffer, width, noise
        self._draw = random.Random(seed)
        every = tuple(self.operators.values())
        self._stages = [every] if pipelined else [(one,) for one in every]
        self._template, self._ids = workers[0], itertools.count(len(workers))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count, self._free = itertools.count(), deque[str]()
        self._tasks: dict[str, tuple[Operator, float]] = {}
        self._busy = (0.0, dict.fromkeys(self.executors, 0.0))
        self._paused_s, self._stage, self._left, self._coming = 0.0, 0, 0, 0
        self.at(0.0, self._trigger)

    # What controllers and callers do

    def there(self) -> list[Executor]:
        """The executors that take tasks."""
        return [one for one in self.executors.values() if one._usable]

    def busy_s(self) -> float:
        """Durations of all finished tasks: the sum of ``totalDuration`` of Spark's executors."""
        return math.fsum(one.run_s for one in self.executors.values())

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Call something at a time, as in ``query.at(60, lambda: query.kill("e1"))``."""
        heapq.heappush(self._events, (max(time_s, self.now), next(self._count), action))

    def run(self, until_s: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until_s:
            time_s, _, action = heapq.heappop(self._events)
            self._pass(time_s)
            action()
        self._pass(max(until_s, self.now))

    def resize(self, target: int) -> None:
        """Request a number of executors, which stands: one that dies is replaced.

        They come after ``start_s``, ``most`` at most; the youngest leave when their tasks are done.
        """
        self.requested = target
        for one in self.there()[target:]:
            self.leave(one.worker.id)
        self._fulfil()

    def join(self, worker: Worker) -> None:
        """An executor comes, now; one of that id must not be there."""
        if worker.id in self.executors and not self.executors[worker.id].gone:
            raise ArgumentError(f"{worker.id!r} is there already; give another id")
        self.executors[worker.id] = Executor(worker, _since=self.now)
        self._dispatch()

    def leave(self, name: str) -> None:
        """An executor takes no more tasks, and goes when those that it runs are done."""
        one = self.executors[name]
        one.leaving, one.gone = True, not one._running
        self._free += one._queue
        one._queue.clear()
        self._dispatch()

    def kill(self, name: str) -> None:
        """An executor dies; its tasks run again elsewhere, from the start."""
        one = self.executors[name]
        self._advance(one)
        self.wasted_s += sum(self._work[task] - left for task, (left, _) in one._running.items())
        self._free += [*one._running, *one._queue]
        one.gone, one._version = True, one._version + 1
        one._running.clear()
        one._queue.clear()
        self._fulfil()
        self._dispatch()

    def pause(self, seconds: float) -> None:
        """No micro-batch begins for some seconds: what a change of a job costs."""
        self._paused_s = max(self._paused_s, self.now + seconds)

    # Events

    def _pass(self, time_s: float) -> None:
        prices = (one.worker.price_per_s for one in self.executors.values() if not one.gone)
        self.rent += sum(prices) * (time_s - self.now)
        self.now = time_s

    def _fulfil(self) -> None:
        while len(self.there()) + self._coming < min(self.requested or 0, self.most):
            self._coming += 1
            self.at(self.now + self._start_s, self._come)

    def _come(self) -> None:
        self._coming -= 1
        if len(self.there()) < min(self.requested or 0, self.most):
            name = f"{self._template.id.rstrip('0123456789')}{next(self._ids)}"
            self.join(replace(self._template, id=name, host=""))

    def _trigger(self) -> None:
        arrived = self.arrived(self.now)
        dropped = max(0.0, arrived - self.offset - self._buffer)
        self.lost, self.offset = self.lost + dropped, self.offset + dropped
        rows = min(arrived - self.offset, self.limit)
        if rows < 1 or self.now < self._paused_s:
            self.at(max(self.now + self._trigger_s, self._paused_s), self._trigger)
            return
        self._batch = self.now, rows, arrived, self.lost
        self._ran: dict[str, str] = {}
        self._work: dict[str, float] = {}
        self._read: dict[str, float] = {}
        self._sent, self._stage = 0.0, 0
        self.at(self.now + self._overhead_s, self._next)

    def _next(self) -> None:
        """The next stage, or the end of the micro-batch."""
        if self._stage == len(self._stages):
            self._finish()
            return
        self._far: dict[tuple[str, str], tuple[float, float]] = {}
        for one in self._stages[self._stage]:
            self._read[one.name] = one.reads(self._batch[1], self._read, self.operators)
            for index, share in enumerate(self.shares[one.name]):
                task = task_id(one.name, index)
                self._tasks[task] = one, self._read[one.name] * share
                pinned = self.executors.get(self.placement.get(task, ""))
                (pinned._queue if pinned and pinned._usable else self._free).append(task)
                self._left += 1
        self._stage += 1
        self._dispatch()

    def _finish(self) -> None:
        (start, rows, latest, lost), (then, before) = self._batch, self._busy
        there = {name: one for name, one in self.executors.items() if not one.gone}
        span_s, busy = max(self.now - then, _NOTHING), dict[str, float]()
        for name, one in there.items():
            share = (one.busy_s - before.get(name, 0.0)) / one.worker.capacity.cpu_cores / span_s
            busy[name] = min(1.0, share)
        self._busy = self.now, {name: one.busy_s for name, one in there.items()}
        number, span = len(self.batches), (start, self.now, rows, self.offset, latest, lost)
        self.batches.append(Batch(number, *span, self._ran, self._work, busy, self._sent))
        self.offset += rows
        self.at(max(self.now, start + self._trigger_s), self._trigger)

    def _dispatch(self) -> None:
        there = self.there()
        for one in there:
            while one._queue and len(one._running) < one.worker.slots:
                self._start(one._queue.popleft(), one)
        while self._free:
            able = [one for one in there if len(one._running) < one.worker.slots]
            if not able:
                return
            least = min(able, key=lambda one: len(one._running) / one.worker.slots)
            self._start(self._free.popleft(), least)

    def _start(self, task: str, one: Executor) -> None:
        self._advance(one)
        operator, rows = self._tasks[task]
        far, size = self._from_far(operator, one.worker.host)
        work = operator.fixed_s + rows * (operator.row_s + far * operator.remote_s)
        work *= 1 + self._noise * self._draw.uniform(-1, 1)
        self._sent += rows * size
        self._work[task], self._ran[task] = work, one.worker.id
        one._running[task] = [work, self.now]
        self._plan(one)

    def _from_far(self, operator: Operator, host: str) -> tuple[float, float]:
        """Of a row that an operator reads on a host: the share, and bytes, from other hosts."""
        if (operator.name, host) not in self._far:
            share = size = 0.0
            for name in operator.inputs:
                sender = self.operators[name]
                part = self._read[name] * sender.out / max(self._read[operator.name], _NOTHING)
                for index, dealt in enumerate(self.shares[name]):
                    if self._host(task_id(name, index)) != host:
                        share, size = share + part * dealt, size + part * dealt * sender.out_bytes
            self._far[operator.name, host] = share, size
        return self._far[operator.name, host]

    def _host(self, task: str) -> str:
        one = self.executors.get(self._ran.get(task) or self.placement.get(task, ""))
        return one.worker.host if one else ""

    def _rate(self, one: Executor) -> float:
        return min(self._width, one.worker.capacity.cpu_cores / max(1, len(one._running)))

    def _advance(self, one: Executor) -> None:
        done = self._rate(one) * (self.now - one._since)
        for left in one._running.values():
            left[0] -= done
        one.busy_s += done * len(one._running)
        one._since = self.now

    def _plan(self, one: Executor) -> None:
        """Expect the next end of a task there; an end that was expected before is void."""
        one._version += 1
        if one._running:
            version, least = one._version, min(left for left, _ in one._running.values())
            after = max(0.0, least) / self._rate(one)
            self.at(self.now + after, lambda: self._end(one, version))

    def _end(self, one: Executor, version: int) -> None:
        if version != one._version:
            return
        self._advance(one)
        for task in [task for task, (left, _) in one._running.items() if left <= _NOTHING]:
            one.run_s += self.now - one._running.pop(task)[1]
            one.rows += self._tasks[task][1]
            self._left -= 1
        one.gone = one.leaving and not one._running
        self._plan(one)
        self._dispatch()
        if not self._left:
            self._next()
