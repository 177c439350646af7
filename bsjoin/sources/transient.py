"""Transient errors, which are retried, as opposed to permanent errors.

Backoff is exponential with full jitter: the pause before retry k = 0, 1, ... is uniform between 0
and min(30 s, backoff x 2^k) (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from bsjoin.errors import BSJoinError, DataError, SourceError

T = TypeVar("T")

_LONGEST_PAUSE_S = 30.0
_MOST_DOUBLED = 1000  # a double has no 2**1024


class TransientSourceError(Exception):
    """A look-up failed for a transient reason: a lost connection, a timeout, a lock.

    The message contains no password. Not a :class:`bsjoin.errors.BSJoinError`, which is
    permanent.
    """


class LookupTimeoutError(TransientSourceError):
    """There was no response in time; the work still waits in its thread."""


_OF_DATA = (UnicodeError, OverflowError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError,
            pa.ArrowNotImplementedError, pa.ArrowCapacityError)  # fmt: skip


def of_data(error: Exception) -> bool:
    r"""Whether an error is of the data, which no retry changes: a text, a number, an Arrow type.

    >>> of_data(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")), of_data(OSError())
    (True, False)
    """
    return isinstance(error, (*_OF_DATA, DataError)) and not isinstance(error, OSError)


def run_translated(
    work: Callable[[], T],
    translated: Callable[[Exception], Exception],
    close: Callable[[], None] | None = None,
    *,
    at_once: bool = False,
) -> T:
    """Run some work; its failure has a type of ours, without the driver's error as its cause.

    ``close`` closes a connection that has failed; the next call opens a new one. A fault of the
    data leaves it as it is. If the caller raises every failure, it is a :class:`SourceError`
    ``at_once``.
    """
    try:
        return work()
    except Exception as error:
        failure = translated(error)
    if close is not None and not isinstance(failure, DataError):
        close()
    # Raised outside the handler: the driver's error may show a password, so it is not chained.
    if at_once and not isinstance(failure, BSJoinError):
        failure = SourceError(str(failure))
        failure.is_transient = True
    raise failure


def run_with_retries(
    work: Callable[[], T],
    retries: int,
    backoff_s: float,
    *,
    is_transient: Callable[[Exception], bool],
    noted: Callable[[Exception], None],
) -> T:
    """Run some work, and again after a transient failure; the last failure is raised as it is.

    The maximum pause before the first retry, ``backoff_s``, doubles with each. ``noted`` is told of
    each failure that is followed by a retry.
    """
    for attempt in range(retries):
        try:
            return work()
        except Exception as failure:
            if not is_transient(failure):
                raise
            noted(failure)
        longest_s = min(_LONGEST_PAUSE_S, backoff_s * 2.0 ** min(attempt, _MOST_DOUBLED))
        time.sleep(random.uniform(0, longest_s))
    return work()
