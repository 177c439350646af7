"""Work that Ctrl-C ends cleanly: its Spark jobs are cancelled, and it tidies up after itself.

Python raises ``KeyboardInterrupt`` in the main thread wherever that is: between two steps that
belong together, or in the middle of a conversation with the JVM, whose answer then stays unread.
So the work runs in a thread of its own, while the main thread only waits for it.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

T = TypeVar("T")

_AGAIN_S = 0.5
_WORK = "bsjoin-work"


class Interruption:
    """Whether the work is to end."""

    def __init__(self) -> None:
        self._came = threading.Event()

    def come(self) -> None:
        """Ask the work to end."""
        self._came.set()

    def check(self) -> None:
        """End the work here, if that was asked for.

        Raises:
            KeyboardInterrupt: it was.
        """
        if self._came.is_set():
            raise KeyboardInterrupt


def is_waited_for() -> bool:
    """Whether the main thread does this, or waits for it: it is no work in the background."""
    current = threading.current_thread()
    return current is threading.main_thread() or current.name == _WORK


def interruptible(spark: SparkSession, work: Callable[[Interruption], T]) -> T:
    """Do work that runs Spark jobs; if it is interrupted, it has ended when this returns.

    Only the main thread is interrupted: in others the work is done as it is. What it raises is
    raised again.

    Raises:
        KeyboardInterrupt: the main thread was interrupted. A second time it does not wait for the
            work, which then tidies up in the background.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        return work(interruption)
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()
    tag = f"bsjoin-{uuid.uuid4().hex}"
    context = copy_context()

    def run() -> None:
        try:
            spark.addTag(tag)
            try:
                results.append(context.run(work, interruption))
            finally:
                spark.removeTag(tag)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    # With the local properties and the tags of this thread.
    target: Callable[[], None] = inheritable_thread_target(spark)(run)
    thread = threading.Thread(target=target, name=_WORK)
    try:
        thread.start()
        while not done.wait(60):  # without an end Windows would not notice Ctrl-C
            pass
    except KeyboardInterrupt:
        interruption.come()
        while thread.is_alive() and not done.is_set():
            # Again and again: it may be about to begin a job.
            with contextlib.suppress(Exception):
                spark.interruptTag(tag)
            done.wait(_AGAIN_S)
        raise
    if failures:
        try:
            raise failures[0]
        finally:
            failures.clear()  # or the traceback would keep itself
    return results[0]
