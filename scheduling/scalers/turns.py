"""Numbers of executors that help: tasks run in turns, and a last turn that is not full is idle."""

from __future__ import annotations

__all__ = ["no_idle", "useful"]

_ROUNDING = 1e-9


def useful(cores: float, tasks: int, each: int = 1) -> int:
    """The least number of executors on which equal tasks take as many turns as on ``cores``.

    12 tasks on 5 cores run in 3 turns, as on 4; on 7 to 11 in 2, as on 6.

    Args:
        cores: wanted, possibly a fraction.
        tasks: of a micro-batch.
        each: the cores of an executor; default 1.

    >>> [useful(cores, 12) for cores in (0.4, 3.2, 4.1, 5, 6.5, 11, 20)]
    [1, 4, 6, 6, 12, 12, 12]
    >>> useful(5, 12, each=2)
    3
    """
    most = -(-tasks // each)
    for count in range(1, most):
        if tasks / -(-tasks // (count * each)) >= cores - _ROUNDING:
            return count
    return most


def no_idle(count: int, tasks: int, each: int = 1) -> int:
    """The least number of executors with as many turns as ``count``.

    >>> [no_idle(count, 12) for count in (3, 5, 8, 40)]
    [3, 4, 6, 12]
    """
    turns = -(-tasks // min(count * each, tasks))
    return -(-tasks // (turns * each))
