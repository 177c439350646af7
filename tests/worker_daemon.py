"""Spark's daemon of Python workers, for the sessions of the tests.

Spark's own runs a full garbage collection after every task: 40 ms with pandas loaded, which is
more than most tasks of the tests take. Here what a worker holds after its first task, which is
its modules above all, is left out of the collections that follow. Nor are files flushed.
"""

from __future__ import annotations

import gc
import os

from pyspark.daemon import manager

_collect = gc.collect


def _first(generation: int = 2) -> int:
    """Collect, and leave the rest alone from now on; each worker is a fork with its own first."""
    found = _collect(generation)
    gc.freeze()
    gc.collect = _collect
    return found


gc.collect = _first
os.fsync = lambda _: None

if __name__ == "__main__":
    manager()
