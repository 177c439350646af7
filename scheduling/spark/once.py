"""Messages that are logged once and not in every cycle."""

import logging
import warnings

log = logging.getLogger("scheduling")


class LeverWarning(UserWarning):
    """The session does not support a requested lever; the message says why."""


class Once:
    """Says things once: one object for each part that has something to say."""

    def __init__(self) -> None:
        self._warned, self._known = False, set[tuple[str, str]]()

    def warn(self, text: str) -> None:
        """Warn on the first call, with the position of the caller's caller."""
        if not self._warned:
            self._warned = True
            warnings.warn(text, LeverWarning, stacklevel=3)

    def log(self, what: str, why: object, *, figures: bool = False) -> None:
        """Log a failure as a warning; of the same kind of error again at level debug.

        Reasons that are ``figures`` differ each time, and are of one kind.
        """
        kind = type(why).__name__ if isinstance(why, Exception) else str(why)
        cause = what, "" if figures else kind
        level = logging.DEBUG if cause in self._known else logging.WARNING
        self._known.add(cause)
        log.log(level, "scheduling: %s: %s", what, why)
