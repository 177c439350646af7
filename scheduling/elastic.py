"""When a scaler's answer is acted on: the one state machine of scaling.

Pure: the time and what is observed come in, requests go out.

::

    STEADY --more wanted, confirmed, or rows wait too long--> CHANGING
    STEADY --fewer wanted for shrink_after_s----------------> CHANGING (to the most wanted)
    CHANGING --observed = requested-------------------------> SETTLING
    CHANGING --patience_s without a change------------------> SETTLING (in vain: it stands)
    SETTLING --settle_s-------------------------------------> STEADY

What is requested stands, as a declaration: the cluster fulfils it when it can, also after a
refusal or a loss. What is *believed* is what is observed, the only number that scalers see. A
request in vain is not changed while what is there stays, but after a wait that doubles, from ten
to 320 times ``patience_s``: in case the request itself was lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from scheduling.errors import ArgumentError
from scheduling.model.checks import number, share, whole
from scheduling.scalers.load import Load, Scaler
from scheduling.scalers.turns import no_idle, useful

__all__ = ["Bounds", "Elastic", "State", "Step"]

State = Literal["steady", "changing", "settling"]

_WAIT, _LONGEST = 10.0, 320.0  # times patience_s: the wait after a request in vain doubles
_KEPT = 1000  # steps


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of :class:`Elastic`, in executors (or whatever it counts) and seconds.

    Args:
        least: the minimum; default 1.
        most: the maximum; default 8.
        confirm: how many steps in a row must want more; default 3.
        urgent_s: rows that wait for longer need no confirmation; default 10.
        shrink_after_s: how long fewer must be wanted; it shrinks to the most of that time. Default
            300: in shorter times noise of 20 % looks like a load that falls.
        band: a shrink by no more than this share is not worth it; default 0.1.
        settle_s: the pause after a change, in which figures are of two sizes; default 10.
        patience_s: how long to wait for the next executor to come or go; default 60.

    Raises:
        ArgumentError: not 1 <= least <= most, or another number is out of its range.
    """

    least: int = 1
    most: int = 8
    confirm: int = 3
    urgent_s: float = 10.0
    shrink_after_s: float = 300.0
    band: float = 0.1
    settle_s: float = 10.0
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        if whole("least", self.least, least=1) > whole("most", self.most, least=1):
            raise ArgumentError(f"least={self.least!r}, most={self.most!r}: give least <= most")
        whole("confirm", self.confirm, least=1)
        share("band", self.band, below=True)
        for name in ("urgent_s", "shrink_after_s", "settle_s", "patience_s"):
            number(name, getattr(self, name), endless=True)


@dataclass(frozen=True)
class Step:
    """What came of one step.

    Args:
        time_s: when.
        state: after it.
        there: the observed number.
        wanted: what the scaler wants, bounded and in numbers that help; None: not asked.
        target: the new request; None: none.
        reason: why, in words.
    """

    time_s: float
    state: State
    there: int
    wanted: int | None
    target: int | None
    reason: str


