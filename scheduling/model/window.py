"""The input of scalers that are to be replaced; it goes with them."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.model.checks import number, whole

__all__ = ["Window"]


@dataclass(frozen=True)
class Window:
    """The metrics of one operator in one window of time: the input of a scaler.

    Args:
        length_s: the length of the window in seconds.
        tuples_in: input tuples.
        tuples_done: processed tuples.
        latency_s: the processing time of one tuple on one instance in seconds; an instance
            processes 1/``latency_s`` tuples per second.
        parallelism: the number of instances.
        buffered: waiting tuples at the start of the window; default 0.
        busy_s: the processing time of all instances together in seconds (DS2's useful time);
            default 0.
        lost: tuples that did not fit into the buffer; default 0.

    Raises:
        ArgumentError: a number is out of its range.
    """

    length_s: float
    tuples_in: float
    tuples_done: float
    latency_s: float
    parallelism: int
    buffered: float = 0.0
    busy_s: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        number("length_s", self.length_s, above=True)
        number("latency_s", self.latency_s, above=True)
        for name in ("tuples_in", "tuples_done", "buffered", "busy_s", "lost"):
            number(name, getattr(self, name))
        whole("parallelism", self.parallelism, least=1)
