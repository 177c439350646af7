"""Transient errors, which are retried, as opposed to permanent errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bsjoin.errors import BSJoinError, SourceError

__all__ = ["LookupTimeoutError", "TransientSourceError", "run_translated"]

T = TypeVar("T")


class TransientSourceError(Exception):
    """A look-up failed for a transient reason: a lost connection, a timeout, a lock.

    The message contains no password. Not a :class:`bsjoin.errors.BSJoinError`, which is
    permanent.
    """


class LookupTimeoutError(TransientSourceError):
    """There was no response in time; the work still waits in its thread."""


def run_translated(
    work: Callable[[], T],
    translated: Callable[[Exception], Exception],
    close: Callable[[], None] | None = None,
    *,
    at_once: bool = False,
) -> T:
    """Run some work; its failure has a type of ours, without the driver's error as its cause.

    Args:
        work: what to do.
        translated: a driver's error as one of ours.
        close: closes a connection that has failed; the next call opens a new one.
        at_once: the caller does not retry, so every failure is a :class:`SourceError`.
    """
    try:
        return work()
    except Exception as error:
        failure = translated(error)
    if close is not None:
        close()
    # Raised outside the handler: the driver's error may show a password, so it is not chained.
    if at_once and not isinstance(failure, BSJoinError):
        failure = SourceError(str(failure))
    raise failure
