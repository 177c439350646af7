"""A clock that charges every moment to one label: the innermost piece of work in progress."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")


class Clock:
    """Nanoseconds by label; an inner piece of work interrupts the outer one.

    Args:
        now: the time, in nanoseconds.

    Example:
        >>> times = iter([0, 10, 15, 40])
        >>> clock = Clock(lambda: next(times))
        >>> clock.start("outer")
        >>> clock.enter("inner")
        >>> clock.leave()
        >>> clock.stop()
        {'outer': 35, 'inner': 5}
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns):
        self._now = now
        self._labels: list[str] = []
        self._spent: dict[str, int] = defaultdict(int)
        self._since = 0

    @property
    def running(self) -> bool:
        """Whether time is being charged."""
        return bool(self._labels)

    def start(self, label: str) -> None:
        """Begin at 0, charging to a label."""
        self._labels, self._spent = [label], defaultdict(int)
        self._since = self._now()

    def stop(self) -> dict[str, int]:
        """Nanoseconds of each label since the start; they add up to all the time between."""
        self._charge()
        self._labels = []
        return dict(self._spent)

    def enter(self, label: str) -> None:
        """Charge to another label until :meth:`leave`."""
        self._charge()
        self._labels.append(label)

    def leave(self) -> None:
        """Charge to the previous label again."""
        self._charge()
        self._labels.pop()

    def _charge(self) -> None:
        now = self._now()
        self._spent[self._labels[-1]] += now - self._since
        self._since = now

    def timed(self, function: Callable[..., T], label: str) -> Callable[..., T]:
        """The same function, its calls charged to a label while the clock runs."""

        @wraps(function)
        def charged(*args: Any, **named: Any) -> T:
            if not self.running:
                return function(*args, **named)
            self.enter(label)
            try:
                return function(*args, **named)
            finally:
                self.leave()

        return charged

    def iterated(self, items: Iterable[T], label: str) -> Iterator[T]:
        """The same items; the time to make each is charged to a label."""
        step, end = self.timed(next, label), object()
        iterator = iter(items)
        while (item := step(iterator, end)) is not end:
            yield item

    def timed_generator(
        self, function: Callable[..., Iterable[T]], label: str, inputs: str
    ) -> Callable[..., Iterator[T]]:
        """The same generator function; its steps are charged to ``label``, inputs apart."""

        @wraps(function)
        def charged(*args: Any) -> Iterator[T]:
            given = [self.iterated(a, inputs) if hasattr(a, "__next__") else a for a in args]
            return self.iterated(function(*given), label)

        return charged