class Elastic:
    """Decides when to request another number of executors (or partitions).

    Args:
        scaler: what it follows.
        tasks: of a micro-batch: numbers that leave cores idle in the last turn are not requested.
            None (default): unknown, any number helps. The attribute may be set at any time.
        bounds: limits; None (default): ``Bounds()``.
        each: the cores of an executor; default 1.

    Raises:
        ArgumentError: ``tasks`` or ``each`` is below 1.

    >>> from scheduling.scalers import DS2
    >>> elastic = Elastic(DS2(), tasks=12)
    >>> full = Load(10, arrival=1900, per_core=500, busy=1.0, waiting=0, cores=2)
    >>> [elastic.step(now, 2, full).target for now in (0, 10, 20)]
    [None, None, 6]
    >>> elastic.step(30, 6, None).reason
    '6 are there'
    """

    def __init__(
        self,
        scaler: Scaler,
        *,
        tasks: int | None = None,
        bounds: Bounds | None = None,
        each: int = 1,
    ) -> None:
        self.scaler, self.bounds = scaler, bounds or Bounds()
        self.tasks = None if tasks is None else whole("tasks", tasks, least=1)
        self.each = whole("each", each, least=1)
        self.state: State = "steady"
        self.requested: int | None = None
        """What was requested last and stands; at first what was there, None before a step."""
        self.requests = 0
        """The number of requests so far."""
        self.steps: deque[Step] = deque(maxlen=_KEPT)
        """The last 1,000 steps."""
        self._former: int | None = None
        self._since, self._more, self._nearest = 0.0, 0, 0
        self._vain: tuple[int, int] | None = None  # more (1) or fewer (-1), and what was there
        self._wait_s, self._until = 0.0, 0.0
        self._wants: deque[tuple[float, int]] = deque()

    def step(self, now: float, there: int, load: Load | None) -> Step:
        """Observe, and decide whether to request another number.

        Args:
            now: seconds, from any start.
            there: the number that is observed.
            load: of the last window; None: nothing was measured.

        Returns:
            The step; its ``target`` is to be requested, if there is one.
        """
        if not self.requests or self.requested is None:
            self.requested = there
        if self._vain is not None and (there - self._vain[1]) * self._vain[0] > 0:
            self._vain = None  # it was possible after all
        if self.state == "changing":
            return self._changing(now, there, self.requested)
        if self.state == "settling":
            if now - self._since < self.bounds.settle_s:
                return self._note(now, there, None, "settling")
            self._become("steady", now)
        if load is not None and there:
            wanted = self._bounded(self.scaler.cores(load), there)
        elif there in (0, self._clamped(there)):
            return self._note(now, there, None, "nothing measured" if there else "none is there")
        else:
            wanted = self._clamped(there)
        self._wants.append((now, wanted))
        while len(self._wants) > 1 and self._wants[1][0] <= now - self.bounds.shrink_after_s:
            self._wants.popleft()
        if wanted > self.requested and wanted >= there:
            return self._grow(now, there, wanted, load)
        self._more = 0
        return self._shrink(now, there, wanted, self.requested)

    def failed(self) -> None:
        """The last request ended in an error: what was requested before it stands."""
        self.requested, self.requests = self._former, self.requests - 1
        self._become("steady", self._since)

    def _changing(self, now: float, there: int, requested: int) -> Step:
        if there == requested:
            self._become("settling", now)
            return self._note(now, there, None, f"{there} are there")
        if abs(requested - there) < self._nearest:
            self._nearest, self._since = abs(requested - there), now
        patience = self.bounds.patience_s
        if now - self._since < patience:
            return self._note(now, there, None, f"{requested} requested, {there} are there")
        vain = (1 if requested > there else -1), there
        longer = min(self._wait_s * 2, _LONGEST * patience)
        self._wait_s = longer if vain == self._vain else _WAIT * patience
        self._vain, self._until = vain, now + self._wait_s
        self._become("settling", now)
        reason = f"{requested} requested, {there} are there after {patience:g} s: planned with "
        return self._note(now, there, None, reason + f"{there}, the request stands")

    def _grow(self, now: float, there: int, wanted: int, load: Load | None) -> Step:
        self._more += 1
        if self._vain == (1, there) and now < self._until:
            return self._note(now, there, wanted, f"{self.requested} requested in vain, it stands")
        late = load is None or (load.waiting or 0.0) > self.bounds.urgent_s * load.rising
        if self._more >= self.bounds.confirm or late:
            return self._request(now, there, wanted, "more is needed")
        return self._note(now, there, wanted, "to be confirmed")

    def _shrink(self, now: float, there: int, wanted: int, requested: int) -> Step:
        most = max(one for _, one in self._wants)
        if now - self._wants[0][0] >= self.bounds.shrink_after_s:
            waits = now < self._until
            fewer = most < there * (1 - self.bounds.band)
            if fewer and not (waits and self._vain == (-1, there)):
                reason = f"no more than {most} for {self.bounds.shrink_after_s:g} s"
                return self._request(now, there, most, reason)
            if there <= most < requested and not waits and self._vain == (1, there):
                return self._request(now, there, most, f"{requested} requested in vain")
        if there < requested:
            return self._note(now, there, wanted, f"{requested} requested, {there} are there")
        less = "less is needed, not for long enough or not much less"
        return self._note(now, there, wanted, less if wanted < there else "enough")

    def _bounded(self, cores: float, there: int) -> int:
        if not self.tasks:
            return self._clamped(max(1, -int(-(cores - 1e-9) // self.each)))
        count = useful(cores, self.tasks, self.each)
        if cores <= there * self.each and count > there:
            count = there
        count = self._clamped(count)
        if count > there:  # not for executors that would be idle in the last turn
            count = max(there, self.bounds.least, no_idle(count, self.tasks, self.each))
        return count

    def _clamped(self, count: int) -> int:
        return min(max(count, self.bounds.least), self.bounds.most)

    def _request(self, now: float, there: int, target: int, reason: str) -> Step:
        self._former, self.requested, self._nearest = self.requested, target, abs(target - there)
        self.requests += 1
        self._become("changing", now)
        return self._note(now, there, target, reason, target)

    def _become(self, state: State, now: float) -> None:
        self.state, self._since, self._more = state, now, 0
        self._wants.clear()

    def _note(
        self, now: float, there: int, wanted: int | None, reason: str, target: int | None = None
    ) -> Step:
        step = Step(now, self.state, there, wanted, target, reason)
        self.steps.append(step)
        return step
