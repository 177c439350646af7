"""What is said once and not in every cycle."""

from __future__ import annotations

import logging
import warnings

__all__ = ["LeverWarning", "LogOnce", "WarnOnce"]

_log = logging.getLogger("scheduling")


class LeverWarning(UserWarning):
    """The session does not support a requested lever; the message says why."""


class WarnOnce:
    """Says once why a lever is not used."""

    _warned = False

    def warn(self, text: str) -> None:
        """Warn on the first call, with the position of the caller's caller."""
        if not self._warned:
            self._warned = True
            warnings.warn(text, LeverWarning, stacklevel=3)


class LogOnce:
    """Logs a failure as a warning, and the same again at level debug only."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def warn(self, what: str, why: object) -> None:
        """Log what happens and why; the same kind of error is the same cause."""
        cause = what, type(why).__name__ if isinstance(why, Exception) else str(why)
        level = logging.DEBUG if cause in self._known else logging.WARNING
        self._known.add(cause)
        _log.log(level, "scheduling: %s: %s", what, why)
