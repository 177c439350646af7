"""What may pass: a fault that another attempt can heal, told apart from errors that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bsjoin.errors import BSJoinError, SourceError

__all__ = ["LookupTimeoutError", "TransientSourceError", "run_translated"]

T = TypeVar("T")


class TransientSourceError(Exception):
    """A look-up failed for a reason that may pass: a lost connection, a time-out, a lock.

    The message holds no password. Not a :class:`bsjoin.errors.BSJoinError`, which would say
    that asking again cannot help.
    """


class LookupTimeoutError(TransientSourceError):
    """No answer came in time; the work still waits for one, in its thread."""


def run_translated(
    work: Callable[[], T],
    translated: Callable[[Exception], Exception],
    close: Callable[[], None] | None = None,
    *,
    at_once: bool = False,
) -> T:
    """Work; what fails has the type of our errors, and none of the driver's behind it.

    Args:
        work: what to do.
        translated: a driver's error as one of ours.
        close: closes a connection that has failed; the next call opens a new one.
        at_once: nobody repeats the work, so every failure is a :class:`bsjoin.errors.SourceError`.
    """
    try:
        return work()
    except Exception as error:
        failure = translated(error)
    if close is not None:
        close()
    # Raised outside the handler: the driver's error, its password and all, is no context.
    if at_once and not isinstance(failure, BSJoinError):
        failure = SourceError(str(failure))
    raise failure
