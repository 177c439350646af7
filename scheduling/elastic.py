"""The one state machine of scaling: when a scaler's answer is acted on. Pure.

::

    STEADY --more wanted, confirmed, or rows wait too long--> CHANGING
    STEADY --fewer wanted for shrink_after_s----------------> CHANGING (to the most wanted)
    CHANGING --observed = requested-------------------------> SETTLING
    CHANGING --patience_s without a change------------------> SETTLING (in vain: it stands)
    SETTLING --settle_s-------------------------------------> STEADY
    any --what was in vain comes or goes after all----------> CHANGING

What is requested stands, also after a refusal or a loss; scalers see the observed number alone. A
request in vain is repeated after a wait that doubles, from ten to 320 times ``patience_s``, in case
it was lost, or when what is there changes.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from scheduling.model.checks import Checked, Endless, instance, rising, share, whole
from scheduling.scalers import Load, Scaler

State = Literal["steady", "changing", "settling"]
_Some = Annotated[int, partial(whole, least=1)]

_WAIT, _LONGEST = 10.0, 320.0  # times patience_s: the wait after a request in vain doubles
_KEPT = 1000  # steps
_ROUNDING = 1e-9  # cores


@dataclass(frozen=True, kw_only=True)
class Bounds(Checked):
    """Limits of :class:`Elastic`, in executors (or whatever it counts) and seconds.

    Args:
        least: the minimum; default 1.
        most: the maximum, at least ``least``; default 8.
        confirm: how many steps in a row must want more; default 3.
        urgent_s: rows that wait for longer need no confirmation; default 10.
        shrink_after_s: how long fewer must be wanted; it shrinks to the most of that time. Default
            300: in less, noise of 20 % looks like a load that falls.
        band: a shrink by no more than this share is not worth it, but to ``most``; default 0.1.
        settle_s: the pause after a change, in which figures are of two sizes; default 10.
        patience_s: how long to wait for the next executor to come or go; default 60.
    """

    least: _Some = 1
    most: _Some = 8
    confirm: _Some = 3
    urgent_s: Endless = 10.0
    shrink_after_s: Endless = 300.0
    band: Annotated[float, partial(share, below=True)] = 0.1
    settle_s: Endless = 10.0
    patience_s: Endless = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        rising(least=self.least, most=self.most)


@dataclass(frozen=True)
class Step:
    """The outcome of one step: when, the state after it, the observed number (``there``), and why.

    ``wanted``: by the scaler, in numbers that help, None if it was not asked; ``target``: the new
    request, or None.
    """

    time_s: float
    state: State
    there: int
    wanted: int | None
    target: int | None
    reason: str


def useful(cores: float, tasks: int, each: int = 1) -> int:
    """The fewest executors that do equal tasks as fast as ``cores`` that are never idle."""
    turns = max(1, int(tasks / max(cores - _ROUNDING, _ROUNDING)))
    return -(-tasks // (turns * each))


def no_idle(count: int, tasks: int, each: int = 1) -> int:
    """The fewest executors with as many turns as ``count``; of 12 tasks 6 instead of 8."""
    turns = -(-tasks // (count * each))
    return -(-tasks // (turns * each))


class Elastic:
    """Decides when to request another number of executors (or partitions).

    Args:
        scaler: what it follows.
        tasks: of a micro-batch: numbers that leave cores idle in the last turn are not requested.
            At least 1; None (default): unknown. May be set at any time.
        bounds: limits; None (default): ``Bounds()``.
        each: the cores of an executor, the fewest where they differ; default 1.

    >>> from scheduling.scalers import DS2
    >>> elastic = Elastic(DS2(), tasks=12)
    >>> full = Load(10, arrival=1900, per_core=500, busy=1.0, waiting=0, cores=2)
    >>> [elastic.step(now, 2, full).target for now in (0, 10, 20)]
    [None, None, 6]
    >>> elastic.step(30, 6, None).reason
    '6 are there'
    """

    def __init__(
        self, scaler: Scaler, *, tasks: int | None = None, bounds: Bounds | None = None,
        each: int = 1,
    ) -> None:  # fmt: skip
        self.scaler = instance(Scaler, "a scaler, as scheduling.OERA()")("scaler", scaler)
        self.bounds = bounds or Bounds()
        self.tasks = None if tasks is None else whole("tasks", tasks, least=1)
        self.each = whole("each", each, least=1)
        self.state: State = "steady"
        self.requested = 0  # last, and stands; before a request, what is there
        self.requests = 0  # how many so far
        self.steps: deque[Step] = deque(maxlen=_KEPT)
        self._now, self._there = 0.0, 0
        self._former, self._nearest = 0, 0  # the request before; how near it came to this one
        self._since, self._more = 0.0, 0
        self._vain = 0, 0  # what was requested in vain: more (1) or fewer (-1) than was there
        self._wait_s, self._until = 0.0, 0.0
        self._wants: deque[tuple[float, int]] = deque()

    def step(self, now: float, there: int, load: Load | None) -> Step:
        """Decide by how many are ``there`` at ``now``, in seconds; a target is to be requested.

        ``load`` is that of the last window; None: nothing was measured.
        """
        self._now, self._there = now, there
        if not self.requests:
            self.requested = there
        if (there - self._vain[1]) * self._vain[0] > 0:
            self._vain, self._nearest = (0, 0), abs(self.requested - there)
            self._become("changing")  # it was possible after all
        if self.state == "changing":
            return self._change()
        if self.state == "settling":
            if now - self._since < self.bounds.settle_s:
                return self._note("settling")
            self._become("steady")
        if not there:
            return self._note("none is there")
        wanted = self._clamped(there) if load is None else self._bounded(load)
        if load is None and wanted == there:
            return self._note("nothing measured")
        self._wants.append((now, wanted))
        while len(self._wants) > 1 and self._wants[1][0] <= now - self.bounds.shrink_after_s:
            self._wants.popleft()
        if wanted > self.requested and wanted >= there:
            return self._grow(wanted, load)
        self._more = 0
        return self._shrink(wanted)

    def failed(self) -> None:
        """The last request ended in an error: what was requested before it stands."""
        self.requested, self.requests = self._former, self.requests - 1
        self._become("steady")

    def _change(self) -> Step:
        short, patience = abs(self.requested - self._there), self.bounds.patience_s
        if not short:
            self._become("settling")
            return self._note(f"{self._there} are there")
        if short < self._nearest:
            self._nearest, self._since = short, self._now
        missing = f"{self.requested} requested, {self._there} are there"
        if self._now - self._since < patience:
            return self._note(missing)
        vain = (1 if self.requested > self._there else -1), self._there
        longer = min(self._wait_s * 2, _LONGEST * patience)
        self._wait_s = longer if vain == self._vain else _WAIT * patience
        self._vain, self._until = vain, self._now + self._wait_s
        self._become("settling")
        return self._note(f"{missing} after {patience:g} s: planned with these, the request stands")

    def _grow(self, wanted: int, load: Load | None) -> Step:
        self._more += 1
        if self._in_vain(1) and self._now < self._until:
            return self._note(f"{self.requested} requested in vain, it stands", wanted)
        late = load is None or (load.waiting or 0.0) > self.bounds.urgent_s * load.rising
        if late or self._more >= self.bounds.confirm:
            return self._request(wanted, "more is needed")
        return self._note("to be confirmed", wanted)

    def _shrink(self, wanted: int) -> Step:
        there, requested, bounds = self._there, self.requested, self.bounds
        most, waits = max(one for _, one in self._wants), self._now < self._until
        if self._now - self._wants[0][0] >= bounds.shrink_after_s:
            worth = most < there * (1 - bounds.band) or most <= bounds.most < there
            if worth and not (waits and self._in_vain(-1)):
                return self._request(most, f"no more than {most} for {bounds.shrink_after_s:g} s")
            if there <= most < requested and not waits and self._in_vain(1):
                return self._request(most, f"{requested} requested in vain")
        if there < requested:
            return self._note(f"{requested} requested, {there} are there", wanted)
        less = "less is needed, not for long enough or not much less"
        return self._note(less if wanted < there else "enough", wanted)

    def _in_vain(self, way: int) -> bool:
        """Whether more (1) or fewer (-1) than what is there were requested in vain."""
        return self._vain == (way, self._there)

    def _bounded(self, load: Load) -> int:
        cores, there, each = self.scaler.cores(load), self._there, self.each
        # Cores that are there beyond the least of each executor are enough, and no executors.
        cores = max(min(cores, there * each), cores - max(0.0, load.cores - there * each))
        if not self.tasks:
            return self._clamped(-int(-(cores - _ROUNDING) // each))
        count = useful(cores, self.tasks, each)
        count = self._clamped(min(count, there) if cores <= there * each else count)
        if count > there:  # not for executors that would be idle in the last turn
            count = max(there, self.bounds.least, no_idle(count, self.tasks, each))
        return count

    def _clamped(self, count: int) -> int:
        return min(max(count, self.bounds.least), self.bounds.most)

    def _request(self, target: int, reason: str) -> Step:
        self._former, self.requested = self.requested, target
        self._nearest = abs(target - self._there)
        self.requests += 1
        self._become("changing")
        return self._note(reason, target, target)

    def _become(self, state: State) -> None:
        self.state, self._since, self._more = state, self._now, 0
        self._wants.clear()

    def _note(self, reason: str, wanted: int | None = None, target: int | None = None) -> Step:
        step = Step(self._now, self.state, self._there, wanted, target, reason)
        self.steps.append(step)
        return step
