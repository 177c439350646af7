"""What is said once and not in every cycle."""

from __future__ import annotations

import logging
import warnings

__all__ = ["LeverWarning", "LogOnce", "WarnOnce"]

_log = logging.getLogger("scheduling")


class LeverWarning(UserWarning):
    """The session does not support a requested lever; the message says why."""


class WarnOnce:
    """Warns on its first call only, with the position of the caller's caller."""

    _warned = False

    def warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(text, LeverWarning, stacklevel=3)


class LogOnce:
    """Logs a failure as a warning, and one of the same cause again at level debug only."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def warn(self, what: str, why: object) -> None:
        cause = what, type(why).__name__ if isinstance(why, Exception) else str(why)
        level = logging.DEBUG if cause in self._known else logging.WARNING
        self._known.add(cause)
        _log.log(level, "scheduling: %s: %s", what, why)
