"""The errors that scheduling raises, one tree under :class:`SchedulingError`.

::

    SchedulingError
    ├── ArgumentError (ValueError)      an argument cannot be used
    │   └── ClusterFileError            a cluster file says something that cannot be used
    ├── InfeasibleError                 a task fits no worker, not even an empty one
    ├── TooLargeError                   the case is too large for the exact optimum
    └── ActuatorError                   a plan could not be applied

Each message names the value, the rule and what to do. A task without room *now* is not an error:
it is listed in ``Plan.unplaced``.
"""

import difflib
from collections.abc import Collection

__all__ = ["ActuatorError", "ArgumentError", "ClusterFileError", "InfeasibleError"]
__all__ += ["SchedulingError", "TooLargeError"]


class SchedulingError(Exception):
    """The base class of all errors that scheduling raises."""


class ArgumentError(SchedulingError, ValueError):
    """An argument cannot be used; the message names it, its value and the rule."""


class ClusterFileError(ArgumentError):
    """A cluster file lacks a field, or holds one that cannot be used.

    ``line`` is that of the field, from 1; 0: it is not known.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class InfeasibleError(SchedulingError):
    """A task can never be placed: it is larger than the largest empty worker."""


class TooLargeError(SchedulingError):
    """The search for the exact optimum was stopped: the case has too many placements."""


class ActuatorError(SchedulingError):
    """A plan could not be applied to the cluster."""


def did_you_mean(name: object, known: Collection[str]) -> str:
    """A hint for a name that is not known: the closest one that is, or all of them."""
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}"
