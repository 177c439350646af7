"""Transient errors, which are retried, as opposed to permanent errors."""

from __future__ import annotations

__all__ = ["LookupTimeoutError", "TransientSourceError"]


class TransientSourceError(Exception):
    """A look-up failed for a transient reason: a lost connection, a timeout, a lock.

    The message contains no password. Not a :class:`bsjoin.errors.BSJoinError`, which is
    permanent.
    """


class LookupTimeoutError(TransientSourceError):
    """There was no response in time; the work still waits in its thread."""
