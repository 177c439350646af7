"""Spark's daemon of Python workers, for the sessions of the tests.

Spark's own forks before it imports anything, so that each worker imports for a second of a core;
and a task that fails takes its worker with it. Here the daemon imports what workers need. No thread
is lost in the forks: for numbers Spark allows one (OMP_NUM_THREADS), and that of Arrow's allocator
knows of forks.

Spark's own also runs a full garbage collection after every task: 40 ms with pandas loaded, which
is more than most tasks of the tests take. Here what a worker holds after its first task, which is
its modules above all, is left out of the collections that follow. Nor are files flushed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import sys

from pyspark.daemon import manager

_WORKER = "pyspark.worker"
_OURS = "bsjoin.runtimes.python.worker"
_NEEDED = ("pandas", "pyarrow.compute", "bsjoin.build.run_writer", "bsjoin.build.merging", _OURS)
_collect = gc.collect


def _import(module: str) -> None:
    """Import a module of the workers, as far as their Python has it: a task says what it lacks."""
    for name in (module, *(_NEEDED if module == _WORKER else ())):
        with contextlib.suppress(Exception):
            found = importlib.import_module(name)
            for inner in pkgutil.iter_modules(found.__path__) if name == _OURS else ():
                importlib.import_module(f"{name}.{inner.name}")


def _first(generation: int = 2) -> int:
    """Collect, and leave the rest alone from now on; each worker is a fork with its own first."""
    found = _collect(generation)
    gc.freeze()
    gc.collect = _collect
    return found


gc.collect = _first
os.fsync = lambda _: None

if __name__ == "__main__":
    _import(sys.argv[1])
    gc.freeze()
    manager()
