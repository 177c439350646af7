"""What may pass: a fault that another attempt can heal, told apart from errors that stay."""

from __future__ import annotations

__all__ = ["LookupTimeoutError", "TransientSourceError"]


class TransientSourceError(Exception):
    """A look-up failed for a reason that may pass: a lost connection, a time-out, a lock.

    The message holds no password. Not a :class:`bsjoin.errors.BSJoinError`, which would say
    that asking again cannot help.
    """


class LookupTimeoutError(TransientSourceError):
    """No answer came in time; the work still waits for one, in its thread."""
