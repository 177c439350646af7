"""Registers kernels, and times them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SEED = 20261122


@dataclass(frozen=True)
class Sizes:
    """How large everything is.

    Args:
        rows: of an index or a cache.
        probes: of a batch; the size of an Arrow batch in Spark.
        rounds: at least so many.
        seconds: at least so long, for kernels that do not need fresh arguments.
    """

    rows: int
    probes: int
    rounds: int
    seconds: float

    def random(self) -> np.random.Generator:
        """Random numbers, the same for each kernel."""
        return np.random.default_rng(SEED)


QUICK, FULL = Sizes(100_000, 10_000, 7, 0.15), Sizes(2_000_000, 10_000, 15, 1.5)

Prepared = tuple[Any, ...]
"""What is timed; how many keys or rows one call has; and, for a kernel that changes its arguments,
a function that makes them anew for each call, untimed."""

KERNELS: dict[tuple[str, str], tuple[Callable[[Any], Prepared], str, str | None]] = {}
"""By group and name: what prepares and checks the kernel; the unit; the reference."""


def kernel(
    group: str, over: str | None = None, unit: str = "key", name: str = ""
) -> Callable[[Callable[[Any], Prepared]], Callable[[Any], Prepared]]:
    """Register a function that prepares a kernel, and checks its answer.

    Args:
        group: its part of the table.
        over: the name of a kernel of the group that is a plain way to do the same.
        unit: of what it is timed.
        name: for print; default: that of the function.
    """

    def register(prepare: Callable[[Any], Prepared]) -> Callable[[Any], Prepared]:
        called = name or prepare.__name__.replace("_", " ")
        KERNELS[group, called] = (prepare, unit, over)
        return prepare

    return register


def timed(prepared: Prepared, sizes: Sizes) -> dict[str, float]:
    """Nanoseconds of one key or row: least, quartiles, median and most of the rounds.

    Two rounds warm up. The garbage collector is off.
    """
    call, many, *more = prepared
    fresh = more[0] if more else tuple
    spent: list[float] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        while len(spent) < sizes.rounds + 2 or (not more and sum(spent) < sizes.seconds):
            arguments = fresh()
            begun = time.perf_counter()
            call(*arguments)
            spent.append(time.perf_counter() - begun)
    finally:
        if collecting:
            gc.enable()
    each = [seconds / many * 1e9 for seconds in spent[2:]]
    q1, median, q3 = statistics.quantiles(each, n=4, method="inclusive")
    found = {"min": min(each), "q1": q1, "median": median, "q3": q3, "max": max(each)}
    return found | {"rounds": len(each)}
