"""What fails, and when: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

FAULTS: dict[str, tuple[float, float]] = {
    "worker process killed": (0, 0),
    "executor killed": (0, 0),
    "driver killed": (0, 0),
    "database killed": (1, 6),
    "database slow": (2, 8),
    "database half-open": (1, 6),
    "database out of connections": (2, 6),
    "database fails over to another port": (0, 2),
    "network delays": (2, 8),
    "network loses": (1, 5),
    "network resets": (0, 0),
    "disk full": (2, 8),
    "disk read-only": (2, 8),
    "memory for the cache full": (2, 8),
    "refresh": (0, 0),
    "vacuum": (0, 0),
    "another application": (0, 0),
}
"""Each fault, and how many seconds it lasts: the least and the most."""

_OFTEN = ("refresh", "refresh", "refresh", "worker process killed", "vacuum")


@dataclass(frozen=True)
class Event:
    """A fault.

    Args:
        at_s: when it begins, in seconds after the first micro-batch.
        what: a name of :data:`FAULTS`.
        lasts_s: how long it lasts.
        draw: a number in [0, 1) for what the fault itself chooses.
    """

    at_s: float
    what: str
    lasts_s: float
    draw: float


def schedule(seed: int, seconds: float, without: Sequence[str] = ()) -> list[Event]:
    """The faults of a run, in order: each before any comes twice; the last tenth is calm."""
    draw = random.Random(seed)
    possible = [what for what in FAULTS if what not in without]
    events: list[Event] = []
    at, deck = 1.0, list[str]()
    while at < 0.9 * seconds:
        if not deck:
            deck = [*possible, *(what for what in _OFTEN if what in possible)]
            draw.shuffle(deck)
        what = deck.pop()
        least, most = FAULTS[what]
        lasts = round(draw.uniform(least, most), 1)
        events.append(Event(round(at, 1), what, lasts, draw.random()))
        at += draw.uniform(0.5, 4) + (8 if what == "driver killed" else 0)
    return events
