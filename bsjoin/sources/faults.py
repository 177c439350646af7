"""What may pass: a fault that another attempt can heal, told apart from errors that stay."""

from __future__ import annotations

__all__ = ["Overdue", "SourceFault"]


class SourceFault(Exception):  # noqa: N818 - it is not an error of the user's
    """A look-up failed for a reason that may pass: a lost connection, a time-out, a lock.

    The message holds no password. Not a :class:`bsjoin.errors.BSJoinError`, which would say
    that asking again cannot help.
    """


class Overdue(SourceFault):
    """No answer came in time; the work still waits for one, in its thread."""
