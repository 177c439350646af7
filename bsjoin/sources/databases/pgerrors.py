"""The meaning of errors of PostgreSQL and of its ADBC driver, by their SQLSTATE."""

from __future__ import annotations

import re

from bsjoin.sources.transient import of_data

# Classes of SQLSTATE that describe the server's state, not the statement.
_READ_ONLY = "25006"
_PASSING = {"08", "25", "40", "53", "55", "57", "58", "XX"}
_DAMAGED = {"XX001", "XX002"}
# A value, a function of values, and limits of the server: a value or a key that is too long.
_OF_DATA = {"21", "22", "54"}
_TOO_LONG = "invalid memory alloc request size"
_CANCELED = "canceling statement due to"  # such as a conflict of a standby with its primary
_STAYING_WORDS = (
    "authentication failed", "no password supplied", "does not exist", "pg_hba.conf",
    "invalid port", "invalid URI", "invalid connection option", "invalid sslmode",
    "is not permitted to log in", "permission denied for database", "could not translate host",
)  # fmt: skip


def may_pass(error: Exception) -> bool:
    """Whether an error is of the connection or the server's state."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state)[:2] in _PASSING and state not in _DAMAGED
    text = str(error)
    if isinstance(error, OSError):  # the reader of a result, which reports no SQLSTATE
        return "ERROR:" not in text or _CANCELED in text
    return (
        type(error).__module__.startswith("adbc")
        and type(error).__name__ not in ("DataError", "NotSupportedError")
        and not any(word in text for word in _STAYING_WORDS)
    )


def is_of_data(error: Exception) -> bool:
    """Whether an error is of a value, a key, or their size."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state)[:2] in _OF_DATA or _TOO_LONG in str(error)
    return of_data(error) or type(error).__name__ == "DataError"


def refused_to_write(error: Exception) -> bool:
    """Whether a statement writes in a read-only session."""
    # The reader of a scan does not report the SQLSTATE.
    state = getattr(error, "sqlstate", None)
    return state == _READ_ONLY or (not state and "read-only transaction" in str(error))


def message(error: Exception) -> str:
    """The text of an error, without the statement, which follows the message."""
    text = re.split(r"\s*Query was:", str(error), maxsplit=1)[0]
    state = getattr(error, "sqlstate", None)
    return " ".join(text.split()) + (f" (SQLSTATE {state})" if state else "")


def is_of_connection(error: Exception) -> bool:
    """Whether an error is of the connection, which has ended, not of a statement."""
    state = getattr(error, "sqlstate", None)
    return (not state and may_pass(error)) or str(state)[:2] in ("08", "58") or state == "57P01"
