"""Observations: a cluster at a moment, and what of it was not to be believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scheduling.errors import ArgumentError
from scheduling.model.checks import (
    each,
    instance,
    is_number,
    number,
    set_fields,
    share,
    text,
    unique,
    whole,
)
from scheduling.model.cluster import Resources, Worker

__all__ = ["Reserved", "Snapshot", "Utilisation"]

_NOTHING = Resources(0.0, 0.0)


@dataclass(frozen=True)
class Utilisation:
    """The shares of CPU and memory in use (Eqs. 26 and 27).

    Args:
        cpu: the share of the CPU in use, in [0, 1].
        memory: the share of the memory in use, in [0, 1]; default 0.
    """

    cpu: float
    memory: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, cpu=share("cpu", self.cpu), memory=share("memory", self.memory))


@dataclass(frozen=True)
class Reserved:
    """The part of a worker that other jobs and services use; not available to this job.

    Args:
        slots: used slots; default 0.
        resources: used CPU, memory and disk; default none.
    """

    slots: int = 0
    resources: Resources = _NOTHING

    def __post_init__(self) -> None:
        set_fields(self, slots=whole("slots", self.slots, " reserved"))
        number("disk_mb reserved", instance("resources", self.resources, Resources).disk_mb)


_NO_ONE = Reserved()


@dataclass(frozen=True)
class Snapshot:
    """The state of a cluster at one moment. Mappings contain only what was measured.

    A measured value that cannot be one (NaN, infinite, negative, of another kind) raises no
    error: it is left out, and named in ``ignored``.

    Args:
        time_s: the time on the controller's clock.
        workers: the available workers, with unique ids.
        utilisation: per worker, over the last period; all mappings are empty by default.
        tuples: per worker, the tuples processed in the period (Eq. 22).
        cost: per worker, the $ spent in the period (Eq. 22).
        busyness: per worker, B of Eq. 23 in [0, 1]; :func:`scheduling.busyness` computes it.
        backlog: per operator, the waiting tuples.
        placement: per task, the worker on which it runs.
        usage: per task, its measured resources; its demand if missing.
        reserved: per worker, the part that others use. It counts towards delta, which limits the
            total load of a worker. It does not include the tasks of this job.
        ignored: per worker, task or operator, what was left out, and why; more is added here.

    Raises:
        ArgumentError: a worker is there twice, or something is of another kind.

    >>> workers = (Worker("w", Resources(4, 8192), 4),)
    >>> Snapshot(0.0, workers, tuples={"w": 9}, cost={"w": float("nan")}).ignored
    {'w': 'cost nan is no number of at least 0'}
    """

    time_s: float
    workers: tuple[Worker, ...]
    utilisation: Mapping[str, Utilisation] = field(default_factory=dict)
    tuples: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    busyness: Mapping[str, float] = field(default_factory=dict)
    backlog: Mapping[str, float] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Resources] = field(default_factory=dict)
    reserved: Mapping[str, Reserved] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_number(self.time_s):
            raise ArgumentError(f"time_s={self.time_s!r}: give seconds, a finite number")
        set_fields(self, workers=each("workers", self.workers, Worker))
        unique("worker", (worker.id for worker in self.workers))
        for name in ("reserved", "ignored"):
            instance(name, getattr(self, name), Mapping)  # type: ignore[type-abstract]
        for worker, taken in self.reserved.items():
            instance(f"reserved[{text('a worker id', worker)!r}]", taken, Reserved)
        ignored = dict(self.ignored)
        for name, (known, rule) in _MEASURED.items():
            given = instance(name, getattr(self, name), Mapping)  # type: ignore[type-abstract]
            good = {key: value for key, value in given.items() if known(value)}
            for key in given.keys() - good.keys():
                why = f"{name} {given[key]!r} is {rule}"
                before = ignored.get(key, why)
                ignored[key] = why if before == why else f"{before}; {why}"
            set_fields(self, **{name: good})
        set_fields(self, ignored=ignored)

    @cached_property
    def by_id(self) -> dict[str, Worker]:
        """The workers by their ids."""
        return {worker.id: worker for worker in self.workers}

    @cached_property
    def free(self) -> dict[str, Resources]:
        """Per worker, delta times its capacity minus the reserved part, at least 0 of each.

        >>> worker = Worker("w", Resources(4, 8192), 4, delta=0.5)
        >>> Snapshot(0.0, (worker,), reserved={"w": Reserved(1, Resources(1, 6000))}).free["w"]
        Resources(cpu_cores=1.0, memory_mb=0.0, disk_mb=0.0)
        """
        return {
            worker.id: worker.usable.less(self.reserved[worker.id].resources)
            if worker.id in self.reserved
            else worker.usable
            for worker in self.workers
        }

    @cached_property
    def free_slots(self) -> dict[str, int]:
        """Per worker, its slots minus the reserved ones."""
        return {
            worker.id: max(worker.slots - self.reserved.get(worker.id, _NO_ONE).slots, 0)
            for worker in self.workers
        }

    @property
    def has_history(self) -> bool:
        """Whether any worker has processed a tuple, so that CE (Eq. 22) is defined."""
        return any(count > 0 for count in self.tuples.values())


def _amount(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


def _kind(kind: type) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, kind), f"no {kind.__name__}"


_NUMBER = (_amount, "no number of at least 0")
_MEASURED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "utilisation": _kind(Utilisation),
    "tuples": _NUMBER,
    "cost": _NUMBER,
    "busyness": (lambda value: _amount(value) and bool(value <= 1), "no share in [0, 1]"),
    "backlog": _NUMBER,
    "placement": (lambda value: isinstance(value, str) and value != "", "no worker's id"),
    "usage": _kind(Resources),
}
