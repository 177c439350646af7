"""Work with a timeout: it runs in a thread, which is abandoned after the timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from bsjoin.sources.transient import LookupTimeoutError

T = TypeVar("T")


def run_with_timeout(limit_s: float, work: Callable[[], T], what: str) -> T:
    """Run the work in a thread, for which nobody waits after ``limit_s`` seconds."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=f"bsjoin: {what}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors.pop()
    if not results:
        raise LookupTimeoutError(f"{what}: no answer within {limit_s:g} seconds")
    return results[0]
