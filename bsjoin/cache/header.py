"""The numbers that all processes of a cache share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bsjoin.cache.memory import GrowingArray

_NAMES = (
    "generation",  # the number of the generation in use; 0 before the first
    "dirty",  # whether a write is in progress, or a writer has died
    "members",  # how many processes have used the cache
    "ticks",  # uses so far
    "writes",  # so far, begun ones included; uses are none
    "live",  # entries that are alive, their rows and bytes
    "live_rows",
    "live_bytes",
    "evictions",  # so far
    "policy",  # a checksum of the eviction policy's name; 0 before the first process
    "small",  # entries that are alive in queue 0
    "ghosts",  # evicted keys that were remembered so far
    "ghost_slots",  # the size of the table that remembers them; 0 before the first
    "invalidations",  # so far
    "last_invalidation",  # the number of the last applied record, plus 1; 0 before the first
    "down_until_us",  # the end of the cooldown after a failure: no queries before it
    "warm",  # whether the warm-up has finished
)
# Of the generation in use. Those of the next one are stored next to them until it is complete.
_OF_GENERATION = ("entries", "rows", "bytes", "slots")


class Header:
    """Integers in a memory-mapped file, as attributes."""

    _values: NDArray[np.int64]

    def __init__(self, folder: Path):
        array = GrowingArray(folder / "header", np.int64)
        size = len(_NAMES) + 2 * len(_OF_GENERATION)
        array.reserve(size)
        object.__setattr__(self, "_values", array.view(size))

    def start(self, generation: int, **numbers: int) -> None:
        """Switch atomically to another generation with these numbers."""
        for name, number in numbers.items():
            self._values[_place(name, generation)] = number
        self._values[0] = generation

    def __getattr__(self, name: str) -> int:
        return int(self._values[_place(name, int(self._values[0]))])

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[_place(name, int(self._values[0]))] = value


def _place(name: str, generation: int) -> int:
    if name in _PLACES:
        return _PLACES[name]
    try:
        place = _OF_GENERATION.index(name)
    except ValueError:
        raise AttributeError(name) from None
    return len(_NAMES) + len(_OF_GENERATION) * (generation & 1) + place


_PLACES = {name: place for place, name in enumerate(_NAMES)}
